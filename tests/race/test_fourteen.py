"""Broken networks, healthy ones and shuffled labels, raced in full: examples/fourteen.py and docs/cure.md."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
import torch

from alive.cures import AS_IS
from alive.diagnosis import census
from alive.race import cure

FILE = Path(__file__).parents[2] / "examples" / "fourteen.py"
SPEC = importlib.util.spec_from_file_location("fourteen", FILE)
fourteen = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(fourteen)


AT_RATE = ("too_fast", "no_warm_up", "relu_at_the_end")  # not broken before they are trained, or under some seeds


@pytest.mark.slow
@pytest.mark.parametrize("name", fourteen.DATA)
def test_the_broken_are_cured_and_the_healthy_left_alone(name: str) -> None:
    data = getattr(fourteen, fourteen.DATA[name])()
    found = cure(getattr(fourteen, name), data, **({"seeds": 2} | fourteen.SETTINGS[name]))
    control = found[AS_IS]
    if name in fourteen.BROKEN:
        assert found.kind == "cured", found.verdict
        assert found[found.winner].trains == 2
        assert control.trains < 2
    elif name in fourteen.HEALTHY:
        assert found.kind == "nothing is wrong", found.verdict
        assert control.trains == 2
    else:
        assert found.kind == "nothing helps", found.verdict


@pytest.mark.parametrize("name", [name for name in fourteen.DATA if name not in AT_RATE])
def test_the_census_sees_what_is_broken_and_blames_no_units_else(name: str) -> None:
    """Before training; what a rate does is not there yet."""
    x, y = getattr(fourteen, fourteen.DATA[name])()
    torch.manual_seed(0)
    found = census(getattr(fourteen, name)(), (x[:200], y[:200]), gradient=True)
    assert any(advice.grave for advice in found.findings) == (name in fourteen.BROKEN)


def test_a_badly_scaled_input_is_cured_by_its_scale() -> None:
    """One of the fourteen in seconds: fewer steps, two seeds, three cures."""
    cures = ["standardise", "mirrored", "rate/10"]
    found = cure(fourteen.badly_scaled, fourteen.large_inputs(), lr=0.003, steps=60, seeds=2, cures=cures)
    assert (found.kind, found.winner) == ("cured", "standardise")
    assert found["standardise"].mean > 0.3
    assert found[AS_IS].mean < 0
