"""The largest and smallest pre-activations of each unit and each point of a layer, wherever they lie."""

from __future__ import annotations

import torch
from torch import Tensor

from ..provenance import Grid, Layout, Scattered

Ends = tuple[Tensor, Tensor] | None


def extremes(z: Tensor, layout: Layout, points: int) -> tuple[Ends, Ends]:
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
    z = _maps(z, layout.place) if layout.place.axes else layout.arrange(z, points)
    # As [C, N], for reductions over rows of many points are ten times as fast as over rows of few units.
    if z.ndim > 2 and z.shape[2:].numel() > 1:
        over = tuple(range(2, z.ndim))
        top, bottom = z.amax(over).t().contiguous(), z.amin(over).t().contiguous()
    else:
        top = bottom = z.flatten(1).t().contiguous() if z.ndim == 2 else z.flatten(2)[:, :, 0].t().contiguous()
    return (top.amax(1), bottom.amin(1)), (top.amax(0), bottom.amin(0))


def _maps(z: Tensor, grid: Grid) -> Tensor:
    """z as [N, C, *positions], as a view."""
    assert grid.axes is not None
    return z if grid.axes == (0, 1) else z.movedim(grid.axes, (0, 1))


def _scattered(z: Tensor, place: Scattered, points: int) -> tuple[Ends, Ends]:
    flat = z.reshape(-1)
    flat = flat.to(torch.promote_types(z.dtype, torch.float32))
    return _by(flat, place.unit, place.width), _by(flat, place.point, points)


def _by(flat: Tensor, group: Tensor | None, count: int) -> Ends:
    """Extremes by group; of an empty one −inf and inf."""
    if group is None:
        return None
    group = group.to(flat.device)
    top = flat.new_full((count,), -torch.inf).scatter_reduce(0, group, flat, "amax")
    bottom = flat.new_full((count,), torch.inf).scatter_reduce(0, group, flat, "amin")
    return top, bottom
