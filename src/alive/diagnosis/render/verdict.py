"""The verdict: one sentence on a census, never better than what was measured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..advice import Advice
from ..record import Census


class Verdict(NamedTuple):
    """A sentence, and whether it is grave: the network can hardly learn as it is."""

    text: str
    grave: bool = False


def verdict(census: Census, advice: Sequence[Advice]) -> Verdict:
    """Serious if the signal is gone or a finding is serious; "all alive" only if nothing was found."""
    grave = any(each.grave for each in advice)
    if grave or census.gone:
        return Verdict("As it is, this network can hardly learn" + ("." if grave else f": {census.gone}."), True)
    if advice:
        some = "One thing found, and it is" if len(advice) == 1 else f"{len(advice)} things found, and they are"
        return Verdict(f"{some} not grave.{_unmeasured(census)}")
    return Verdict(f"Every unit and every point is alive.{_unmeasured(census)}")


def _unmeasured(census: Census) -> str:
    """What may still be wrong, because it was not measured."""
    asked = any(layer.signal.gradient is not None for layer in census.layers)
    return "" if asked else " Whether gradients come back was not measured: --gradient, or census(..., gradient=True)."
