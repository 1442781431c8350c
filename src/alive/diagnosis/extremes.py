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
    flat = z.reshape(-1)
    flat = flat.to(torch.promote_types(z.dtype, torch.float32))
    groups = ((place.unit, place.width), (place.point, points))
    units, rows = (None if group is None else by_group(flat, group.to(z.device), count) for group, count in groups)
    return units, rows
