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
from torch import Tensor, nn

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

    def lines(self) -> Lines | None:
        """The chord above, and below it r >= z or r >= 0, whichever is nearer."""
        if self.z is None:
            return None
        lo, hi = self.z.lo[:, None], self.z.hi[:, None]
        chord = hi / (hi - lo)
        return Lines(chord, -chord * lo, (hi > -lo).double(), torch.zeros_like(lo))


@dataclass(slots=True, eq=False)
class Lines:
    """What bounds variables r: below z <= r <= steep z + rise, and 0 <= more z; [m, forms] each, or [m, 1]."""

    steep: Tensor
    rise: Tensor
    below: Tensor
    more: Tensor


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
            _lower(constant + lo @ up + hi @ down, constant.abs() + lo.abs() @ up - hi.abs() @ down, factors),
            -_lower(-constant - hi @ up - lo @ down, constant.abs() + hi.abs() @ up - lo.abs() @ down, factors),
        )

    def _above(self, factors: Tensor, constant: Tensor) -> Tensor:
        """Upper bounds: every bent unit replaced by the nearest lines above and below it."""
        return self.above(factors, constant, [group.lines() for group in self.groups])[0]

    def above(
        self, factors: Tensor, constant: Tensor, lines: list[Lines | None]
    ) -> tuple[Tensor, list[Tensor], Tensor]:
        """Upper bounds: bent units replaced by lines above or below them, the last first, then inputs by their ends.

        Also the factors that each group had when its turn came, and those of the inputs at the end.
        """
        left, spread, total, size = factors, factors.abs(), constant, constant.abs()
        owns: list[Tensor] = []
        for group, found in zip(reversed(self.groups), reversed(lines), strict=True):
            missing = group.stop - len(left)
            left, spread = _longer(left, missing), _longer(spread, missing)
            own, wide = left[group.start :], spread[group.start :]
            left, spread = left[: group.start], spread[: group.start]
            owns.insert(0, own)
            up, down = own.clamp(min=0), own.clamp(max=0)
            if group.rows is None or found is None or group.shifts is None:
                lo, hi = self.lo[group.start : group.stop], self.hi[group.start : group.stop]
                total = total + hi @ up + lo @ down
                size = size + torch.maximum(lo.abs(), hi.abs()) @ wide
                continue
            later = group.start - group.rows.shape[1]
            onto = found.steep * up + found.below * down + found.more
            total = total + group.shifts @ onto + (found.rise * up).sum(0)
            left = left + _longer(group.rows.T @ onto, later)
            with torch.no_grad():  # what was added up in each number, whatever of it has cancelled
                wide = torch.maximum(found.steep, found.below) * wide + found.more.abs()
                size = size + group.shifts.abs() @ wide + (found.rise * up).sum(0)
                spread = spread + _longer(group.rows.abs().T @ wide, later)
        lo, hi = self.lo[: self.inputs], self.hi[: self.inputs]
        total = total + hi @ left.clamp(min=0) + lo @ left.clamp(max=0)
        return total + OUTWARD * (size + torch.maximum(lo.abs(), hi.abs()) @ spread).detach(), owns, left

    def reached(self, factors: Tensor, constant: Tensor, x: Tensor) -> Tensor:
        """Numbers that forms [U, m] have at points [inputs, m] of the box, moved down; -inf behind a maximum."""
        values, sizes = x, x.abs()
        for group in self.groups:
            if group.rows is None or group.shifts is None:
                return torch.full_like(constant, -torch.inf)
            width, shifts = group.rows.shape[1], group.shifts[:, None]
            values = torch.cat([values, (group.rows @ values[:width] + shifts).clamp(min=0)])
            sizes = torch.cat([sizes, group.rows.abs() @ sizes[:width] + shifts.abs()])
        size = (factors.abs() * sizes).sum(0) + constant.abs()
        return (factors * values).sum(0) + constant - OUTWARD * size


def _longer(x: Tensor, more: int) -> Tensor:
    """So many rows of zeros at its end."""
    return nn.functional.pad(x, (0, 0, 0, more)) if more > 0 else x


def _lower(value: Tensor, size: Tensor, factors: Tensor) -> Tensor:
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
