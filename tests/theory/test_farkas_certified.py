"""The library's own Farkas layers, certified by linear programming instead of by their construction."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from alive.nn.farkas import FarkasConv1d, FarkasConv2d, FarkasLinear
from alive.theory import certify, verify


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("aggregation", ["sum", "mean", "learned"])
@pytest.mark.parametrize("bias_mode", ["strict", "softplus"])
@pytest.mark.parametrize("cutoff", [0.0, 1.0, -2.0])
def test_dense_layers_have_at_least_the_margin_they_promise(aggregation, bias_mode, cutoff):
    layer = FarkasLinear(
        12, 6, aggregation=aggregation, bias_mode=bias_mode, cutoff=cutoff, margin=0.01, generator=seeded(1)
    )
    found = certify(layer, cutoff=cutoff)
    assert found.verdict == "alive"
    assert verify(layer, found)
    assert cutoff + found.margin >= layer.guarantee() - 1e-5
    assert found.valid_for_norm_up_to >= 1e4


@pytest.mark.parametrize(
    ("make", "size"),
    [
        (lambda: FarkasConv2d(2, 4, 3, padding=1, margin=0.01, generator=seeded(2)), (5, 6)),
        (lambda: FarkasConv2d(2, 5, 3, padding=1, stride=2, groups=2, margin=0.01, generator=seeded(3)), (6, 6)),
        (lambda: FarkasConv1d(3, 4, 3, dilation=2, padding=2, margin=0.01, generator=seeded(4)), (7,)),
    ],
)
def test_convolutions_are_certified_at_every_position(make, size):
    layer = make()
    found = certify(layer, size=size)
    assert [case.verdict for case in found.cases] == ["alive"] * len(found.cases)
    assert verify(layer, found)
    with torch.no_grad():
        positions = layer(torch.zeros(1, layer.in_channels, *size))[0, 0].numel()
    assert sum(case.positions for case in found.cases) == positions


def test_the_papers_equality_mode_is_dead_at_zero_with_zero_biases():
    layer = FarkasLinear(4, 3, bias_mode="paper", generator=seeded(5))
    nn.init.zeros_(layer.bias)
    found = certify(layer)
    assert found.verdict == "dead"
    assert torch.equal(layer(found.dead_input.float()).relu(), torch.zeros(3))


def test_a_plain_layer_of_the_same_size_is_dead():
    layer = nn.Linear(12, 6)
    found = certify(layer)
    assert found.verdict == "dead"
    with torch.no_grad():
        assert torch.equal(layer.double()(found.dead_input).relu(), torch.zeros(6, dtype=torch.float64))
