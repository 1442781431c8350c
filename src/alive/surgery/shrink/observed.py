"""What every channel does on the data: its least and largest value after every step of the graph."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, fx

from .calls import Call
from .graph import NORM, Reading, name_of

Ends = dict[fx.Node, tuple[Tensor, Tensor]]


class Watch(fx.Interpreter):
    """Runs the graph, and keeps the extremes of every value that has channels."""

    def __init__(self, reading: Reading) -> None:
        super().__init__(reading.graph_module)
        self.reading = reading
        self.ends: Ends = {}

    def run_node(self, n: fx.Node) -> Any:
        """Run one step."""
        value = super().run_node(n)
        layout = self.reading.layouts.get(n)
        if layout is not None and name_of(n) != NORM:
            lo, hi = layout.extremes(value)
            known = self.ends.get(n, (lo, hi))
            self.ends[n] = torch.minimum(known[0], lo), torch.maximum(known[1], hi)
        return value


def observe(reading: Reading, calls: Iterable[Call], size: int) -> Ends:
    """The extremes [C] of every value with channels over all points; the graph takes `size` of them at once."""
    watch = Watch(reading)
    with torch.no_grad():
        for call in calls:
            for part in call.sized(size):
                watch.run(*reading.fed(part))
    return watch.ends
