"""What every channel does on the data: its least and largest value after every step of the graph."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor, fx

from .boxes import Box
from .calls import Call
from .graph import BENT, NORM, Reading, name_of

STEPS = 12  # uphill
Ends = dict[fx.Node, tuple[Tensor, Tensor]]


class Reached(Exception):
    """The value that was asked for is there."""


class Watch(fx.Interpreter):
    """Runs the graph, and keeps the extremes of every value that has channels."""

    def __init__(self, reading: Reading) -> None:
        super().__init__(reading.graph_module)
        self.reading = reading
        self.ends: Ends = {}
        self.last: fx.Node | None = None  # whose value is kept
        self.value = torch.empty(0)

    def run_node(self, n: fx.Node) -> Any:
        """Run one step."""
        value = super().run_node(n)
        if n is self.last:
            self.value = value
            raise Reached
        layout = self.reading.layouts.get(n)
        if layout is not None and name_of(n) != NORM:
            lo, hi = layout.extremes(value)
            known = self.ends.get(n, (lo, hi))
            self.ends[n] = torch.minimum(known[0], lo), torch.maximum(known[1], hi)
        return value


def observe(reading: Reading, calls: Iterable[Call], size: int, watch: Watch | None = None) -> Ends:
    """The extremes [C] of every value with channels over all points; the graph takes `size` of them at once."""
    watch = watch or Watch(reading)
    with torch.no_grad():
        for call in calls:
            for part in call.sized(size):
                watch.run(*reading.fed(part))
    return watch.ends


def provoke(reading: Reading, box: Box, calls: Iterable[Call], size: int) -> Ends:
    """Extremes over points of a box that were looked for: those of the calls, and then uphill for each unit in turn."""
    watch = Watch(reading)
    observe(reading, (box.given(box.nearest(call.leaves()[0])) for call in calls), size, watch)
    for node in reading.graph_module.graph.nodes:
        source = node.args[0] if node.args else None
        if name_of(node) in BENT and isinstance(source, fx.Node) and source in watch.ends:
            for sign in (1.0, -1.0):
                quiet = (reading.pieces(node).within(*watch.ends[source]) >= 0).nonzero()[:, 0]
                for part in quiet.split(size) if len(quiet) else ():
                    _climb(reading, box, watch, source, part, sign, size)
    return watch.ends


def _climb(reading: Reading, box: Box, watch: Watch, node: fx.Node, units: Tensor, sign: float, size: int) -> None:
    """Let one point a unit go uphill in what the unit reads, with steps that become shorter."""
    layout = reading.layouts[node]
    chance = torch.Generator().manual_seed(box.seed)
    x = box.lo + torch.rand((size, *box.lo.shape), generator=chance, dtype=torch.float64) * (box.hi - box.lo)
    own = units[torch.arange(size) % len(units)]
    for step in range(STEPS):
        call = box.given(x)
        given = call.leaves()[0].requires_grad_()
        with torch.enable_grad():
            watch.last = node
            with suppress(Reached):
                watch.run(*reading.fed(call))
            z = watch.value.reshape(*watch.value.shape[: layout.axis], layout.channels, -1).movedim(layout.axis, 1)
            rows = z.flatten(2) if z.ndim > 2 else z[..., None]
            if len(rows) != size:
                watch.last = None
                return
            height = (sign * rows[torch.arange(size), own]).amax(1).sum()
            (slope,) = torch.autograd.grad(height, given)
        x = x + 0.5 ** (step // 2) * slope.detach().cpu().double().sign() * (box.hi - box.lo)
        x = box.nearest(x)
    watch.last = None
    observe(reading, [box.given(x)], size, watch)
