"""The largest and smallest values of a layer's units and points, and where they lie: asked by penalty and census alike.

A layer is z [N, C, *positions]. An extreme is taken over a group of its values: all of a unit (axis U), all of a point
(P) or all there are (L). The smallest of z is minus the largest of −z, so where both are asked for they are the sides
S of one search for the largest of sign·z.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from ..errors import AliveError

FEW = 32  # channels, below which a channels-last tensor is reduced axis by axis

Ends = tuple[Tensor, Tensor]
"""The largest and the smallest values, by group."""


class Axes(NamedTuple):
    """Where the units and the points lie in z."""

    unit: int = 1
    point: int = 0

    def canonical(self, z: Tensor) -> Tensor:
        """A view of z as [N, C, *positions]."""
        return canonical(z, self.unit, self.point)


class Places(NamedTuple):
    """Values that are the end of their group: flat index in z, group and side of each."""

    spot: Tensor
    group: Tensor
    side: Tensor


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


def over_positions(z: Tensor, reduce: Callable[..., Tensor]) -> Tensor:
    """The extremes [N, C, 1] over all positions of z [N, C, *P], by torch.amax or torch.amin.

    With few channels innermost (channels_last), one axis after the other: a row of positions and channels is long
    enough for vectors, where all positions at once would be taken number by number, some fifteen times slower.
    """
    if z.ndim == 3 or z.stride(1) != 1 or z.shape[1] >= FEW:
        return reduce(z.flatten(2), 2, keepdim=True).contiguous()
    rows = z.movedim(1, -1)
    while rows.ndim > 2:
        rows = reduce(rows, 1)
    return rows.unsqueeze(2).contiguous()


@dataclass(frozen=True, slots=True)
class Maps:
    """The largest of sign·z on each side S: by cell [S, N, C, *kept], and by block of the positions of a cell.

    Positions are pooled into blocks [S, N, C, B] and one cell, or each is kept as a cell, which is then its own block.
    """

    z: Tensor
    blocks: Tensor
    cells: Tensor
    pooled: bool

    @classmethod
    def of(cls, z: Tensor, signs: Sequence[int], *, pooled: bool) -> Maps:
        """The maps of z [N, C, *positions], one side a sign."""
        if not pooled:
            both = torch.stack([z if sign > 0 else -z for sign in signs])
            return cls(z, both, both, pooled)
        cut = z.flatten(2).unflatten(2, (_block_count(z.shape[2:].numel()), -1))
        blocks = torch.stack([cut.amax(3) if sign > 0 else -cut.amin(3) for sign in signs])
        return cls(z, blocks, blocks.amax(3), pooled)

    def ends(self, axes: Sequence[str]) -> Tensor:
        """The largest value of each group, [S, groups], the groups of all axes in a row."""
        found = [self._ends(axis) for axis in axes]
        return torch.cat(found, 1) if len(found) > 1 else found[0]

    def attained(self, ends: Tensor, axes: Sequence[str]) -> tuple[Tensor, Tensor]:
        """Flat index of every cell that holds its group's end, and the group; NaN ends are not looked for."""
        spots, groups, offset = [], [], 0
        for axis in axes:
            over = self._over(axis)
            kept = [1 if d in over else size for d, size in enumerate(self.cells.shape)]
            size = torch.Size(kept[1:]).numel()
            wanted = ends[:, offset : offset + size]
            spots.append((self.cells == wanted.reshape(kept)).flatten().nonzero().squeeze(1))
            groups.append(self._group(spots[-1], axis) + offset)
            offset += size
        return torch.cat(spots), torch.cat(groups)

    def places(self, spot: Tensor, group: Tensor, signs: Tensor) -> Places:
        """From cells, by flat index, to the places in z that attain their values; signs [S] as numbers of z's kind."""
        number = self.cells[0].numel()
        side, index = spot // number, spot % number
        if self.pooled:
            hit, index = self._descend(spot, signs[side])
            side, group = side[hit], group[hit]
        return Places(index, group, side)

    def _over(self, axis: str) -> tuple[int, ...]:
        """The dimensions of the cells that an end of `axis` is taken over."""
        return {"U": (1,), "P": (2,), "L": tuple(range(1, self.cells.ndim))}[axis]

    def _ends(self, axis: str) -> Tensor:
        ends = self.cells.amax(self._over(axis))
        return ends.flatten(1) if ends.ndim > 1 else ends.unsqueeze(1)

    def _group(self, spot: Tensor, axis: str) -> Tensor:
        """The groups that cells, given by flat index, belong to."""
        kept = self.cells.shape[3:].numel()
        row = self.cells.shape[2] * kept
        match axis:
            case "U":
                return spot % row
            case "P" if kept == 1:
                return spot // row % self.cells.shape[1]
            case "P":
                return spot // row % self.cells.shape[1] * kept + spot % kept
            case _:
                return torch.zeros_like(spot)

    def _descend(self, spot: Tensor, sign: Tensor) -> tuple[Tensor, Tensor]:
        """From cells to the blocks that hold their value, and on to its positions in z: who hit, and where, flat."""
        _, N, C, B = self.blocks.shape
        value = self.cells.flatten()[spot]
        k, b = (self.blocks.view(-1, B).index_select(0, spot) == value.unsqueeze(1)).nonzero().unbind(1)
        block = spot[k] % (N * C) * B + b  # flat, into [N, C, B]
        rows = self.z.reshape(N * C * B, -1).index_select(0, block)
        hit, position = (rows == (value * sign)[k].unsqueeze(1)).nonzero().unbind(1)
        return k[hit], block[hit] * rows.shape[1] + position


@lru_cache(maxsize=256)
def _block_count(positions: int) -> int:
    """Blocks long enough (128) for a fast reduction, and short enough that looking into one costs little."""
    return max((b for b in range(1, positions // 128 + 1) if positions % b == 0), default=1)
