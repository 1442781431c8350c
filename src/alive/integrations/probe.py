"""Censuses while somebody else's trainer trains: a fixed set of points, looked at now and then, as plain numbers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch import nn

from ..diagnosis import Census, census
from ..diagnosis.census import OPTIONS
from ..errors import AliveError, expect_one_of
from ..history.record import Moment
from .sinks import Sink


class Probe:
    """Takes a census of a model over the same points at every `every`-th step or epoch, and sends its numbers on.

    >>> import torch
    >>> probe = Probe(torch.randn(20, 2), every=10)
    >>> model = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 1))
    >>> probe.look(model, 3), sorted(probe.look(model, 10))[:2]
    ({}, ['alive/broken_points', 'alive/broken_units'])
    """

    def __init__(self, data: Any, *, every: int = 1, sinks: Sink | Iterable[Sink] = (), **options: Any) -> None:
        if not isinstance(every, int) or every < 1:
            raise AliveError(f"every is a whole number from 1 on, got {every!r}")
        for name in options:  # said now, and not at the first look, which may be hours away
            expect_one_of("option of a census", name, OPTIONS)
        self.data, self.every, self.options = data, every, options
        self.sinks = tuple(sinks) if isinstance(sinks, Iterable) else (sinks,)
        self.last: Census | None = None

    def look(self, model: nn.Module, step: int, *, always: bool = False) -> dict[str, float]:
        """The numbers of a census, if one is due at this step; empty otherwise."""
        if not always and step % self.every:
            return {}
        self.last = census(model, self.data, **self.options)
        found = numbers(self.last)
        for sink in self.sinks:
            sink.log(found, step)
        return found


def numbers(found: Census) -> dict[str, float]:
    """A census as numbers for a logger, those that `alive.watch` has for all layers: see docs/watch.md for their names.

    >>> import torch
    >>> model = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 1))
    >>> numbers(census(model, torch.randn(20, 2)))["alive/units"]
    4.0
    """
    return Moment.of(0, found, {}).sums
