"""What every channel does on the data: its least and largest value after every step of the graph."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor, fx

from ..graph.calls import Call
from ..graph.channels import BENT, NORM, Reading, name_of
from .boxes import Box

STEPS = 12  # uphill
Ends = dict[fx.Node, tuple[Tensor, Tensor]]


class _Reached(Exception):
    """The value that was asked for is there."""


def observe(reading: Reading, calls: Iterable[Call], size: int, ends: Ends | None = None) -> Ends:
    """The extremes [C] of every value with channels over all points; the graph takes `size` of them at once."""
    ends = {} if ends is None else ends

    def note(node: fx.Node, value: Any) -> None:
        layout = reading.layouts.get(node)
        if layout is not None and name_of(node) != NORM:
            lo, hi = layout.extremes(value)
            known = ends.get(node, (lo, hi))
            ends[node] = torch.minimum(known[0], lo), torch.maximum(known[1], hi)

    with torch.no_grad():
        for call in calls:
            for part in call.sized(size):
                reading.run(part, note)
    return ends


def merged(one: Ends, other: Ends) -> Ends:
    """Extremes over the points of both."""
    both = {
        node: (torch.minimum(lo, one[node][0]), torch.maximum(hi, one[node][1])) for node, (lo, hi) in other.items()
    }
    return {**one, **both}


def quiet(reading: Reading, ends: Ends) -> dict[fx.Node, Tensor]:
    """Of the value before each activation, which of its channels [C] never leave one piece, of those that may go."""
    found = {}
    for node in reading.nodes:
        source: Any = node.args[0] if node.args else None
        met = name_of(node) in BENT and source in ends
        if met and not all(space.fixed for space in reading.spaces_of(source)):
            found[source] = reading.pieces(node).within(*ends[source]) >= 0
    return found


def margins(reading: Reading, ends: Ends) -> dict[tuple[str, int], float]:
    """By layer and unit, how far pre-activations stay from the next knot, in parts of their own range."""
    found: dict[tuple[str, int], float] = {}
    for node in reading.nodes:
        source: Any = node.args[0] if node.args else None
        space = reading.space_of(source) if name_of(node) in BENT and source in ends else None
        if space is None:
            continue
        lo, hi = ends[source]
        pieces = reading.pieces(node)
        knots = torch.tensor((-torch.inf, *pieces.knots, torch.inf), dtype=lo.dtype)
        piece = pieces.within(lo, hi)
        free = torch.minimum(lo - knots[piece.clamp(min=0)], knots[piece.clamp(min=0) + 1] - hi) / (hi - lo)
        for unit in ((piece >= 0) & free.isfinite()).nonzero()[:, 0].tolist():
            for layer in space.producers:
                known = found.get((layer.path, unit), torch.inf)
                found[layer.path, unit] = min(known, float(free[unit]))
    return found


def provoke(reading: Reading, box: Box, calls: Iterable[Call], size: int) -> Ends:
    """Extremes over points of a box that were looked for: those of the calls, and then uphill for each unit in turn."""
    ends = observe(reading, (box.given(box.nearest(call.leaves()[0])) for call in calls), size)
    for node in reading.nodes:
        source = node.args[0] if node.args else None
        if name_of(node) in BENT and isinstance(source, fx.Node) and source in ends:
            for sign in (1.0, -1.0):
                quiet = (reading.pieces(node).within(*ends[source]) >= 0).nonzero()[:, 0]
                for units in quiet.split(size) if len(quiet) else ():
                    x = _climb(reading, box, source, units, sign, size)
                    observe(reading, [box.given(x)], size, ends)
    return ends


def _climb(reading: Reading, box: Box, node: fx.Node, units: Tensor, sign: float, size: int) -> Tensor:
    """Points of the box, one a unit, that go uphill in what the unit reads, with steps that become shorter."""
    layout, values = reading.layouts[node], dict[fx.Node, Tensor]()
    chance = torch.Generator().manual_seed(box.seed)
    x = box.lo + torch.rand((size, *box.lo.shape), generator=chance, dtype=torch.float64) * (box.hi - box.lo)
    own = units[torch.arange(size) % len(units)]

    def note(n: fx.Node, value: Any) -> None:
        if n is node:
            values[n] = value
            raise _Reached

    for step in range(STEPS):
        call = box.given(x)
        given = call.leaves()[0].requires_grad_()
        with torch.enable_grad():
            with suppress(_Reached):
                reading.run(call, note)
            z = values[node].reshape(*values[node].shape[: layout.axis], layout.channels, -1).movedim(layout.axis, 1)
            if z.ndim < 3 or len(z) != size:
                return x
            height = (sign * z.flatten(2)[torch.arange(size), own]).amax(1).sum()
            (slope,) = torch.autograd.grad(height, given)
        x = box.nearest(x + 0.5 ** (step // 2) * slope.detach().cpu().double().sign() * (box.hi - box.lo))
    return x
