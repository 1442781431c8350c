"""A Farkas block around a branch of one's own, and the starts of the papers on one's own model."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from alive.errors import AliveError
from alive.nn import farkas_block, initialise_
from alive.nn.farkas import guarantees, materialised
from alive.surgery import fixup_


def dense(m: int = 6) -> nn.Sequential:
    return nn.Sequential(nn.Linear(m, 9), nn.Tanh(), nn.Linear(9, m))


def conv(m: int = 6) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(m, 4, 3, padding=1), nn.GELU(), nn.Conv2d(4, m, 1, bias=False), nn.BatchNorm2d(m))


def before_relu(block: nn.Module, x: Tensor) -> Tensor:
    seen: list[Tensor] = []
    with block.relu.register_forward_pre_hook(lambda _, given: seen.append(given[0].detach())):
        block(x)
    return seen[0]


@pytest.mark.law
@pytest.mark.parametrize("aggregation", ["sum", "mean", "learned"])
@pytest.mark.parametrize("make", [dense, conv])
def test_one_unit_lives_at_every_input_whatever_the_branch(make, aggregation):
    shape = (50, 6) if make is dense else (8, 6, 5, 5)
    branch = make()
    with torch.no_grad():
        for p in branch.parameters():
            p.sub_(0.5)
        branch[-1].bias.fill_(-30.0)
    full = farkas_block(branch, aggregation=aggregation)
    projected = farkas_block(branch, nn.Linear(6, 6) if make is dense else nn.Conv2d(6, 6, 1), aggregation=aggregation)
    assert projected.variant == "replace"
    for block in (full, projected):
        for scale in (0.0, 1.0, 30.0):
            x = scale * (torch.rand(shape) if block is full else torch.randn(shape))
            z = before_relu(block, x)
            assert z.shape == x.shape
            assert float(z.amax(1).min()) >= block.guarantee() - 1e-4 - 1e-4 * scale * 30
        block.eval()
        torch.testing.assert_close(materialised(nn.Sequential(block))(x), block(x), atol=1e-3, rtol=1e-4)
        assert guarantees(nn.Sequential(block)) == {"0": block.guarantee()}
    assert len(branch[-1].bias) == 6  # the given one is as it was
    with pytest.raises(AliveError, match="needs a skip ≥ 0"):
        full.train()(torch.randn(shape))


@pytest.mark.parametrize(
    ("branch", "says"),
    [
        (nn.Sequential(nn.Tanh()), "no plain dense or convolutional layer"),
        (nn.Linear(4, 4), "no plain dense or convolutional layer"),
        (nn.Sequential(nn.Linear(4, 1)), "has one unit, or groups"),
        (nn.Sequential(nn.Conv2d(4, 4, 1, groups=2)), "has one unit, or groups"),
        (nn.Sequential(nn.Conv2d(4, 4, 1), nn.Flatten(), nn.LayerNorm([36])), r"has weight of \[36\], not 4 units"),
    ],
)
def test_a_branch_that_cannot_give_up_a_unit_is_refused(branch, says):
    with pytest.raises(AliveError, match=says):
        farkas_block(branch)


class Residual(nn.Module):
    """A block of someone else's."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.one, self.two, self.three = (nn.Conv2d(width, width, 3, padding=1) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(x + self.three(torch.relu(self.two(torch.relu(self.one(x))))))


def stranger() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(3, 16, 3), nn.ReLU(), *(Residual(16) for _ in range(4)), nn.Flatten(), nn.Linear(16 * 36, 5)
    )


def test_fixup_scales_branches_by_their_number_and_zeroes_their_ends():
    net = stranger()
    assert fixup_(net, generator=torch.Generator().manual_seed(0)) == tuple(f"{k}.three" for k in range(2, 6))
    he = math.sqrt(2 / (16 * 9))
    for block in net[2:6]:
        assert not block.three.weight.any()
        for layer in (block.one, block.two):
            assert float(layer.weight.detach().std()) == pytest.approx(he * 4 ** (-1 / 4), rel=0.1)  # L = 4, m = 3
    assert float(net[0].weight.detach().std()) == pytest.approx(he, rel=0.15)
    assert not net[-1].weight.any()
    x = torch.randn(2, 3, 8, 8)
    assert torch.equal(net[:6](x), net[:2](x))  # every block is the identity


@pytest.mark.parametrize(
    ("model", "says"),
    [
        (nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1)), "has no residual sum"),
        (nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Linear(3, 1)), "the model has norms, such as 1"),
    ],
)
def test_fixup_refuses_what_it_is_not_for(model, says):
    with pytest.raises(AliveError, match=says):
        fixup_(model)


def test_near_identity_draws_as_the_paper_says():
    net = stranger()
    initialise_(net, "near-identity", generator=torch.Generator().manual_seed(0))
    assert float(net[0].weight.detach().std()) == pytest.approx(1 / (3 * math.sqrt(16)), rel=0.15)
    for block in net[2:6]:
        for layer in (block.one, block.two, block.three):
            assert float(layer.weight.detach().std()) == pytest.approx(1 / (9 * 16), rel=0.1)
    assert float(net[-1].weight.detach().var()) == pytest.approx(1 / (16 * 36), rel=0.1)
