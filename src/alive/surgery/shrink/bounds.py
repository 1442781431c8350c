"""Bounds of every value of a graph for all inputs of a box: intervals, and affine forms of inputs and bent units.

A value is an affine form of variables: the inputs, and one new variable r = max(0, z) for every unit that may bend.
Every activation of straight pieces is made of such r: f(z) = slope z + offset + sum of jumps times max(0, z - knot).
All numbers are in double precision, and each bound is moved outward by far more than rounding can amount to.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

OUTWARD = 1e-11  # of the size of what was added up; rounding in sums of n terms is below n 1e-16


@dataclass(slots=True, eq=False)
class Range:
    """lo <= value <= hi, entry by entry."""

    lo: Tensor
    hi: Tensor

    def meet(self, other: Range) -> Range:
        """What both allow; where rounding has crossed them, the one of the first."""
        lo, hi = torch.maximum(self.lo, other.lo), torch.minimum(self.hi, other.hi)
        crossed = lo > hi
        return Range(torch.where(crossed, self.lo, lo), torch.where(crossed, self.hi, hi))


@dataclass(slots=True, eq=False)
class Form:
    """constant + sum over variables u of u * factors[u]; factors [U, ...], constant [...]."""

    factors: Tensor
    constant: Tensor

    def widened(self, count: int) -> Tensor:
        """The factors of so many variables; those that came later have none."""
        more = count - len(self.factors)
        if not more:
            return self.factors
        return torch.cat([self.factors, self.factors.new_zeros(more, *self.constant.shape)])


@dataclass(slots=True, eq=False)
class Group:
    """Variables r = max(0, z) that came together: their numbers, z as rows over earlier variables, and the range of z.

    Where `rows` is None nothing but the range of r itself is known, as behind a maximum.
    """

    start: int
    stop: int
    rows: Tensor | None  # [m, U before]
    shifts: Tensor | None  # [m]
    z: Range | None


class Variables:
    """All variables, with their ranges."""

    def __init__(self, lo: Tensor, hi: Tensor) -> None:
        self.lo, self.hi = lo.flatten(), hi.flatten()
        self.inputs = len(self.lo)
        self.groups: list[Group] = []

    def __len__(self) -> int:
        return len(self.lo)

    def add(self, lo: Tensor, hi: Tensor, rows: Tensor | None, shifts: Tensor | None, z: Range | None) -> Group:
        """New variables with these ranges."""
        group = Group(len(self), len(self) + len(lo), rows, shifts, z)
        self.lo, self.hi = torch.cat([self.lo, lo]), torch.cat([self.hi, hi])
        self.groups.append(group)
        return group

    def range(self, factors: Tensor, constant: Tensor) -> Range:
        """The range of forms, factors [U, m] and constant [m]: the better of plain and substituted bounds."""
        plain = self._plain(factors, constant)
        if not self.groups:
            return plain
        hi = self._above(factors, constant)
        lo = -self._above(-factors, -constant)
        return plain.meet(Range(lo, hi))

    def _plain(self, factors: Tensor, constant: Tensor) -> Range:
        lo, hi = self.lo[: len(factors)], self.hi[: len(factors)]
        up, down = factors.clamp(min=0), factors.clamp(max=0)
        return Range(
            _lowered(constant + lo @ up + hi @ down, constant.abs() + lo.abs() @ up - hi.abs() @ down, factors),
            -_lowered(-constant - hi @ up - lo @ down, constant.abs() + hi.abs() @ up - lo.abs() @ down, factors),
        )

    def _above(self, factors: Tensor, constant: Tensor) -> Tensor:
        """Upper bounds: bent units replaced by lines above or below them, the last first, then inputs by their ends."""
        left, total, size = factors.clone(), constant.clone(), constant.abs()
        if len(left) < len(self):
            left = torch.cat([left, left.new_zeros(len(self) - len(left), left.shape[1])])
        for group in reversed(self.groups):
            own = left[group.start : group.stop]
            up, down = own.clamp(min=0), own.clamp(max=0)
            if group.rows is None or group.z is None or group.shifts is None:
                lo, hi = self.lo[group.start : group.stop], self.hi[group.start : group.stop]
                total = total + hi @ up + lo @ down
                size = size + hi.abs() @ up - lo.abs() @ down
            else:
                lo, hi = group.z.lo, group.z.hi
                chord = (hi / (hi - lo))[:, None]  # r <= chord (z - lo)
                below = (hi > -lo).double()[:, None]  # r >= z or r >= 0, whichever is nearer
                onto = chord * up + below * down
                moved = group.shifts @ onto - (chord[:, 0] * lo) @ up
                total = total + moved
                size = size + group.shifts.abs() @ onto.abs() + (chord[:, 0] * lo.abs()) @ up
                width = group.rows.shape[1]
                left[:width] += group.rows.T @ onto
            left = left[: group.start]
        up, down = left.clamp(min=0), left.clamp(max=0)
        lo, hi = self.lo[: self.inputs], self.hi[: self.inputs]
        size = size + hi.abs() @ up - lo.abs() @ down
        return total + hi @ up + lo @ down + OUTWARD * size


def _lowered(value: Tensor, size: Tensor, factors: Tensor) -> Tensor:
    """A lower bound moved down; a sum without factors is a constant, and one of zeros is zero."""
    varies = (factors != 0).any(0)
    return torch.where(varies, value - OUTWARD * size, value)


def through(step: Callable[..., Tensor], given: list[Form | Tensor], count: int) -> Form:
    """A form that goes through a step which is affine in all forms together; tensors among them are constants."""
    forms = [form for form in given if isinstance(form, Form)]

    def run(*parts: Tensor) -> Tensor:
        left = iter(parts)
        return step(*(next(left) if isinstance(value, Form) else value for value in given))

    constant = run(*(form.constant for form in forms))
    nothing = run(*(torch.zeros_like(form.constant) for form in forms))
    factors = torch.func.vmap(run)(*(form.widened(count) for form in forms)) - nothing
    return Form(factors, constant)


def weighted(step: Callable[[Tensor, Tensor, Tensor | None], Tensor], x: Range, weight: Tensor, bias: Any) -> Range:
    """The range of a weighted sum by intervals: each end takes the end of x that the sign of the weight asks for."""
    up, down = weight.clamp(min=0), weight.clamp(max=0)
    lo = step(x.lo, up, bias) + step(x.hi, down, None)
    hi = step(x.hi, up, bias) + step(x.lo, down, None)
    moved = step(x.hi - x.lo, weight.abs(), None) > 0
    size = None if bias is None else bias.abs()
    slack_lo = step(x.lo.abs(), up, size) + step(x.hi.abs(), -down, None)
    slack_hi = step(x.hi.abs(), up, size) + step(x.lo.abs(), -down, None)
    middle = (lo + hi) / 2
    return Range(
        torch.where(moved, lo - OUTWARD * slack_lo, middle), torch.where(moved, hi + OUTWARD * slack_hi, middle)
    )
