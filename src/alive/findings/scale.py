"""Whether inputs come in a scale that networks can read: of size about one, around zero, no column above all others."""

from __future__ import annotations

from math import isfinite
from typing import NamedTuple

from ..diagnosis.record import Census
from ..diagnosis.signal import Signal
from .finding import Finding, Rule, measured


class Limits(NamedTuple):
    """How many times too much is odd, and how many are grave."""

    odd: float
    grave: float


# As measured on one network (docs/advice.md): odd where R² has fallen by more than 0.1, grave where none of three
# networks trains; each the middle of the last factor of a sweep at which it is not so, and the first at which it is.
LARGE, SMALL, FAR, UNEVEN = Limits(100, 300), Limits(30, 100), Limits(6, 20), Limits(50, 500)


def scale(inputs: Signal | None) -> tuple[str, bool]:
    """What is wrong with the scale of the inputs, and whether it is grave; nothing where it is fine or unknown."""
    if inputs is None or inputs.points < 2 or not inputs.size or not isfinite(inputs.size):
        return "", False
    far = 1 / inputs.spread if inputs.spread else 0.0
    uneven = _unevenness(inputs)
    faults = [
        (inputs.size, LARGE, f"they have a size of {inputs.size:.2g}"),
        (1 / inputs.size, SMALL, f"they have a size of {inputs.size:.2g}"),
        (far, FAR, f"they lie {far:.0f} times as far from zero as from one another"),
        (uneven, UNEVEN, f"one column varies {uneven:.2g} times as much as most"),
    ]
    told = [text for times, limits, text in faults if times > limits.odd]
    grave = any(times > limits.grave for times, limits, _ in faults)
    return f"the inputs are badly scaled: {', and '.join(told)}" if told else "", grave


def _unevenness(inputs: Signal) -> float:
    """How much more the column that varies most does so than the middle one; columns that never vary do not count."""
    deviations = inputs.deviations
    if deviations is None or not bool(deviations.isfinite().all()):
        return 1.0
    varying = deviations[deviations > 0]
    return float(varying.max() / varying.median()) if len(varying) > 1 else 1.0


def see(census: Census) -> Finding | None:
    """What is wrong with the scale of the first input."""
    found, grave = scale(census.input)
    return measured("inputs badly scaled", found, census, grave=grave) if found else None


RULE = Rule(
    "ALV010", "badly scaled inputs", "warning", "inputs that are far too large, too small, off centre or uneven",
    "Raw columns in units of their own: prices beside shares, years, pixels from 0 to 255.",
    "The size, centre and evenness of the first input over the points are compared with limits that were measured "
    "(docs/advice.md): odd, then grave. Where it is grave, the finding is an error.",
    "`model = torch.nn.Sequential(alive.nn.Standardise(x), model)`.",
    see, is_open=lambda census, most: census.input is None,
)  # fmt: skip
