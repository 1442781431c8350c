"""One rank's part of a layer whose points lie on several ranks: its extremes, to be compared with those of the others.

The extremes of a unit, or of a layer, are over points that lie on all ranks; a point's own are not. So each rank
measures the ends of its part, [S, G] a layer: the largest sign·z of each group G on each side S. `slacks` makes the
slacks of the ends that all ranks agree on: the twin of `separation.slack`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from . import fused
from .derivative import Pull, no_pull, pull_at
from .ends import Ends
from .extremes import Axes, Maps, extreme
from .separation import Separation, sides


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
    """The ends of one layer on this rank; z itself is not kept, so it may be changed in place afterwards.

    >>> part = measure(torch.tensor([[2.0, 0.5], [-3.0, 0.5]]), Separation(mode="U"))
    >>> part.ends.tolist(), part.ties.tolist()      # largest z and largest −z; 2 is enough, and not looked for
    ([[2.0, 0.5], [3.0, -0.5]], [[0, 2], [0, 2]])
    """
    axes = Axes(unit_axis, point_axis)
    seen = axes.canonical(z)
    values = 1
    for dim in rule.over(rule.axes[0], seen.ndim):
        values *= seen.shape[dim]
    dtype = torch.promote_types(z.dtype, torch.float32)
    signs, _, margins, _ = sides(rule, cutoff, dtype, z.device)
    by_ends = _by_ends(z)
    found = fused.measure(z, rule, unit_axis=unit_axis, point_axis=point_axis) if by_ends and values > 1 else None
    if isinstance(found, Ends):
        ends = signs.unsqueeze(1) * found.values.to(dtype)
        return Part(ends, torch.ones_like(ends, dtype=torch.long), margins, values)  # the first of its ties
    plain = by_ends or not fused.applies(z)
    ends, ties = plain_ends(z, rule, axes) if plain else _Ends.apply(z, rule, axes, cutoff)
    return Part(ends, ties, margins, values)


def _by_ends(z: Tensor) -> bool:
    """Whether z is measured by its ends: on other devices than a CPU, where there are points."""
    return not z.is_cpu and z.numel() > 0 and fused.applies(z)


def against_death(part: Part, rule: Separation) -> Part:
    """The same, with nothing asked about linearity."""
    sides = zip(part.margins, rule.signs, strict=True)
    return part._replace(margins=torch.stack([m if sign > 0 else torch.full_like(m, -torch.inf) for m, sign in sides]))


def plain_ends(z: Tensor, rule: Separation, axes: Axes) -> tuple[Tensor, Tensor]:
    """Ends and ties [S, G] in plain torch: the slow, obvious twin of `measure`, which torch.compile fuses by itself."""
    z = axes.canonical(z)
    z = z.to(torch.promote_types(z.dtype, torch.float32))
    over = rule.over(rule.axes[0], z.ndim)
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


class _Ends(torch.autograd.Function):
    """The ends of the groups; only where one falls short of its margin, its places are looked up and kept."""

    @staticmethod
    def forward(ctx: Any, z: Tensor, rule: Separation, axes: Axes, cutoff: float) -> tuple[Tensor, Tensor]:
        ends, pull = _locate(axes.canonical(z.detach()), rule, cutoff)
        ties = torch.bincount(pull.group, minlength=ends.numel()).view_as(ends)
        ctx.save_for_backward(*pull)
        ctx.axes, ctx.shape, ctx.dtype = axes, z.shape, z.dtype
        ctx.mark_non_differentiable(ties)
        return ends, ties

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        grad = torch.zeros(ctx.shape, dtype=ctx.dtype, device=grads[0].device)
        Pull(*ctx.saved_tensors).add(ctx.axes.canonical(grad), grads[0].flatten())
        return grad, None, None, None


def _locate(z: Tensor, rule: Separation, cutoff: float) -> tuple[Tensor, Pull]:
    """Ends [S, G] of z [N, C, *positions], and their sparse derivative by group of S·G."""
    dtype = torch.promote_types(z.dtype, torch.float32)
    signs, _, margins, _ = sides(rule, cutoff, dtype, z.device)
    if not len(z):  # this rank has no points
        groups = rule.sizes(rule.axes, z.shape)[0]
        return z.new_full((len(signs), groups), -torch.inf, dtype=dtype), no_pull(dtype, z.device)
    maps = Maps.of(z, rule.signs, pooled=rule.pools(z.ndim))
    ends = maps.ends(rule.axes).to(dtype)
    spot, group = maps.attained(ends.masked_fill(margins - ends <= 0, torch.nan), rule.axes)
    if not spot.numel():
        return ends, no_pull(dtype, z.device)
    found = maps.places(spot, group, signs)
    each = found._replace(group=found.group + found.side * ends.shape[1], side=torch.zeros_like(found.side))
    pull = pull_at(each, signs.new_ones(1), ends.numel(), rule.ties)
    return ends, pull._replace(slope=pull.slope * signs[pull.group // ends.shape[1]])
