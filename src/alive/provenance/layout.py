"""Layout: where the points and units of a layer lie in its pre-activations."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import NamedTuple

import torch
from torch import Tensor

from ..errors import fault_of_ours
from .families import Family
from .owners import LOST, MANY, NONE, Owners, compact, is_lost, reduced, varying

MAJOR, MINOR = "major", "minor"  # in an axis of k·n entries: entry i is of i // k, or of i % n
SEVERAL, NO_WEIGHTS = "its values belong to several points at once", "no weighted operation made them"
MADE_OF = "what they are made of"  # how reasons begin that tell of where values come from
LOST_IS = "it is not known which entry belongs to which"  # point, or unit


class Grid(NamedTuple):
    """Points along some axes and units along others; the rest are positions.

    Where an axis holds each point (or unit) several times, `points_fold` (`units_fold`) says in which order.
    """

    ndim: int
    points: tuple[int, ...]
    units: tuple[int, ...]
    width: int  # how many units there are
    points_fold: str = ""
    units_fold: str = ""

    @property
    def axes(self) -> tuple[int, int] | None:
        """The axis of the points and that of the units, where there is one of each and nothing is folded."""
        if len(self.points) == len(self.units) == 1 and not self.points_fold and not self.units_fold:
            return self.points[0], self.units[0]
        return None

    def fits(self, z: Tensor, points: int) -> bool:
        """Whether another tensor can have the same layout."""
        if z.ndim != self.ndim:
            return False
        rows, columns = (prod(z.shape[d] for d in axes) for axes in (self.points, self.units))
        here = rows == points if not self.points_fold else points > 0 and rows % points == 0
        return here and (columns == self.width if not self.units_fold else columns % self.width == 0)

    def arrange(self, z: Tensor, points: int) -> Tensor:
        """z as [N, C, positions]."""
        rest = [d for d in range(z.ndim) if d not in self.points and d not in self.units]
        rows, columns = (prod(z.shape[d] for d in axes) for axes in (self.points, self.units))
        z = z.permute([*self.points, *self.units, *rest]).reshape(rows, columns, -1)
        z = _unfold(z, 0, points, self.points_fold)
        return _unfold(z, 1, self.width, self.units_fold)


def _unfold(z: Tensor, axis: int, count: int, fold: str) -> Tensor:
    """z [R, Q, P] with k·count entries along an axis: the k become positions."""
    if not fold:
        return z
    if fold == MAJOR:
        own: Tensor = z.unflatten(axis, (count, -1)).movedim(axis + 1, -1)
    else:
        own = z.unflatten(axis, (-1, count)).movedim(axis, -1)
    return own.flatten(2)


@dataclass(frozen=True, eq=False)
class Scattered:
    """The point and the unit of each entry, as places in 0 ... n−1; None where unknown.

    `points` and `units` have size 1 along every axis on which they do not vary. Entries of point n are
    nobody's, as those of a buffer that is not full.
    """

    shape: torch.Size
    points: Tensor | None
    units: Tensor | None
    width: int  # how many units there are

    @cached_property
    def point(self) -> Tensor | None:
        """The point of each entry of the flattened tensor."""
        return None if self.points is None else self.points.expand(self.shape).reshape(-1)

    @cached_property
    def unit(self) -> Tensor | None:
        """The unit of each entry of the flattened tensor."""
        return None if self.units is None else self.units.expand(self.shape).reshape(-1)

    def fits(self, z: Tensor, points: int) -> bool:
        """Only a tensor of the same shape can have the same layout."""
        return z.shape == self.shape


class Layout(NamedTuple):
    """What is known of a layer: where its points and units are, who made it, and what is unknown, in words.

    points, units  whether they are known
    fixed          whether it holds for other sizes too
    moves          whether the data decide it
    """

    place: Grid | Scattered
    points: bool = True
    units: bool = True
    why: tuple[str, ...] = ()
    made_by: str = ""
    weights: int = 0
    fixed: bool = True
    moves: bool = False
    axes: tuple[int, int] | None = None  # of points and units, where all is known and there is one of each
    names: Tensor | None = None  # of the units, by the families of the pass

    @property
    def known(self) -> bool:
        """Whether nothing is unknown."""
        return self.points and self.units

    def fits(self, z: Tensor, points: int) -> bool:
        """Whether another tensor, of so many points, can have the same layout."""
        return self.place.fits(z, points if self.points else 1)

    def arrange(self, z: Tensor, points: int) -> Tensor:
        """z on its grid as [N, C, positions]; 1 for N or C where points or units are unknown."""
        assert isinstance(self.place, Grid)
        return self.place.arrange(z, points if self.points else 1)

    def without_points(self, why: str) -> Layout:
        """The same, where it is not known whose points these are."""
        place = self.place
        if isinstance(place, Scattered):
            place = replace(place, points=None)
        else:
            place = place._replace(points=(), points_fold="")
        return self._replace(place=place, points=False, why=(f"points: {why}", *self.why), axes=None)

    @classmethod
    def unknown(cls, z: Tensor, why: str) -> Layout:
        """Nothing is known."""
        return cls(Grid(z.ndim, (), (), 1), False, False, (f"points and units: {why}",))


def read(owners: Owners, z: Tensor, points: int, family: Family | None = None, doubt: str = "") -> Layout:
    """The layout of pre-activations from the owners of their entries; a doubt is why no points can be told."""
    try:
        return _read(owners, z, points, family, doubt)
    except Exception as error:
        return Layout.unknown(z, fault_of_ours("reading how a layer lies", error))


def _read(owners: Owners, z: Tensor, points: int, family: Family | None, doubt: str) -> Layout:
    made = ("", 0) if family is None else (family.named(owners.unit), family.weights)
    if not (doubt or owners.picked or owners.placed) and (usual := _usual(owners, z, points)) is not None:
        return Layout(usual, True, True, (), *made, axes=usual.axes, names=owners.unit.flatten())
    point, why_points = (None, doubt) if doubt else _tell(owners.point, "point", points if owners.placed else 0)
    if point is None and not doubt and owners.placed and _has_room(owners.point, points):
        point, why_points = owners.point.masked_fill(owners.point == NONE, points), ""
    unit, why_units = _tell(owners.unit, "unit")
    if owners.why.startswith(MADE_OF):  # then that is the reason, and no statistic over points
        why_points = owners.why if why_points == SEVERAL else why_points
        why_units = owners.why if why_units == NO_WEIGHTS and owners.is_outside else why_units
    if unit is not None and owners.picked:
        unit, why_units = None, "its units were chosen by the data, as top-k does"
    why = tuple(
        _in_words(what, reason, owners.why) for what, reason in (("points", why_points), ("units", why_units)) if reason
    )
    place: Grid | Scattered | None = _grid(point, unit, z, points) if z.numel() else _empty(point, unit, z)
    names = None if unit is None else unit.unique()
    if place is None or _partly(unit, family, owners.placed):
        numbered = None if unit is None else _number(unit, point, family, owners.placed)
        if unit is not None and numbered is None:
            why, unit = (*why, "units: the data choose the weights that make them, which are not one family"), None
        if unit is not None and numbered is not None and family is not None and numbered[1] != len(unit.unique()):
            names = torch.arange(family.start, family.start + family.size)
        place = _scatter(point, numbered, z)
    # With one point or one unit any axis would do, and the next batch may show another.
    fixed = isinstance(place, Grid) and (point is None or bool(place.points)) and (unit is None or bool(place.units))
    axes = place.axes if isinstance(place, Grid) and point is not None and unit is not None else None
    return Layout(place, point is not None, unit is not None, why, *made, fixed, owners.placed, axes, names)


def _usual(owners: Owners, z: Tensor, points: int) -> Grid | None:
    """The grid of nearly all layers: one axis holds all points in order, another units in order. None if otherwise."""
    axes = [[d for d, n in enumerate(owner.shape) if n > 1] for owner in (owners.point, owners.unit)]
    if len(axes[0]) != 1 or len(axes[1]) != 1 or axes[0] == axes[1]:
        return None
    rows, names = owners.point.flatten(), owners.unit.flatten()
    if len(rows) != points or not torch.equal(rows, torch.arange(points, dtype=rows.dtype)):
        return None
    first = int(names[0])
    if first < 0 or not torch.equal(names, torch.arange(first, first + len(names), dtype=names.dtype)):
        return None
    return Grid(z.ndim, tuple(axes[0]), tuple(axes[1]), len(names))


def _in_words(what: str, reason: str, earlier: str) -> str:
    return f"{what}: {reason}" + (f" ({earlier})" if earlier and reason.startswith(LOST_IS) else "")


def _tell(owner: Tensor, what: str, count: int = 0) -> tuple[Tensor | None, str]:
    """The owners if every entry has one; else why not. A count is how many there are, where the data place them."""
    if not owner.numel():
        return owner, ""
    if is_lost(owner):
        return None, f"{LOST_IS} {what}"
    if int(owner.max()) < 0:
        return (
            None,
            SEVERAL if what == "point" else NO_WEIGHTS,
        )
    owner = compact(owner)
    if bool((owner == MANY).any()):
        return None, f"some entries belong to several {what}s at once"
    if int(owner.min()) < 0:  # constants, such as padding, are counted with the row they lie in
        axes = varying(torch.where(owner < 0, owner.max(), owner)) or varying(owner)
        for keep in [axes, *([a] for a in axes)]:
            row = reduced(owner, [d for d in range(owner.ndim) if d not in keep])
            if int(row.min()) >= 0 and int(row.max()) != LOST and (not count or _fills(owner, row, count)):
                return compact(row), ""
        return None, f"some entries belong to no {what}"
    return owner, ""


def _fills(owner: Tensor, row: Tensor, count: int) -> bool:
    """Whether all points have a row, and no place is empty in every row, as the buffer of an expert may be."""
    over = [d for d in range(owner.ndim) if row.shape[d] == 1]
    full = [int(owner.movedim(d, 0).flatten(1).amax(1).min()) >= 0 for d in over]
    return len(row.unique()) == count and all(full)


def _has_room(point: Tensor, points: int) -> bool:
    """Whether every entry has a point or is nobody's, as where the data are written into buffers that are not full.

    Where the points may lie in order, an entry that was not written may be of the point in whose row it is.
    """
    known = (point >= 0) & (point != LOST)
    if not bool(known.any()) or not bool((known | (point == NONE)).all()):
        return False
    held = point[known].long()
    for d, size in enumerate(point.shape):
        rows = reduced(point, [axis for axis in range(point.ndim) if axis != d])
        if int(rows.min()) >= 0 and int(rows.max()) != LOST and len(rows.unique()) == points:
            return False  # each point has a row of its own, and what is constant there may be its, or nobody's
        if points and not size % points:
            at = torch.arange(size).view([-1 if d == axis else 1 for axis in range(point.ndim)]).expand_as(point)[known]
            if torch.equal(held, at % points) or torch.equal(held, at // (size // points)):
                return False
    return True


def _grid(point: Tensor | None, unit: Tensor | None, z: Tensor, points: int) -> Grid | None:
    rows = [] if point is None else varying(point)
    columns = [] if unit is None else varying(unit)
    if set(rows) & set(columns):
        return None
    points_fold = _fold(point, rows, points) if point is not None else ""
    count = 1 if unit is None else len(unit.unique())
    names = None if unit is None else _rank(unit)
    units_fold = _fold(names, columns, count) if names is not None else ""
    if points_fold is None or units_fold is None:
        return None
    return Grid(z.ndim, tuple(rows), tuple(columns), count, points_fold, units_fold)


def _empty(point: Tensor | None, unit: Tensor | None, z: Tensor) -> Grid:
    """The grid of a tensor without entries: of a batch without points."""
    rows = [] if point is None else [d for d in range(z.ndim) if point.shape[d] == 0]
    columns = [] if unit is None else [d for d in range(z.ndim) if unit.shape[d] > 1 and d not in rows]
    return Grid(z.ndim, tuple(rows), tuple(columns), prod(z.shape[d] for d in columns))


def _rank(unit: Tensor) -> Tensor:
    """Units numbered 0 ... n−1 in the order of their names."""
    inverse: Tensor = unit.unique(return_inverse=True)[1]
    return inverse.view(unit.shape)


def _fold(owner: Tensor, axes: list[int], count: int) -> str | None:
    """How n owners lie in a row of k·n entries: in order, each k times, or k times in order; None if otherwise."""
    row = owner.permute([*axes, *(d for d in range(owner.ndim) if d not in axes)]).reshape(-1)
    size = len(row)
    if size % max(count, 1) or not count:
        return None
    order = torch.arange(size)
    if size == count:
        return "" if torch.equal(row.long(), order) else None
    if torch.equal(row.long(), order // (size // count)):
        return MAJOR
    return MINOR if torch.equal(row.long(), order % count) else None


def _number(unit: Tensor, point: Tensor | None, family: Family | None, placed: bool) -> tuple[Tensor, int] | None:
    """Units numbered from 0, and how many there are; None where the next batch would number them otherwise.

    Where points differ in the units they meet, as with experts, all units of the family are counted, met or not.
    """
    across = point is None or bool(set(varying(unit)) & set(varying(point)))
    if not placed or not (across or _partly(unit, family, placed)):
        return _rank(unit), len(unit.unique())
    if family is None or not bool(((unit >= family.start) & (unit < family.start + family.size)).all()):
        return None
    return unit - family.start, family.size


def _partly(unit: Tensor | None, family: Family | None, placed: bool) -> bool:
    """Whether the data chose a part of a family: the next batch may meet another part."""
    if unit is None or family is None or not placed or family.each:
        return False
    return unit.numel() > 0 and int(unit.min()) >= family.start and len(unit.unique()) < family.size


def _scatter(point: Tensor | None, numbered: tuple[Tensor, int] | None, z: Tensor) -> Scattered:
    unit, count = (None, 0) if numbered is None else numbered
    return Scattered(z.shape, None if point is None else point.long(), None if unit is None else unit.long(), count)
