"""Fixup networks: the start by its formula, the numbers counted by hand, a block written out."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from alive.errors import AliveError
from alive_papers.networks.fixup import FixupBlock, FixupNet, Scale, Shift


def test_fixup34_counted_by_hand():
    """[5, 5, 5] at 16, 32, 64 without conv biases; four shifts and a scale a block; two shifts and the head beside."""
    net = FixupNet(3, 10)
    convs = 3 * 16 * 9
    for width, before in ((16, 16), (32, 16), (64, 32)):
        convs += 9 * (before * width + 9 * width * width)
    assert sum(p.numel() for p in net.parameters()) == convs + 15 * 5 + 2 + 64 * 10 + 10


@pytest.mark.parametrize(("block", "layers"), [("basic", 2), ("bottleneck", 3)])
def test_branches_start_scaled_and_end_in_zero(block, layers):
    net = FixupNet(3, 10, stages=(4, 5), base=64, block=block)
    found = [m for m in net.modules() if isinstance(m, FixupBlock)]
    assert len(found) == 9
    scale = 9 ** (-1 / (2 * layers - 2))
    for b in found:
        assert not b.convs[-1].weight.any()
        for conv in b.convs[:-1]:
            deviation = scale * math.sqrt(2 / (conv.weight.shape[0] * conv.weight[0, 0].numel()))
            assert conv.weight.std().item() == pytest.approx(deviation, rel=0.12)
    assert not net.output.weight.any()
    assert not net.output.bias.any()


@pytest.mark.twin
def test_a_block_written_out():
    block = FixupBlock(3, 5, inner=5, kernels=(3, 3), stride=2)
    with torch.no_grad():
        for p in block.parameters():
            p.normal_()
    x = torch.randn(2, 3, 7, 7)
    (a1, a2), (b1, b2) = [s.bias for s in block.before], [s.bias for s in block.after]
    out = nn.functional.conv2d(x + a1, block.convs[0].weight, stride=2, padding=1)
    out = nn.functional.conv2d((out + b1).relu() + a2, block.convs[1].weight, padding=1) * block.scale.scale + b2
    skip = nn.AvgPool2d(1, stride=2)(x + a1)
    skip = torch.cat([skip, torch.zeros(2, 2, 4, 4)], 1)
    torch.testing.assert_close(block(x), (out + skip).relu())


def test_the_network_starts_as_its_skips():
    block = FixupNet(1, 3, stages=(2,), base=4).stages[0]
    x = torch.rand(2, 4, 6, 6)
    assert torch.equal(block(x), x)


@pytest.mark.parametrize(
    ("options", "side"),
    [({}, 32), ({"preset": "imagenet50", "stages": (1, 1), "base": 128}, 33), ({"preset": "50"}, 8)],
)
def test_shapes(options, side):
    assert FixupNet(3, 7, **options)(torch.rand(1, 3, side, side)).shape == (1, 7)


def test_the_head_learns_first_then_the_last_layers_then_all():
    net = FixupNet(1, 3, stages=(1, 1), base=4, generator=torch.Generator().manual_seed(0))
    x, y = torch.rand(16, 1, 8, 8), torch.arange(16) % 3
    optimiser = torch.optim.SGD(net.parameter_groups(0.5), lr=0.5)
    learning = []
    for _ in range(3):
        optimiser.zero_grad()
        nn.functional.cross_entropy(net(x), y).backward()
        optimiser.step()
        learning.append({name for name, p in net.named_parameters() if p.grad.any()})
    assert learning[0] == {"output.weight", "output.bias"}
    assert {"stages.0.0.convs.1.weight", "stages.1.0.convs.1.weight"} < learning[1]
    assert "stages.0.0.convs.0.weight" not in learning[1]
    assert learning[2] == {name for name, _ in net.named_parameters()}


def test_single_numbers_learn_at_a_tenth_and_do_not_decay():
    net = FixupNet(3, 10)
    weights, single = net.parameter_groups(0.1, weight_decay=5e-4)
    assert len(single["params"]) == sum(isinstance(m, Shift | Scale) for m in net.modules()) == 15 * 5 + 2
    assert len(weights["params"]) + len(single["params"]) == len(list(net.parameters()))
    assert (single["lr"], single["weight_decay"]) == (pytest.approx(0.01), 0.0)


def test_one_generator_starts_all():
    state = torch.get_rng_state()
    a, b = (FixupNet(1, 3, stages=(1,), base=4, generator=torch.Generator().manual_seed(5)) for _ in range(2))
    assert torch.equal(torch.get_rng_state(), state)
    for ours, theirs in zip(a.parameters(), b.parameters(), strict=True):
        assert torch.equal(ours, theirs)


def test_refusals():
    with pytest.raises(AliveError, match="unknown preset"):
        FixupNet(3, 10, preset="33")
    with pytest.raises(AliveError, match="channels must be at least 1"):
        FixupNet(0, 10)
    with pytest.raises(AliveError, match="expected images"):
        FixupNet(3, 10)(torch.rand(2, 1, 32, 32))
    with pytest.raises(AliveError, match="cannot narrow"):
        FixupBlock(4, 2, inner=2, kernels=(3, 3))
