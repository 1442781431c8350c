"""Layers that are measured at the end of a pass, as one that meets its points in several calls: a forward in chunks."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from ..provenance import Grid, Scattered
from ..taps import Call, Tap
from .layer import Layer


class Apart:
    """The calls of a pass that wait for its end, by the name of their layer."""

    def __init__(self) -> None:
        self._calls: dict[str, list[Call]] = {}

    def add(self, call: Call) -> None:
        """Keep what a call gets, which it may be about to change."""
        z = call.z.clone() if call.inplace else call.z
        self._calls.setdefault(call.tap.name, []).append(call._replace(z=z))

    def layers(self) -> Iterator[tuple[Tap, list[Call]]]:
        """Those that were not measured at once, or not as a whole."""
        for calls in self._calls.values():
            tap = calls[-1].tap
            if tap.several or not isinstance(tap.layout.place, Scattered) or tap.inputs > 1:
                yield tap, calls


def joined(tap: Tap, calls: list[Call]) -> Layer:
    """All entries of a layer that is met in several calls, with the point and the unit of each."""
    placed = [_place(call) for call in calls]
    z, rows, units = (torch.cat(parts) for parts in zip(*placed, strict=True))
    width = max(call.tap.layout.place.width for call in calls)
    groups = {"P": (rows, calls[0].points), "U": (units, width), "L": (torch.zeros_like(rows), 1)}
    return Layer(tap.name, z, tap.activation.cutoff, tap.layout.points, tap.layout.units, None, groups)


def _place(call: Call) -> tuple[Tensor, Tensor, Tensor]:
    """The entries in a row, and the point and unit of each."""
    z, layout = call.z, call.tap.layout
    place = layout.place
    if isinstance(place, Scattered):
        assert place.point is not None
        assert place.unit is not None
        return z.reshape(-1), place.point.to(z.device), place.unit.to(z.device)
    assert isinstance(place, Grid)
    whole = layout.arrange(z, call.points)
    row, unit = (
        torch.arange(n, device=z.device).view([-1 if d == axis else 1 for d in range(3)]).expand(whole.shape)
        for axis, n in enumerate(whole.shape[:2])
    )
    return whole.reshape(-1), row.reshape(-1), unit.reshape(-1)
