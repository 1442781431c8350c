"""Batch norms that gather their statistics anew, and keep the old ones if they cannot."""

from __future__ import annotations

import pytest
import torch
from residual_models import Net, lived, opened
from torch import Tensor, nn

from alive.errors import AliveError
from alive.surgery.fold import fold, refresh_batch_norm_
from alive.surgery.phase_out import phase_out
from alive_papers.networks.skips import COMPARED


@pytest.mark.twin
def test_refreshed_statistics_are_those_of_the_plain_network():
    """One batch: each norm holds the mean of what reaches it, which is computed here layer by layer."""
    x = torch.randn(64, 8)
    net = lived(opened(COMPARED["van"].dense(8, 3, depth=3, width=5)), x)
    stale, fresh = fold(net).model, fold(net, refresh=x).model
    z = fresh.stem(x)
    for block in fresh.blocks:
        norm, relu, linear = block
        torch.testing.assert_close(norm.running_mean, z.mean(0))
        torch.testing.assert_close(norm.running_var, z.var(0))
        z = linear(relu((z - z.mean(0)) / (z.var(0, unbiased=False) + norm.eps).sqrt() * norm.weight + norm.bias))
    assert not torch.equal(stale(x), fresh(x))
    assert [m.momentum for m in fresh.modules() if isinstance(m, nn.BatchNorm1d)] == [0.1] * 3


def test_refreshing_averages_over_batches_and_leaves_the_rest():
    norm = nn.Sequential(nn.Dropout(0.9), nn.BatchNorm1d(2)).train()
    first, second = torch.randn(8, 2), torch.randn(8, 2) + 3
    refresh_batch_norm_(norm, [(first, None), (second, None)])
    torch.testing.assert_close(norm[1].running_mean, (first.mean(0) + second.mean(0)) / 2)
    assert norm.training
    assert norm[0].training


class Two(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(2)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return self.norm(x * y)


def test_batches_may_hold_several_arguments():
    x, y, labels = torch.randn(8, 2), torch.randn(8, 2), torch.zeros(8)
    for batches in ([(x, y, labels)], [{"x": x, "y": y}]):
        model = Two()
        refresh_batch_norm_(model, batches, arguments=2)
        torch.testing.assert_close(model.norm.running_mean, (x * y).mean(0))


@pytest.mark.parametrize(
    ("batches", "error"), [([], AliveError), ([torch.randn(4, 3), torch.randn(4, 5)], RuntimeError)]
)
def test_a_refresh_that_fails_changes_nothing(batches, error):
    model = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    model(torch.randn(9, 3))
    before = {name: value.clone() for name, value in model.state_dict().items()}
    with pytest.raises(error):
        refresh_batch_norm_(model, batches)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert model[1].momentum == 0.1
    assert model[1].training


def gated_and_batch() -> tuple[nn.Module, Tensor]:
    x = torch.randn(96, 1, 8, 8)
    return lived(opened(phase_out(Net(), x[:4])), x).eval(), 3 * torch.randn(96, 1, 8, 8) + 1


@pytest.mark.twin
@pytest.mark.parametrize("merge", [False, True])
@pytest.mark.parametrize("form", ["tensor", "batches", "batches with labels", "given once", "example"])
@torch.no_grad()
def test_the_difference_is_that_of_the_model_given_back(form, merge):
    """Measured after statistics are gathered anew and norms are merged, on the example or the first batch."""
    gated, x = gated_and_batch()
    batches = {
        "tensor": x,
        "batches": [x[:48], x[48:]],
        "batches with labels": [(x[:48], torch.zeros(48)), (x[48:], torch.zeros(48))],
        "given once": iter([x[:48], x[48:]]),
        "example": iter([x[:48], x[48:]]),
    }
    on = {"tensor": x[:64], "example": x[90:]}.get(form, x[:48])
    example = on if form == "example" else None
    folded = fold(gated, refresh=batches[form], merge_batch_norm=merge, example=example)
    assert folded.difference == float((gated(on) - folded.model.eval()(on)).abs().max())
    assert folded.difference > 0.01, "the statistics were stale"
    twin = fold(gated).model
    refresh_batch_norm_(twin, x if form == "tensor" else [x[:48], x[48:]])
    torch.testing.assert_close(folded.model(x), twin.eval()(x), rtol=1e-4, atol=1e-4)
    assert any(isinstance(module, nn.BatchNorm2d) for module in folded.model.modules()) != merge
