"""Five broken networks and two healthy ones, raced in full: examples/seven.py, the numbers of docs/cure.md."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from alive.cures import AS_IS
from alive.diagnosis import census
from alive.race import cure

FILE = Path(__file__).parents[2] / "examples" / "seven.py"
SPEC = importlib.util.spec_from_file_location("seven", FILE)
seven = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(seven)


@pytest.mark.slow
@pytest.mark.parametrize("name", seven.DATA)
def test_the_broken_are_cured_and_the_healthy_left_alone(name: str) -> None:
    data = getattr(seven, seven.DATA[name])()
    found = cure(getattr(seven, name), data, **seven.SETTINGS[name])
    control = found[AS_IS]
    if name in seven.BROKEN:
        assert found.kind == "cured", found.verdict
        assert found[found.winner].trains == 3
        assert found[found.winner].mean - control.mean > 0.3
        assert control.trains == 0
    else:
        assert found.kind == "nothing is wrong", found.verdict
        assert control.trains == 3


@pytest.mark.parametrize("name", seven.DATA)
def test_the_census_sees_what_is_broken(name: str) -> None:
    x, y = getattr(seven, seven.DATA[name])()
    found = census(getattr(seven, name)(), (x[:200], y[:200]), gradient=True)
    assert any(advice.grave for advice in found.findings) == (name in seven.BROKEN)


def test_a_badly_scaled_input_is_cured_by_its_scale() -> None:
    """One of the seven in seconds: fewer steps, two seeds, three cures."""
    cures = ["standardise", "mirrored", "rate/10"]
    found = cure(seven.badly_scaled, seven.large_inputs(), lr=0.003, steps=60, seeds=2, cures=cures)
    assert (found.kind, found.winner) == ("cured", "standardise")
    assert found["standardise"].mean > 0.3
    assert found[AS_IS].mean < 0
