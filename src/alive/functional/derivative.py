"""The derivative of a layer's slacks: a short list of places, or a byte a value where very many tie."""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

import torch
from torch import Tensor

from .extremes import Places
from .separation import Separation, sides


class Pull(NamedTuple):
    """The sparse derivative of a slack vector: ∂s[group]/∂z[spot] = slope; spot is flat, into the canonical z."""

    spot: Tensor
    group: Tensor
    slope: Tensor

    def add(self, grad: Tensor, upstream: Tensor, rule: Separation | None = None) -> None:
        """Add to the gradient of z what comes from that of the slacks: a handful of numbers."""
        if self.spot.numel():
            amount = self.slope * upstream.index_select(0, self.group)
            amount = amount if amount.dtype == grad.dtype else amount.to(grad.dtype)
            grad.put_(self.spot, amount, accumulate=True)


class Spread(NamedTuple):
    """The same over all of z: bit b marks who is an end for the b-th pair of axis and side; slopes [S, groups] say what
    each end of a group gets.
    """

    bits: Tensor
    slopes: Tensor

    def add(self, grad: Tensor, upstream: Tensor, rule: Separation) -> None:
        """Add to the gradient of z what comes from that of the slacks."""
        axes = rule.satisfiable_axes(grad.shape)
        amounts = (self.slopes * upstream).to(grad.dtype).split(rule.sizes(axes, grad.shape), 1)
        for b, (a, side) in enumerate(product(range(len(axes)), range(len(self.slopes)))):
            over = rule.over(axes[a], grad.ndim)
            amount = amounts[a][side].view([1 if dim in over else size for dim, size in enumerate(grad.shape)])
            grad.add_(torch.where((self.bits & (1 << b)) > 0, amount, 0))


def spread(z: Tensor, rule: Separation, cutoff: float) -> Spread:
    """The derivative of the slacks of the canonical z."""
    signs, _, margins, slopes = sides(rule, cutoff, torch.promote_types(z.dtype, torch.float32), z.device)
    bits = torch.zeros_like(z, dtype=torch.uint8)
    shared: list[list[Tensor]] = [[] for _ in signs]
    pairs = product(rule.satisfiable_axes(z.shape), enumerate(signs.tolist()))
    for b, (axis, (side, sign)) in enumerate(pairs):
        over = rule.over(axis, z.ndim)
        end = z.amax(over, keepdim=True) if sign > 0 else z.amin(over, keepdim=True)
        is_end = z == end.masked_fill(margins[side] - sign * end <= 0, torch.nan)  # satisfied: equal to nothing
        bits.add_(is_end.view(torch.uint8), alpha=1 << b)
        shared[side].append(slopes[side] / is_end.sum(over).flatten().clamp(min=1))
    return Spread(bits, torch.stack([torch.cat(by_axis) for by_axis in shared]))


def no_pull(dtype: torch.dtype, device: torch.device) -> Pull:
    """A derivative of zero."""
    nowhere = torch.empty(0, dtype=torch.long, device=device)
    return Pull(nowhere, nowhere, torch.empty(0, dtype=dtype, device=device))


def pull_at(places: Places, slopes: Tensor, groups: int, ties: str) -> Pull:
    """Give the slope of each group and side to the first of its ties, or share it among them."""
    spot, group, side = places
    key = group + side * groups
    if ties == "split":
        return Pull(spot, group, slopes[side] / torch.bincount(key)[key])
    first = spot.new_full((groups * len(slopes),), torch.iinfo(spot.dtype).max)
    first.scatter_reduce_(0, key, spot, "amin")
    key = key.unique()
    return Pull(first[key], key % groups, slopes[key // groups])
