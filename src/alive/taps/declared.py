"""What users declare of layouts: axes of units by tap, and what whole modules make. It wins, and is checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from math import prod
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import AliveError
from ..provenance import Grid, Layout, Owners, Tracker, tensors


@dataclass(frozen=True, slots=True)
class Output:
    """What the output of a module holds that cannot be followed: units on one axis, points on another.

    >>> Output(unit_axis=-1)
    Output(unit_axis=-1, point_axis=0)
    """

    unit_axis: int
    point_axis: int = 0

    def enter(self, tracker: Tracker, output: Any, path: str, points: int) -> None:
        """Tell the tracker so."""
        for y in tensors(output):
            fits = all(-y.ndim <= axis < y.ndim for axis in (self.unit_axis, self.point_axis))
            if not fits or y.shape[self.point_axis] != points:
                raise AliveError(
                    f"{path} is declared to have {points} points on axis {self.point_axis} and units on axis "
                    f"{self.unit_axis}, and returned {list(y.shape)}",
                    "Declare the axes that its output has: outputs={MyModule: Output(unit_axis=-1, point_axis=0)}",
                )
            start = tracker.families.claim(path, y.shape[self.unit_axis], key=path)
            names = torch.arange(start, start + y.shape[self.unit_axis], dtype=torch.int32)
            rows = torch.arange(points, dtype=torch.int32)
            before = tracker.owners(y)
            tracker.enter(
                y,
                Owners(_along(rows, y, self.point_axis), _along(names, y, self.unit_axis), crossed=before.crossed),
            )


def _along(values: Tensor, y: Tensor, axis: int) -> Tensor:
    return values.view([-1 if d == axis % y.ndim else 1 for d in range(y.ndim)])


def expect_outputs(outputs: Mapping[type[nn.Module], Output]) -> None:
    """Refuse anything but classes of modules, and records of what they make."""
    for kind, made in outputs.items():
        if not (isinstance(kind, type) and isinstance(made, Output)):
            raise AliveError(
                f"outputs maps classes of modules to Output records, got {kind!r}: {made!r}",
                "Write outputs={MyModule: alive.taps.Output(unit_axis=-1, point_axis=0)}",
            )


def declared(unit_axes: Mapping[str, int], name: str, z: Tensor, found: Layout, warn: Callable[[str], None]) -> Layout:
    """The layout with the user's own axis of units, if one is declared for this tap; told if it differs."""
    axis = unit_axes.get(name)
    if axis is None:
        axis = next((a for pattern, a in unit_axes.items() if fnmatchcase(name, pattern)), None)
    if axis is None:
        return found
    if not -z.ndim <= axis < z.ndim:
        raise AliveError(
            f"unit_axes has axis {axis} for {name}, whose pre-activations are of shape {list(z.shape)}",
            f"Give an axis from {-z.ndim} to {z.ndim - 1}",
        )
    own = axis % z.ndim
    grid = found.place
    if isinstance(grid, Grid) and found.units and grid.units != (own,) and (grid.units or z.shape[own] > 1):
        made = f" of {found.made_by}" if found.made_by else ""
        warn(
            f"unit_axes says axis {own} for {name}; its units{made} lie on {list(grid.units) or 'none'}: yours is taken"
        )
    rows = grid.points if isinstance(grid, Grid) else ()
    known = found.points and isinstance(grid, Grid) and own not in rows
    place = Grid(z.ndim, rows if known else (), (own,), z.shape[own], grid.points_fold if known else "")  # type: ignore[union-attr]
    if known and prod(z.shape[d] for d in rows) == 0:
        known = False
    why = tuple(w for w in found.why if not w.startswith("units"))
    if found.points and not known:
        why = (*why, "points: the axis declared for the units holds them too")
    return found._replace(place=place, points=known, units=True, why=why, axes=place.axes if known else None)
