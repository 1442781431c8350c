"""What is asked of the values of each unit and each point of a layer, wherever they lie: their extremes, and counts."""

from __future__ import annotations

from math import inf, prod
from typing import NamedTuple

import torch
from torch import Tensor

from ..functional import Activation
from ..functional.extremes import Ends, by_group, by_unit_and_point
from ..provenance import Grid, Layout, Scattered

CHUNK = 2**20  # values that are counted at once on a CPU: what is written in between stays in its cache
EXACT = 2**24  # whole numbers up to here are floats


class Reduced(NamedTuple):
    """A layer over a batch: (top, bottom) by unit [C] and by point [N]; of each unit's values how many are on, of how
    many. None where units or points cannot be told. All stays on its device.
    """

    units: Ends | None
    points: Ends | None
    on: Tensor | None
    met: Tensor | int


def reduced(z: Tensor, layout: Layout, points: int, activation: Activation) -> Reduced:
    """Extremes of units are in at least single precision."""
    place = layout.place
    found = (
        _on_grid(z, layout, points, activation)
        if isinstance(place, Grid)
        else _of_scattered(z, place, points, activation)
    )
    dtype = torch.promote_types(z.dtype, torch.float32)
    units = None if found.units is None else (found.units[0].to(dtype), found.units[1].to(dtype))
    known = found._replace(units=units, points=found.points if layout.points else None)
    return known if layout.units else known._replace(units=None, on=None)


def _on_grid(z: Tensor, layout: Layout, points: int, activation: Activation) -> Reduced:
    place = layout.place
    assert isinstance(place, Grid)
    z = layout.arrange(z, points) if not place.axes else z if place.axes == (0, 1) else z.movedim(place.axes, (0, 1))
    met = z.numel() // max(z.shape[1], 1)
    return Reduced(*by_unit_and_point(z), count_on(z, activation) if layout.units else None, met)


def _of_scattered(z: Tensor, place: Scattered, points: int, activation: Activation) -> Reduced:
    z = z.to(torch.promote_types(z.dtype, torch.float32))
    groups = ((place.units, place.width), (place.points, points))
    units, rows = (None if group is None else _by_group(z, group.to(z.device), count) for group, count in groups)
    if place.units is None:
        return Reduced(units, rows, None, 0)
    group, over = place.units.to(z.device), _constant(place.units, z)
    each = is_on(z, activation).sum(over) if over else is_on(z, activation).long()
    group = (group if over else group.expand(z.shape)).reshape(-1)
    none = group.new_zeros(place.width + 1)
    met = none.index_add(0, group, torch.full_like(group, prod(z.shape[d] for d in over)))
    return Reduced(units, rows, none.index_add(0, group, each.reshape(-1))[:-1], met[:-1])


def _constant(group: Tensor, z: Tensor) -> list[int]:
    """The axes along which a group does not change."""
    return [d for d, n in enumerate(group.shape) if n == 1 and z.shape[d] > 1]


def _by_group(z: Tensor, group: Tensor, count: int) -> Ends:
    """Extremes by group, first over the axes along which a group does not change."""
    over = _constant(group, z)
    if not over:
        return by_group(z.reshape(-1), group.expand(z.shape).reshape(-1), count)
    top, bottom = z.amax(over).reshape(-1), z.amin(over).reshape(-1)
    return by_group(top, group.reshape(-1), count)[0], by_group(bottom, group.reshape(-1), count)[1]


def is_on(z: Tensor, activation: Activation) -> Tensor:
    """Which values pass: above the cutoff, and below the ceiling; as `functional.classify` compares them."""
    z = z.to(torch.promote_types(z.dtype, torch.float32))
    on = z > activation.cutoff
    return on & (z < activation.ceiling) if activation.ceiling < inf else on


def count_on(z: Tensor, activation: Activation) -> Tensor:
    """How many values of each unit are on: int64 [C], of z [N, C, *positions].

    >>> count_on(torch.tensor([[2.0, 0.0], [-3.0, 0.5]]), Activation("relu")).tolist()
    [1, 1]
    """
    over = [d for d in range(z.ndim) if d != 1]
    rows = max(1, CHUNK // max(1, prod(z.shape[1:])))
    if type(z) is not Tensor or z.device.type != "cpu" or rows * prod(z.shape[2:]) > EXACT:
        return is_on(z, activation).sum(over)
    total = torch.zeros(z.shape[1], dtype=torch.long)
    for part in z.split(rows):
        # As floats, which are summed in vectors: twenty times as fast as sums of booleans.
        on = torch.empty_like(part, dtype=torch.float32)
        part = part.to(torch.promote_types(z.dtype, torch.float32))
        torch.gt(part, activation.cutoff, out=on)
        total += (on.mul_(part < activation.ceiling) if activation.ceiling < inf else on).sum(over).long()
    return total
