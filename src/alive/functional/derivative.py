"""The derivative of a layer's slacks: a short list of places, or a byte a value where very many tie."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

import torch
from torch import Tensor

from .separation import Separation


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
        amounts = (self.slopes * upstream).to(grad.dtype).split(sizes(rule, axes, grad.shape), 1)
        for b, (a, side) in enumerate(product(range(len(axes)), range(len(self.slopes)))):
            over = rule.over(axes[a], grad.ndim)
            amount = amounts[a][side].view([1 if dim in over else size for dim, size in enumerate(grad.shape)])
            grad.add_(torch.where((self.bits & (1 << b)) > 0, amount, 0))


def spread(z: Tensor, rule: Separation, signs: Tensor, margins: Tensor, slopes: Tensor) -> Spread:
    """The derivative of the slacks of the canonical z; of each side S its sign, margin [S, 1] and ∂s/∂z at an end."""
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


def sizes(rule: Separation, axes: Sequence[str], shape: torch.Size) -> list[int]:
    """How many groups, and so slacks, each axis of [N, C, *positions] has."""
    kept = shape[2:].numel() if rule.conv == "position" else 1
    size = {"U": shape[1] * kept, "P": shape[0] * kept, "L": 1}
    return [size[axis] for axis in axes]
