"""The output is the same for every point, whatever path leads around the layers."""

from __future__ import annotations

from typing import Any

from ..diagnosis.record import Census
from ..diagnosis.signal import Signal
from ..functional.signals import MERGED
from .broken import is_broken
from .dead_points import all_die
from .finding import Finding, Rule, has_moved, measured

NOISE = 4  # times what the numbers resolve: what rounding leaves between points that have become one
COLLAPSED = 0.01  # of the spread at first, in layers with ways around them: six transformer layers that training
# collapsed had at most .004 in the last one, and .002 at the output; those that learned, .29 and more


def see(census: Census) -> Finding | None:
    """Next to nothing tells the outputs apart, though inputs differ and the last layer has lost them too.

    A last layer that tells the points apart stands before a head that starts from zero, which is no harm. What has
    learned something by its loss has not collapsed, however close its outputs are to one another.
    """
    last, out, moved = _last_spread(census), census.output, has_moved(census)
    if out is None or out.spread is None or last is None:
        return None
    same_inputs = census.input is not None and (census.input.spread or 0.0) <= NOISE * census.input.resolution
    learned = census.task is not None and census.task.chance is not None and not census.task.is_at_chance
    if same_inputs or learned or census.losses or all_die(census) or is_broken(census):
        return None
    spreads = [layer.signal.spread or 0.0 for layer in census.layers]
    collapsed = moved and any(layer.bypassed for layer in census.layers)
    if max(last, out.spread) >= COLLAPSED * max(spreads) if collapsed else not _is_rounding(last, out):
        return None
    found = f"the output is the same for every point: outputs differ by {out.spread:.1e} of their size"
    return measured("collapsed" if moved else "the signal is gone", found, census)


def _is_rounding(last: float, out: Signal) -> bool:
    return last < MERGED and (out.spread or 0.0) <= NOISE * out.resolution


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
    "the points lie closer together than a thousandth of their size, though the inputs differ. After training, in a "
    "network with ways around its layers, such as skips: outputs and the last layer have less than a hundredth of the "
    "largest spread of a layer. With `--loss`, none is found if the loss is below that of one answer for all points.",
    "Start anew at a tenth of the learning rate, or with warm-up.",
    see, is_open=_is_open,
)  # fmt: skip
