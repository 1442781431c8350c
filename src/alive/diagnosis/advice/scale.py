"""Whether inputs come in a scale that networks can read: of size about one, around zero, no column above all others."""

from __future__ import annotations

from math import isfinite

from ..signal import Signal

ODD, GRAVE = 100.0, 1000.0  # times too large, too small, too far from zero, or too uneven


def scale(inputs: Signal | None) -> tuple[str, bool]:
    """What is wrong with the scale of the inputs, and whether it is grave; nothing where it is fine or unknown."""
    if inputs is None or inputs.points < 2 or not inputs.size or not isfinite(inputs.size):
        return "", False
    far = 1 / inputs.spread if inputs.spread else 0.0
    uneven = _unevenness(inputs)
    faults = [
        (inputs.size, f"they have a size of {inputs.size:.2g}"),
        (1 / inputs.size, f"they have a size of {inputs.size:.2g}"),
        (far, f"they lie {far:.0f} times as far from zero as from one another"),
        (uneven, f"one column varies {uneven:.2g} times as much as most"),
    ]
    told = [text for times, text in faults if times > ODD]
    if not told:
        return "", False
    return f"the inputs are badly scaled: {', and '.join(told)}", max(times for times, _ in faults) > GRAVE


def _unevenness(inputs: Signal) -> float:
    """How much more the column that varies most does so than the middle one; columns that never vary do not count."""
    deviations = inputs.deviations
    if deviations is None or not bool(deviations.isfinite().all()):
        return 1.0
    varying = deviations[deviations > 0]
    return float(varying.max() / varying.median()) if len(varying) > 1 else 1.0
