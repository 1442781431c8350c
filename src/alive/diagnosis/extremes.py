"""The largest and smallest pre-activations of each unit and each point of a layer, wherever they lie."""

from __future__ import annotations

import torch
from torch import Tensor

from ..functional.extremes import Ends, by_group, by_unit_and_point
from ..provenance import Grid, Layout, Scattered


def extremes(z: Tensor, layout: Layout, points: int) -> tuple[Ends | None, Ends | None]:
    """(top, bottom) by unit [C], and by point [N]; None where they cannot be told.

    Units are taken to the CPU, in at least single precision.
    """
    place = layout.place
    by_unit, by_point = _on_grid(z, layout, points) if isinstance(place, Grid) else _scattered(z, place, points)
    dtype = torch.promote_types(z.dtype, torch.float32)
    units = None if by_unit is None else (by_unit[0].to(dtype).cpu(), by_unit[1].to(dtype).cpu())
    return units if layout.units else None, by_point if layout.points else None


def _on_grid(z: Tensor, layout: Layout, points: int) -> tuple[Ends, Ends]:
    assert isinstance(layout.place, Grid)
    return by_unit_and_point(_maps(z, layout.place) if layout.place.axes else layout.arrange(z, points))


def _maps(z: Tensor, grid: Grid) -> Tensor:
    """z as [N, C, *positions], as a view."""
    assert grid.axes is not None
    return z if grid.axes == (0, 1) else z.movedim(grid.axes, (0, 1))


def _scattered(z: Tensor, place: Scattered, points: int) -> tuple[Ends | None, Ends | None]:
    z = z.to(torch.promote_types(z.dtype, torch.float32))
    groups = ((place.units, place.width), (place.points, points))
    units, rows = (None if group is None else _by_group(z, group.to(z.device), count) for group, count in groups)
    return units, rows


def _by_group(z: Tensor, group: Tensor, count: int) -> Ends:
    """Extremes by group, first over the axes along which a group does not change."""
    over = [d for d, n in enumerate(group.shape) if n == 1 and z.shape[d] > 1]
    if not over:
        return by_group(z.reshape(-1), group.expand(z.shape).reshape(-1), count)
    top, bottom = z.amax(over).reshape(-1), z.amin(over).reshape(-1)
    return by_group(top, group.reshape(-1), count)[0], by_group(bottom, group.reshape(-1), count)[1]
