"""States by brute force over values, and the cutoffs of activations by autograd."""

from __future__ import annotations

from math import inf, nan

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from alive.functional import Activation, State, classify
from alive.functional.activations import TOLERANCE, celu, elu, relu6, selu, softplus

VALUES = st.sampled_from([-inf, -7.0, -2.0, -1.0, -0.0, 0.0, 0.5, 3.0, 6.0, 7.0, inf, nan])


def state_of(values: list[float], activation: Activation) -> State:
    """Definitions 1 and 2 on the values themselves."""
    if any(v != v or v in (inf, -inf) for v in values):
        return State.BROKEN
    if all(v <= activation.cutoff for v in values) or all(v >= activation.ceiling for v in values):
        return State.DEAD
    if all(activation.cutoff < v <= activation.ceiling for v in values):
        return State.LINEAR
    return State.NONLINEAR


@pytest.mark.law
@pytest.mark.parametrize("activation", [Activation("relu"), relu6(), elu(), Activation("mine", 0.5, 3.0)])
@given(values=st.lists(VALUES, min_size=1, max_size=5))
def test_states_from_extremes_equal_states_from_all_values(activation: Activation, values: list[float]) -> None:
    z = torch.tensor(values)
    assert classify(z.amax(), z.amin(), activation).item() == state_of(values, activation)


def test_states_keep_the_shape() -> None:
    z = torch.randn(2, 3, 4)
    assert classify(z, z - 1, Activation("relu")).shape == (2, 3, 4)


@pytest.mark.law
@pytest.mark.parametrize(
    ("module", "activation"),
    [
        (nn.ELU(), elu()),
        (nn.ELU(3.0), elu(3.0)),
        (nn.CELU(), celu()),
        (nn.CELU(0.5), celu(0.5)),
        (nn.SELU(), selu()),
        (nn.Softplus(), softplus()),
        (nn.Softplus(beta=4.0), softplus(4.0)),
    ],
)
def test_the_slope_at_the_cutoff_is_the_tolerance(module: nn.Module, activation: Activation) -> None:
    z = torch.tensor(activation.cutoff, dtype=torch.float64, requires_grad=True)
    module(z).backward()
    assert z.grad.item() == pytest.approx(TOLERANCE)


@pytest.mark.law
@pytest.mark.parametrize("alpha", [0.0, 0.01, 0.099, 0.1, 0.2, 1.0, 5.0])
def test_an_elu_is_off_below_its_cutoff_and_on_above(alpha: float) -> None:
    cutoff = elu(alpha).cutoff
    z = torch.tensor([cutoff - 1e-3, cutoff + 1e-3], dtype=torch.float64, requires_grad=True)
    nn.functional.elu(z, alpha).sum().backward()
    assert z.grad[0] <= TOLERANCE <= z.grad[1]
