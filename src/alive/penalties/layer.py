"""One layer as the penalty measures it: its pre-activations arranged, and which axes can be asked for there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from ..functional import Separation
from ..provenance import Grid, Scattered
from ..taps import Tap


class Layer(NamedTuple):
    """Pre-activations z with points and units on an axis each (`axes`), or in groups of entries (`groups`)."""

    name: str
    z: Tensor
    cutoff: float
    points: bool
    units: bool
    axes: tuple[int, int] | None  # of the points and the units in the tensor as it was
    groups: Mapping[str, tuple[Tensor, int]] | None

    @property
    def where(self) -> dict[str, int]:
        """The axes of z, as the slacks want them."""
        point_axis, unit_axis = self.axes or (0, 1)
        return {"unit_axis": unit_axis, "point_axis": point_axis}

    def rule(self, rule: Separation | None) -> Separation | None:
        """Of the rule, what can be asked of this layer; None if nothing can."""
        if rule is None or (self.groups is not None and rule.conv == "position"):
            return None
        return rule if self.points and self.units else _askable(rule, self.points, self.units)


@lru_cache(maxsize=256)
def _askable(rule: Separation, points: bool, units: bool) -> Separation | None:
    asked = [axis for axis in rule.axes if axis == "L" or (axis == "U" and units) or (axis == "P" and points)]
    if not asked or (rule.conv == "position" and rule.mode != "L"):
        return None
    return replace(rule, mode="".join(asked))


def arranged(z: Tensor, tap: Tap, points: int) -> Layer:
    """The layer of a tap."""
    layout, cutoff = tap.layout, tap.activation.cutoff
    known = (layout.points, layout.units)
    if isinstance(layout.place, Scattered):
        return Layer(tap.name, z, cutoff, *known, None, _groups(layout.place, points, z))
    axes = _axes(layout.place, z)
    if axes is not None and all(known):
        return Layer(tap.name, z, cutoff, *known, axes, None)
    return Layer(tap.name, layout.arrange(z, points), cutoff, *known, None, None)


def _axes(grid: Grid, z: Tensor) -> tuple[int, int] | None:
    """The axes of points and units in z itself; of one point or one unit, an axis of size 1 that nobody else has."""
    if grid.axes is not None:
        return grid.axes
    if grid.points_fold or grid.units_fold or len(grid.points) > 1 or len(grid.units) > 1:
        return None
    taken = {*grid.points, *grid.units}
    free = [d for d in range(z.ndim) if z.shape[d] == 1 and d not in taken]
    point = grid.points[0] if grid.points else free.pop(0) if free else None
    unit = grid.units[0] if grid.units else free.pop(0) if free else None
    return None if point is None or unit is None else (point, unit)


def _groups(place: Scattered, points: int, z: Tensor) -> dict[str, tuple[Tensor, int]]:
    whole = torch.zeros(z.numel(), dtype=torch.long)
    groups = {"P": (place.point, points), "U": (place.unit, place.width), "L": (whole, 1)}
    return {axis: (index.to(z.device), count) for axis, (index, count) in groups.items() if index is not None}
