"""Activations made of straight pieces: a unit that never leaves one piece is an affine function of what it reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True, eq=False)
class Pieces:
    """f(z) = slopes[i] z + offsets[i] between knots[i-1] and knots[i]; slopes [P, C] or [P, 1], offsets [P].

    >>> leaky(0.0).within(torch.tensor([-2.0, 1.0, -1.0]), torch.tensor([-1.0, 3.0, 2.0])).tolist()
    [0, 1, -1]
    """

    knots: tuple[float, ...]
    slopes: Tensor
    offsets: tuple[float, ...]

    def within(self, lo: Tensor, hi: Tensor) -> Tensor:
        """The piece that each unit [C] never leaves; -1 where it leaves every one."""
        ends = (-torch.inf, *self.knots, torch.inf)
        found = torch.full(lo.shape, -1, dtype=torch.long)
        for piece in reversed(range(len(self.offsets))):
            found[(lo >= ends[piece]) & (hi <= ends[piece + 1])] = piece
        return found

    def slope(self, piece: Tensor) -> Tensor:
        """The slope of each unit [C] in its piece."""
        slopes = self.slopes.expand(-1, len(piece))
        return slopes.gather(0, piece.clamp(min=0)[None])[0]

    def offset(self, piece: Tensor) -> Tensor:
        """The offset of each unit [C] in its piece."""
        return torch.tensor(self.offsets, dtype=torch.float64)[piece.clamp(min=0)]

    @property
    def homogeneous(self) -> bool:
        """Whether f(k z) = k f(z) for every k > 0."""
        return not any(self.knots) and not any(self.offsets)

    @property
    def open_end(self) -> float | None:
        """From where on f(z) = z without end; None if it never is."""
        is_identity = bool((self.slopes[-1] == 1).all()) and self.offsets[-1] == 0
        return self.knots[-1] if is_identity else None

    def of(self, units: Tensor) -> Pieces:
        """The pieces of some units."""
        return self if self.slopes.shape[1] == 1 else Pieces(self.knots, self.slopes[:, units], self.offsets)


def leaky(slope: float | Tensor) -> Pieces:
    """A slope below zero, a number or [C], then the identity."""
    below = torch.as_tensor(slope, dtype=torch.float64).detach().cpu().reshape(1, -1)
    return Pieces((0.0,), torch.cat([below, torch.ones_like(below)]), (0.0, 0.0))


def clipped(low: float | None, high: float | None) -> Pieces:
    """The identity between two ends, and constant beyond; an end that is None is not there."""
    knots: Sequence[float] = [end for end in (low, high) if end is not None]
    slopes = [0.0] * (low is not None) + [1.0] + [0.0] * (high is not None)
    offsets = [*([] if low is None else [low]), 0.0, *([] if high is None else [high])]
    return Pieces(tuple(knots), torch.tensor(slopes, dtype=torch.float64)[:, None], tuple(offsets))
