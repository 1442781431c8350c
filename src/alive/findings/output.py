"""The output is the same for every point, whatever path leads around the layers."""

from __future__ import annotations

from typing import Any

from ..diagnosis.record import Census
from ..functional.signals import MERGED
from .broken import is_broken
from .dead_points import all_die
from .finding import Finding, Rule, has_moved, measured

NOISE = 4  # times what the numbers resolve: what rounding leaves between points that have become one


def see(census: Census) -> Finding | None:
    """Rounding alone tells the outputs apart, though inputs differ and the last layer has lost them too.

    A last layer that tells the points apart stands before a head that starts from zero, which is no harm.
    """
    last, out = _last_spread(census), census.output
    if out is None or out.spread is None or last is None or last >= MERGED:
        return None
    same_inputs = census.input is not None and (census.input.spread or 0.0) <= NOISE * census.input.resolution
    if out.spread > NOISE * out.resolution or same_inputs or census.losses or all_die(census) or is_broken(census):
        return None
    found = f"the output is the same for every point: outputs differ by {out.spread:.1e} of their size"
    return measured("infinite after training" if has_moved(census) else "the signal is gone", found, census)


def _last_spread(census: Census) -> float | None:
    """The spread in the last layer in which it is known."""
    return next((a.signal.spread for a in reversed(census.layers) if a.signal.spread is not None), None)


def _is_open(census: Census, most: Any) -> bool:
    known = census.output is not None and census.output.spread is not None
    return not known and (_last_spread(census) or 0.0) < MERGED


RULE = Rule(
    "ALV017", "one output for all points", "error", "outputs that are the same for every point",
    "Training ran away, as at too high a rate, and collapsed; in a fresh network, the signal is lost on all paths.",
    "The spread of the outputs over the points is no more than rounding makes, and in the last layer that is counted "
    "the points lie closer together than a thousandth of their size, though the inputs differ. Paths around layers, "
    "such as skips, do not matter here.",
    "Start anew at a tenth of the learning rate; then warm-up, clipped gradients, or norms before the layers.",
    see, is_open=_is_open,
)  # fmt: skip
