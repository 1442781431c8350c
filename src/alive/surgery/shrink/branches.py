"""Branch and bound: is a form below an end in all of the box? Bent units are split into on and off, the worst first."""

from __future__ import annotations

from time import monotonic
from typing import Any, Literal

import torch
from torch import Tensor

from .bounds import Lines, Variables

AT_ONCE, MOST_PARTS = 64, 4096  # parts of the box that are bounded together, and in all
MOST = 5_000_000  # signs in all
STEPS, STRIDE = 12, 0.1  # of the search for the best lines of a part
Answer = Literal["below", "above"]


def side(variables: Variables, factors: Tensor, constant: Tensor, end: float, until: float) -> Answer | None:
    """Whether a form [U, 1] stays at or below an end, or is above it somewhere; None if that was not found out in time.

    A part of the box is a column of signs, one for every bent unit: on, off or not split. Its lines below (0 to 1)
    and the prices of its signs (0 or more) are chosen by gradients; whatever they are, the bound they give is a proof.
    """
    known = [group.z for group in variables.groups if group.z is not None]
    if not known:
        return None
    lo, hi = torch.cat([z.lo for z in known])[:, None], torch.cat([z.hi for z in known])[:, None]
    gaps = hi * -lo / (hi - lo)
    signs, below, prices = torch.zeros_like(lo), (hi > -lo).double(), torch.zeros_like(lo)
    worst, done = constant.new_full((1,), torch.inf), 0
    while len(worst):
        if done >= min(MOST_PARTS, MOST // len(lo)) or monotonic() >= until:
            return None
        first = worst.argsort(descending=True)
        now, rest = first[:AT_ONCE], first[AT_ONCE:]
        done += len(now)
        part = [x[:, now] for x in (signs, below, prices)]
        wide, base = factors.expand(-1, len(now)), constant.expand(len(now))
        found, owns, x = _best(variables, wide, base, part, end)
        if bool((variables.reached(wide, base, x) > end).any()):
            return "above"
        open_ = ~(found <= end)
        if bool((part[0][:, open_] != 0).all(0).any()):
            return None  # all is split there, and it is not known whether the part has a point at all
        scores = torch.where(part[0] == 0, owns.abs() * gaps, -1.0)[:, open_]
        halves = [_halves(number, x[:, open_], scores.argmax(0)) for number, x in enumerate(part)]
        signs, below, prices = (
            torch.cat([x[:, rest], y], 1) for x, y in zip((signs, below, prices), halves, strict=True)
        )
        worst = torch.cat([worst[rest], found[open_].repeat(2)])
    return "below"


def _halves(number: int, x: Tensor, unit: Tensor) -> Tensor:
    """Each part twice; of the signs (the first) one becomes 1 in the one and -1 in the other."""
    if number:
        return x.repeat(1, 2)
    column = torch.arange(x.shape[1])
    on, off = x.clone(), x.clone()
    on[unit, column], off[unit, column] = 1.0, -1.0
    return torch.cat([on, off], 1)


def _best(
    variables: Variables, factors: Tensor, constant: Tensor, part: list[Tensor], end: float
) -> tuple[Tensor, Tensor, Tensor]:
    """The best bound found for each part, the last factors of bent units, and the corner that the lines point to."""
    signs, below, prices = part
    chosen = [below.clone().requires_grad_(), prices.clone().requires_grad_()]
    scale = float(factors.abs().amax())
    strides: list[dict[str, Any]] = [{"params": chosen[:1]}, {"params": chosen[1:], "lr": STRIDE * scale}]
    search = torch.optim.Adam(strides, lr=STRIDE)
    best = torch.full_like(constant, torch.inf)
    for _ in range(STEPS):
        with torch.enable_grad():
            found, owns, left = variables.above(factors, constant, _lines(variables, signs, *chosen))
            search.zero_grad()
            found.sum().backward()
        best = torch.fmin(best, found.detach())
        if bool((best <= end).all()):
            break
        search.step()
        with torch.no_grad():
            chosen[0].clamp_(0, 1)
            chosen[1].clamp_(min=0)
    below.copy_(chosen[0].detach())
    prices.copy_(chosen[1].detach())
    lo, hi = variables.lo[: variables.inputs, None], variables.hi[: variables.inputs, None]
    bent = [own for own, group in zip(owns, variables.groups, strict=True) if group.z is not None]
    return best, torch.cat(bent).detach(), torch.where(left > 0, hi, lo)


def _lines(variables: Variables, signs: Tensor, below: Tensor, prices: Tensor) -> list[Lines | None]:
    """On is r = z and off is r = 0, with z of that sign; what is not split has its chord and the line chosen."""
    made: list[Lines | None] = []
    start = 0
    for group in variables.groups:
        lines = group.lines()
        if lines is not None:
            own = slice(start, start + group.stop - group.start)
            sign, start = signs[own], own.stop
            on = (sign > 0).double()
            lines.steep = torch.where(sign == 0, lines.steep, on)
            lines.rise = torch.where(sign == 0, lines.rise, 0.0)
            lines.below = torch.where(sign == 0, below[own], on)
            lines.more = sign * prices[own]
        made.append(lines)
    return made
