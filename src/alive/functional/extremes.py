"""The largest and smallest values of a layer's units and points, and where they lie: asked by penalty and census alike.

A layer is z [N, C, *positions]. An extreme is taken over a group of its values: all of a unit (axis U), all of a point
(P) or all there are (L). The smallest of z is minus the largest of −z, so where both are asked for they are the sides
S of one search for the largest of sign·z.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ..errors import AliveError

Ends = tuple[Tensor, Tensor]
"""The largest and the smallest values, by group."""


class Axes(NamedTuple):
    """Where the units and the points lie in z."""

    unit: int = 1
    point: int = 0

    def canonical(self, z: Tensor) -> Tensor:
        """A view of z as [N, C, *positions]."""
        return canonical(z, self.unit, self.point)

    def as_it_was(self, seen: Tensor, z: Tensor) -> Tensor:
        """The way back, of a tensor in the shape of what z is seen as."""
        if seen.ndim > z.ndim:
            return seen.squeeze(0)
        unit, point = self.unit % z.ndim, self.point % z.ndim
        return seen if (unit, point) == (1, 0) else seen.movedim((0, 1), (0 if point == unit else point, unit))


def canonical(z: Tensor, unit_axis: int = 1, point_axis: int = 0) -> Tensor:
    """A view of z as [N, C, *positions]; a lone vector is one point.

    Where units and points claim one axis ([N, C] in a model of [T, N, C]) the units keep it, and the points are first;
    where it is the first ([C, H, W] without a batch), z is one point.
    """
    if z.is_nested:
        raise AliveError("pre-activations are a nested tensor, whose points differ in size", "Pad them to one size")
    if z.ndim == 1:
        return z.unsqueeze(0)
    if point_axis % z.ndim == unit_axis % z.ndim:
        if unit_axis % z.ndim == 0:
            return z.unsqueeze(0)
        point_axis = 0
    if point_axis == 0 and unit_axis % z.ndim == 1:
        return z
    return z.movedim((point_axis, unit_axis), (0, 1))


def extreme(z: Tensor, over: tuple[int, ...], *, largest: bool, ties: str) -> Tensor:
    """Largest or smallest value over some dimensions; `ties` says who receives the gradient."""
    if ties == "split":
        return z.amax(over) if largest else z.amin(over)
    rest = [d for d in range(z.ndim) if d not in over]
    flat = z.permute(*rest, *over).flatten(len(rest))
    index = flat.argmax(-1, keepdim=True) if largest else flat.argmin(-1, keepdim=True)
    return flat.gather(-1, index).squeeze(-1)


def by_group(flat: Tensor, group: Tensor, count: int) -> Ends:
    """Extremes of entries that lie on no grid, from the group of each; of an empty group −inf and inf.

    Entries of group `count`, which comes after the last, belong to none.

    >>> [ends.tolist() for ends in by_group(torch.tensor([2.0, -3.0, 0.5]), torch.tensor([0, 0, 1]), 2)]
    [[2.0, 0.5], [-3.0, 0.5]]
    """
    top = flat.new_full((count + 1,), -torch.inf).scatter_reduce(0, group, flat, "amax")
    bottom = flat.new_full((count + 1,), torch.inf).scatter_reduce(0, group, flat, "amin")
    return top[:count], bottom[:count]


def by_unit_and_point(z: Tensor) -> tuple[Ends, Ends]:
    """Extremes of z [N, C, *positions] by unit [C], and by point [N].

    >>> units, points = by_unit_and_point(torch.tensor([[2.0, 0.5], [-3.0, 0.25]]))
    >>> [ends.tolist() for ends in (*units, *points)]
    [[2.0, 0.5], [-3.0, 0.25], [2.0, 0.25], [0.5, -3.0]]
    """
    # As [C, N], for reductions over rows of many points are ten times as fast as over rows of few units.
    if z.ndim > 2 and z.shape[2:].numel() > 1:
        over = tuple(range(2, z.ndim))
        top, bottom = z.amax(over).t().contiguous(), z.amin(over).t().contiguous()
    else:
        top = bottom = z.flatten(1).t().contiguous() if z.ndim == 2 else z.flatten(2)[:, :, 0].t().contiguous()
    return (top.amax(1), bottom.amin(1)), (top.amax(0), bottom.amin(0))
