"""One rank's part of a layer whose points lie on several ranks: its extremes, to be compared with those of the others.

The extremes of a unit, or of a layer, are over points that lie on all ranks; a point's own are not. So each rank
measures the ends of its part, [S, G] a layer: the largest sign·z of each group G on each side S. `slacks` makes the
slacks of the ends that all ranks agree on: the twin of `separation.slack`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from . import fused
from .extremes import Axes, extreme
from .separation import Separation, sides
from .way import asked_of


class Part(NamedTuple):
    """One layer on one rank: ends [S, G], how many values equal each [S, G], margins [S, 1], values a group is over."""

    ends: Tensor
    ties: Tensor
    margins: Tensor
    values: int


def divided(rule: Separation) -> tuple[Separation | None, Separation | None]:
    """The rule for what all ranks must agree on (units, or the layer), and the one for what each knows (points).

    >>> [half.mode for half in divided(Separation(mode="UP"))]
    ['U', 'P']
    """
    first = rule.axes[0]
    shared = None if first == "P" else replace(rule, mode=first)
    return shared, replace(rule, mode="P") if "P" in rule.axes else None


def measure(z: Tensor, rule: Separation, *, cutoff: float = 0.0, unit_axis: int = 1, point_axis: int = 0) -> Part:
    """The ends of one layer on this rank.

    >>> part = measure(torch.tensor([[2.0, 0.5], [-3.0, 0.5]]), Separation(mode="U"))
    >>> part.ends.tolist(), part.ties.tolist()      # largest z and largest −z
    ([[2.0, 0.5], [3.0, -0.5]], [[1, 2], [1, 2]])
    """
    axes = Axes(unit_axis, point_axis)
    seen = axes.canonical(z)
    values = 1
    for dim in rule.over(rule.axes[0], seen.ndim):
        values *= seen.shape[dim]
    dtype = torch.promote_types(z.dtype, torch.float32)
    signs, _, margins, _ = sides(rule, cutoff, dtype, z.device)
    if _by_operator(z) and values > 1 and z.numel():
        found = torch.ops.alive.ends(seen, *asked_of(rule, rule.axes, seen.ndim, cutoff))[0]
        ends = signs.unsqueeze(1) * found.to(dtype)
        return Part(ends, torch.ones_like(ends, dtype=torch.long), margins, values)  # the first of its ties
    return Part(*plain_ends(z, rule, axes), margins, values)


def _by_operator(z: Tensor) -> bool:
    """Whether z is on a device where sharing among ties would take a second reading."""
    return not z.is_cpu and fused.applies(z)


def against_death(part: Part, rule: Separation) -> Part:
    """The same, with nothing asked about linearity."""
    sides = zip(part.margins, rule.signs, strict=True)
    return part._replace(margins=torch.stack([m if sign > 0 else torch.full_like(m, -torch.inf) for m, sign in sides]))


def plain_ends(z: Tensor, rule: Separation, axes: Axes) -> tuple[Tensor, Tensor]:
    """Ends and ties [S, G] in plain torch, from which no point (of a rank without any) is as good as one below all."""
    z = axes.canonical(z)
    z = z.to(torch.promote_types(z.dtype, torch.float32))
    over, groups = rule.over(rule.axes[0], z.ndim), rule.sizes(rule.axes, z.shape)[0]
    if not len(z):
        below = z.new_full((len(rule.signs), groups), -torch.inf) + z.sum()
        return below, torch.zeros_like(below, dtype=torch.long)
    ends, ties = [], []
    for sign in rule.signs:
        ends.append(extreme(sign * z, over, largest=True, ties=rule.ties).flatten())
        ties.append((sign * z == (sign * z).amax(over, keepdim=True)).sum(over).flatten())
    return torch.stack(ends), torch.stack(ties)


def slacks(ends: Tensor, margins: Tensor, rule: Separation) -> Tensor:
    """Slacks [G] from ends and margins [S, G]: `separation.slack`, the sides as rows of one sum."""
    shares = [share for share in rule.shares if share]
    xi = torch.relu(margins - ends)
    return torch.stack([share * side for share, side in zip(shares, xi, strict=False)]).sum(0)  # no layer: no sides
