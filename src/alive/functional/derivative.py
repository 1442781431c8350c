"""The derivative of a layer's slacks: a short list of places, or a byte a value where very many tie."""

from __future__ import annotations

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

    def add(self, grad: Tensor, upstream: Tensor) -> None:
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
