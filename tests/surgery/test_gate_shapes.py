"""The shape of α, and the axis on which the units of a sum lie."""

from __future__ import annotations

import pytest
import torch
from residual_models import Shapeless, Written, branch, gates
from torch import nn

from alive.errors import AliveError
from alive.surgery.phase_out import phase_out


def test_sequences_have_their_units_last():
    model = Written(lambda self, x: x + self.f(x), f=nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 6)))
    x = torch.randn(2, 5, 6)
    for gated in (phase_out(model, x), phase_out(model)):
        assert gates(gated)["gate"].alpha.shape == (6,)
        assert gated(x).shape == x.shape
    assert gates(phase_out(model, x, unit_axis=1))["gate"].alpha.shape == (5,)
    assert gates(phase_out(model, x, alpha="neuron"))["gate"].alpha.shape == (5, 6)
    with pytest.raises(AliveError, match="shape of the skip of the model itself is unknown"):
        phase_out(model, unit_axis=1)


def test_moved_axes_are_not_trusted():
    """[N, T, C] mixed over T by a dense layer: the units of the sum are still the C behind, not the T of the layer."""
    model = Written(lambda self, x: x + self.drop(self.f(x.mT).transpose(1, 2)), f=nn.Linear(5, 5), drop=nn.Identity())
    assert gates(phase_out(model, torch.randn(2, 5, 6)))["gate"].alpha.shape == (6,)
    with pytest.raises(AliveError, match="unknown"):
        phase_out(model)


@pytest.mark.parametrize(("alpha", "shape"), [("scalar", ()), ("channel", (3,)), ("neuron", (3, 5, 5))])
def test_shapes_of_alpha(alpha, shape):
    model = Written(lambda self, x: x + self.f(x), f=branch())
    gated = phase_out(model, torch.randn(2, 3, 5, 5), alpha=alpha)
    assert gates(gated)["gate"].alpha.shape == shape


def test_a_shape_that_only_an_example_tells():
    gated = phase_out(nn.Sequential(Shapeless()), torch.randn(2, 3))
    assert gates(gated)["0.gate"].alpha.shape == (3,)
