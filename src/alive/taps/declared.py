"""What users declare of their models. Their word wins, and is checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from math import prod
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import AliveError
from ..functional.activations import Activation
from ..provenance import Grid, Layout, Owners, Tracker, tensors
from .selections import Selects


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
                    "Declare the axes that it has, as in {MyModule: alive.Output(unit_axis=-1, point_axis=0)}",
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


OF_CLASSES = {
    "activations": (Activation, "{MyActivation: alive.Activation('mine', cutoff=0.0)}"),
    "outputs": (Output, "{MyModule: alive.Output(unit_axis=-1, point_axis=0)}"),
    "selects": (Selects, "{MyTopK: alive.Selects('latent')}"),
}


@dataclass(frozen=True, slots=True)
class Declared:
    """What you know of a model that it does not show: which axis holds what, and what modules of your own are.

    paired       the names of further inputs whose points are those of the first one, position by position; () for none.
                 If left out, an input as long as the batch counts if the model lays it beside the first, or has that
                 length in batches of several lengths; else its points are unknown
    unit_axes    the axis that the units of a layer lie on, by its name or a pattern
    activations  modules that are one-sided activations by themselves, by class
    outputs      what modules return that cannot be followed, by class
    selects      modules that choose a few of many, by class

    >>> Declared(paired=["mask"], unit_axes={"block.*": -1}).unit_axes
    {'block.*': -1}
    """

    paired: Sequence[str] | None = None
    unit_axes: Mapping[str, int] = field(default_factory=dict)
    activations: Mapping[type[nn.Module], Activation] = field(default_factory=dict)
    outputs: Mapping[type[nn.Module], Output] = field(default_factory=dict)
    selects: Mapping[type[nn.Module], Selects] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, (record, example) in OF_CLASSES.items():
            for kind, known in getattr(self, name).items():
                if not (isinstance(kind, type) and isinstance(known, record)):
                    raise AliveError(
                        f"{name} maps classes of modules to {record.__name__} records, got {kind!r}: {known!r}",
                        f"Write {name}={example}",
                    )

    def layout(self, name: str, z: Tensor, found: Layout, warn: Callable[[str], None]) -> Layout:
        """The layout of a layer with the axis of units that is declared for it, if one is; told if it differs."""
        axis = self.unit_axes.get(name)
        if axis is None:
            axis = next((a for pattern, a in self.unit_axes.items() if fnmatchcase(name, pattern)), None)
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
            units = f"its units{f' of {found.made_by}' if found.made_by else ''} lie on {list(grid.units) or 'none'}"
            warn(f"unit_axes says axis {own} for {name}; {units}: yours is taken")
        rows = grid.points if isinstance(grid, Grid) else ()
        known = found.points and isinstance(grid, Grid) and own not in rows
        place = Grid(z.ndim, rows if known else (), (own,), z.shape[own], grid.points_fold if known else "")  # type: ignore[union-attr]
        if known and prod(z.shape[d] for d in rows) == 0:
            known = False
        why = tuple(w for w in found.why if not w.startswith("units"))
        if found.points and not known:
            why = (*why, "points: the axis declared for the units holds them too")
        return found._replace(place=place, points=known, units=True, why=why, axes=place.axes if known else None)


UNDECLARED = Declared()
