"""Layers that meet their points in several calls of one pass, as a forward in chunks: measured when all are met."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from ..provenance import Grid, Scattered
from ..taps import Call, Tap
from .layer import Layer


class Apart:
    """What such calls of a pass get, by the name of their layer."""

    def __init__(self) -> None:
        self._calls: dict[str, list[tuple[Tap, Tensor, int]]] = {}

    def add(self, call: Call) -> None:
        """Keep what a call gets, which it may be about to change."""
        z = call.z.clone() if call.inplace else call.z
        self._calls.setdefault(call.tap.name, []).append((call.tap, z, call.points))

    def layers(self) -> Iterator[tuple[Layer, Tap]]:
        """The layers that were met in several calls, each with points of its own."""
        for calls in self._calls.values():
            tap = calls[-1][0]
            if tap.several:
                yield _layer(calls), tap


def _layer(calls: list[tuple[Tap, Tensor, int]]) -> Layer:
    """All entries of a layer, with the point and the unit of each."""
    tap, z, points = calls[0]
    placed = [_placed(tap, z, points) for tap, z, points in calls]
    z, rows, units = (torch.cat(parts) for parts in zip(*placed, strict=True))
    width = max(tap.layout.place.width for tap, _, _ in calls)
    groups = {"P": (rows, points), "U": (units, width), "L": (torch.zeros_like(rows), 1)}
    return Layer(tap.name, z, tap.activation.cutoff, True, True, None, groups)


def _placed(tap: Tap, z: Tensor, points: int) -> tuple[Tensor, Tensor, Tensor]:
    """The entries in a row, and the point and unit of each."""
    place = tap.layout.place
    if isinstance(place, Scattered):
        assert place.point is not None
        assert place.unit is not None
        return z.reshape(-1), place.point.to(z.device), place.unit.to(z.device)
    assert isinstance(place, Grid)
    whole = tap.layout.arrange(z, points)
    row, unit = (
        torch.arange(n, device=z.device).view([-1 if d == axis else 1 for d in range(3)]).expand(whole.shape)
        for axis, n in enumerate(whole.shape[:2])
    )
    return whole.reshape(-1), row.reshape(-1), unit.reshape(-1)
