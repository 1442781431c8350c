"""What a function of one number is, by its values: torch's own activations, scaled and shifted, and what is none."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

from alive.functional.forms import form_of
from alive.taps.kinds import READERS

Function = Callable[[Tensor], Tensor]
KNOWN: dict[str, Function] = {
    "relu": F.relu,
    "relu6": F.relu6,
    "hardtanh": F.hardtanh,
    "leaky_relu": F.leaky_relu,
    "elu": F.elu,
    "celu": lambda z: F.celu(z, 2.0),
    "gelu": F.gelu,
    "silu": F.silu,
    "mish": F.mish,
    "hardswish": F.hardswish,
    "softplus": F.softplus,
}
READ = {"celu": (F.celu, (2.0,))}
OTHERS: dict[str, Function] = {
    "straight": lambda z: 2 * z - 1,
    "size": torch.abs,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "exp": torch.exp,
    "square": torch.square,
    "cube": lambda z: z**3,
    "step": lambda z: (z > 0).double(),
    "sign": torch.sign,
    "log cosh": lambda z: z + F.softplus(-2 * z),
    "snake": lambda z: z + torch.sin(z) ** 2,
    "not a number below 0": torch.log,
    "a hat": lambda z: F.relu(z) * F.relu(1 - z),
    "a floor above 0": lambda z: z.clamp(min=1e-12),
    "a probability off its ends": lambda z: z.clamp(1e-7, 1 - 1e-7),
    "log of that": lambda z: z.clamp(1e-7, 1 - 1e-7).log(),
}
SCALES = st.sampled_from([-3.0, -1.0, 0.1, 1.0, 2.0, 6.0])


@pytest.mark.parametrize("name", KNOWN)
@settings(max_examples=8, deadline=None)
@given(scale=SCALES, offset=st.sampled_from([0.0, -0.7, 2.0]))
def test_an_activation_is_known_up_to_a_scale_and_an_offset(name: str, scale: float, offset: float) -> None:
    function = KNOWN[name]
    form = form_of(lambda z: scale * function(z) + offset)
    assert form is not None
    assert form.activation is not None
    read, more = READ.get(name, (function, ()))
    expected = READERS[read](torch.zeros(1), *more).activation
    assert form.activation.cutoff == pytest.approx(expected.cutoff, abs=1e-9)
    assert form.activation.ceiling == pytest.approx(expected.ceiling)
    assert form.activation.name == expected.name
    assert form.scale == pytest.approx(scale, rel=1e-3)


def test_selu_has_a_scale_of_its_own() -> None:
    form = form_of(F.selu)
    assert form is not None
    assert form.activation == READERS[F.selu](torch.zeros(1)).activation


@pytest.mark.parametrize("threshold", [-2.0, -0.25, 0.3, 1.2345])
def test_a_threshold_is_found_where_it_is(threshold: float) -> None:
    form = form_of(lambda z: z * (z > threshold))
    assert form is not None
    assert form.activation is not None
    assert (form.activation.name, form.activation.cutoff) == ("threshold", threshold)


def test_the_slope_of_squareplus_falls_to_the_tolerance_at_its_cutoff() -> None:
    form = form_of(lambda z: (z + (z * z + 2.5).sqrt()) / 2)
    assert form is not None
    assert form.activation is not None
    z = torch.tensor(form.activation.cutoff, dtype=torch.float64, requires_grad=True)
    ((z + (z * z + 2.5).sqrt()) / 2).backward()
    assert float(z.grad) == pytest.approx(0.1, abs=1e-4)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", OTHERS)
def test_what_has_no_side_that_is_off_is_none(name: str) -> None:
    assert form_of(OTHERS[name]) is None


@pytest.mark.parametrize("shrink", [F.softshrink, F.hardshrink])
def test_shrinkage_is_one_sided_as_no_cutoff_says(shrink: Function) -> None:
    form = form_of(shrink)
    assert form is not None
    assert form.activation is None
    assert form.is_shrinkage
