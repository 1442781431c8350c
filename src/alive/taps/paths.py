"""What the end of a pass shows of its calls: which are no layers, but guards, terms of a loss, or parts of a layer."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from math import prod

from torch import Tensor

from ..provenance import INPUTS, Owners, Tracker
from .pass_state import Crossing, PassState

PARTS = "runs several times on rows of which it is not known whose they are: they may be parts of one layer"
UNSURE, SURE, OF_LOSSES, BOUND = range(4)  # whether an activation is a layer: of losses and bounds, its use decides


def guards_and_losses(
    crossings: list[Crossing], outputs: list[tuple[Tensor, Owners]], tracker: Tracker
) -> Iterator[tuple[Crossing, str]]:
    """Calls that turn out to be no layers, by which of the outputs they lead to, and why."""
    families = tracker.families
    by_point = [o.behind for t, o in outputs if t.ndim and o.of_points(t)]
    reached = reduce(int.__or__, by_point, families.fed)
    for k, call in enumerate(crossings):
        bit, why = INPUTS + k, "it meets no weights again, and "
        if call.entry.layout is None:  # it is part of another
            continue
        lead_to = [o.behind for _, o in outputs if o.behind >> bit & 1] if call.sure == OF_LOSSES else ()
        if families.is_compared(k, call.behind, lead_to):
            yield call, f"seems to be part of a loss: {why}is compared with what came with the batch"
        elif not reached >> bit & 1 and families.targets >> bit & 1:
            yield call, f"seems to be part of a loss: {why}meets numbers of its own for each point, as targets are"
        elif call.sure == BOUND and not families.fed >> bit & 1:
            yield call, "bounds what meets no weights again: taken for a guard"
        elif call.sure in (UNSURE, OF_LOSSES) and not reached >> bit & 1:
            yield call, f"seems to be part of a loss: {why}leaves the model only in a mean over points"


def perhaps_parts(state: PassState, aside: set[str]) -> list[Crossing]:
    """Calls of the same weights, each on fewer rows than there are points, of which it is not known which."""
    alike: dict[tuple[str, str], list[Crossing]] = {}
    for call in state.crossings:
        layout = call.entry.layout
        if layout is None or layout.points or not layout.units or not layout.made_by or call.entry.name in aside:
            continue
        if prod(call.entry.shape) < state.points * layout.place.width:
            alike.setdefault((call.base, layout.made_by), []).append(call)
    return [call for calls in alike.values() if len(calls) > 1 for call in calls]
