"""Separation over a batch that lies on several ranks: as if one process had seen all of it, in value and gradient.

The extremes of a unit, or of a layer, are over points that lie on all ranks; a point's own are not. So each rank
measures the ends of its part, [S, G] a layer: the largest sign·z of each group G on each side S. When the penalty is
asked for, the ends of all layers travel together in one reduction, and what must be summed in another: how many
values share an end, and the slacks of the points. Nothing travels in backward.

Every rank returns the same penalty A, and differentiates it by its own pre-activations alone, times the number of
ranks W: the mean of these gradients over the ranks, which DistributedDataParallel takes, is the gradient of A.
An end that several ranks share is divided among all its ties, wherever they are; or, with ties "single", given to the
first, where the points of a lower rank come before those of a higher one.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, distributed

from ..errors import AliveError, expect_one_of
from . import fused
from .derivative import Pull, no_pull, sizes
from .fused import Layout
from .separation import AGGREGATES, Separation, Slacks, canonical, extreme

SAMPLE = 256  # values of a parameter that stand for all of it
APART = 1e-5  # how far weights may differ, relative to their norm: more than rounding, less than a step of training

Group = Any
"""A torch.distributed process group; None is the one of all ranks."""


class Part(NamedTuple):
    """One layer on one rank: ends [S, G], how many values equal each [S, G], margins [S, 1], values a group is over."""

    ends: Tensor
    ties: Tensor
    margins: Tensor
    values: int


def world_size(group: Group = None) -> int:
    """How many ranks there are: 1 where torch.distributed is not set up.

    >>> world_size()
    1
    """
    if not (distributed.is_available() and distributed.is_initialized()):
        return 1
    return distributed.get_world_size(group)


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
    layout = Layout(unit_axis, point_axis, cutoff)
    seen = canonical(z, unit_axis, point_axis)
    values = 1
    for dim in rule.over(rule.axes[0], seen.ndim):
        values *= seen.shape[dim]
    dtype = torch.promote_types(z.dtype, torch.float32)
    ends, ties = _Ends.apply(z, rule, layout) if fused.applies(z) else plain_ends(z, rule, layout)
    return Part(ends, ties, fused._sides(rule, cutoff, dtype, z.device).margins, values)


def plain_ends(z: Tensor, rule: Separation, layout: Layout) -> tuple[Tensor, Tensor]:
    """Ends and ties [S, G] in plain torch: the slow, obvious twin, which torch.compile fuses by itself."""
    z = canonical(z, layout.unit_axis, layout.point_axis)
    z = z.to(torch.promote_types(z.dtype, torch.float32))
    over = rule.over(rule.axes[0], z.ndim)
    ends, ties = [], []
    for sign in fused._signs(rule):
        ends.append(extreme(sign * z, over, largest=True, ties=rule.ties).flatten())
        ties.append((sign * z == (sign * z).amax(over, keepdim=True)).sum(over).flatten())
    return torch.stack(ends), torch.stack(ties)


class _Ends(torch.autograd.Function):
    """The ends of the groups; only where one falls short of its margin, its places are looked up and kept."""

    @staticmethod
    def forward(ctx: Any, z: Tensor, rule: Separation, layout: Layout) -> tuple[Tensor, Tensor]:
        ends, pull = _locate(canonical(z.detach(), layout.unit_axis, layout.point_axis), rule, layout.cutoff)
        ties = torch.bincount(pull.group, minlength=ends.numel()).view_as(ends)
        ctx.save_for_backward(*pull)
        ctx.layout, ctx.shape, ctx.dtype = layout, z.shape, z.dtype
        ctx.mark_non_differentiable(ties)
        return ends, ties

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        grad = torch.zeros(ctx.shape, dtype=ctx.dtype, device=grads[0].device)
        seen = canonical(grad, ctx.layout.unit_axis, ctx.layout.point_axis)
        Pull(*ctx.saved_tensors).add(seen, grads[0].flatten())
        return grad, None, None


def _locate(z: Tensor, rule: Separation, cutoff: float) -> tuple[Tensor, Pull]:
    """Ends [S, G] of z [N, C, *positions], and their sparse derivative by group of S·G."""
    dtype = torch.promote_types(z.dtype, torch.float32)
    sides = fused._sides(rule, cutoff, dtype, z.device)
    if not len(z):  # this rank has no points
        groups = sizes(rule, rule.axes, z.shape)[0]
        return z.new_full((len(sides.signs), groups), -torch.inf, dtype=dtype), no_pull(dtype, z.device)
    blocks = fused._blocks(z, rule)
    maps = blocks.amax(3) if fused._pooled(z, rule) else blocks
    ends = fused._ends(maps, rule.axes[0]).to(dtype)
    short = ends.masked_fill(sides.margins - ends <= 0, torch.nan)
    found = fused._locate(z, blocks, maps, short, sides.signs, rule, rule.axes)
    if found is None:
        return ends, no_pull(dtype, z.device)
    index, group, side = found
    key = group + side * ends.shape[1]
    pull = fused._pull(index, key, torch.zeros_like(side), sides.signs.new_ones(1), ends.numel(), rule.ties)
    return ends, pull._replace(slope=pull.slope * sides.signs[pull.group // ends.shape[1]])


def aggregate(
    parts: Sequence[Part], points: Sequence[Slacks], rule: Separation, *, how: str = "sumsq", group: Group = None
) -> Tensor:
    """As `separation.aggregate` over the batch of all ranks: of `parts` by unit or layer, and of slacks by point.

    Every rank of the group must call it, with the same layers in the same order.
    """
    expect_one_of("aggregate", how, AGGREGATES)
    by_point = [s["P"] for s in points if "P" in s]
    like = (by_point or [part.ends for part in parts])[0]
    own = torch.cat(by_point) if by_point else like.new_zeros(0)
    ends, ties, margins, owners = _joined(parts, like)
    counts = like.new_tensor([own.numel(), *(part.values for part in parts)], dtype=torch.float64)
    ends, total, counts = _Across.apply(ends, _power(own, how).sum(), ties, counts, rule.ties, group)

    shares = torch.tensor([[share] for share in rule.shares if share], dtype=ends.dtype, device=ends.device)
    satisfiable = counts[1:][owners] > 1
    s = torch.where(satisfiable, (shares * torch.relu(margins - ends)).sum(0), 0)
    return _aggregate(_power(s, how).sum(), satisfiable.sum(), total, counts[0], how)


def _joined(parts: Sequence[Part], like: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Ends, ties and margins [S, G of all layers], and the number of the layer of each group."""
    if not parts:
        nothing = like.new_zeros(1, 0)
        return nothing, nothing, nothing, torch.zeros(0, dtype=torch.long, device=like.device)
    ends = torch.cat([part.ends for part in parts], 1)
    ties = torch.cat([part.ties for part in parts], 1)
    margins = torch.cat([part.margins.expand_as(part.ends) for part in parts], 1)
    sizes = [part.ends.shape[1] for part in parts]
    numbers = torch.arange(len(parts), device=like.device)
    return ends, ties, margins, numbers.repeat_interleave(torch.tensor(sizes, device=like.device))


def _power(s: Tensor, how: str) -> Tensor:
    return s.square() if how in ("sumsq", "norm") else s


def _aggregate(units: Tensor, unit_count: Tensor, points: Tensor, point_count: Tensor, how: str) -> Tensor:
    """A from the sums of (squared) slacks, and how many they are."""
    match how:
        case "sumsq" | "sum":
            return units + points
        case "norm":
            total = units + points
            positive = total > 0  # the root has no gradient at 0, the norm has gradient 0
            return torch.where(positive, torch.where(positive, total, 1).sqrt(), total)
        case "mean":
            return (units + points) / (unit_count + point_count).clamp(min=1).to(units.dtype)
        case _:
            means = (units / unit_count.clamp(min=1).to(units.dtype), points / point_count.clamp(min=1).to(units.dtype))
            return means[0] + means[1]


class _Across(torch.autograd.Function):
    """Ends over all ranks, and sums over all ranks; backward gives W times the gradient to those who own them."""

    @staticmethod
    def forward(
        ctx: Any, ends: Tensor, total: Tensor, ties: Tensor, counts: Tensor, rule: str, group: Group
    ) -> tuple[Tensor, ...]:
        world = distributed.get_world_size(group)
        top = ends.nan_to_num(nan=-torch.inf, posinf=torch.inf, neginf=-torch.inf)
        if top.numel():
            distributed.all_reduce(top, distributed.ReduceOp.MAX, group)
        mine = torch.where(ends == top, ties, 0).double()
        # A sum keeps NaN, which a maximum may lose.
        sums = torch.cat([mine.masked_fill(ends.isnan(), torch.nan).flatten(), counts, total.double().view(1)])
        distributed.all_reduce(sums, distributed.ReduceOp.SUM, group)
        tied, counts, summed = sums.split([ends.numel(), len(counts), 1])
        tied = tied.view_as(ends)
        if rule == "single":
            ctx.owned = _first(ends == top, group) * float(world)
        else:
            ctx.owned = (mine / tied.clamp(min=1) * world).to(ends.dtype)
        ctx.world = world
        ctx.mark_non_differentiable(counts)
        return top.masked_fill(tied.isnan(), torch.nan), summed[0].to(total.dtype), counts.clone()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        return grads[0] * ctx.owned, grads[1] * ctx.world, None, None, None, None


def _first(mine: Tensor, group: Group) -> Tensor:
    """Which of my ends no lower rank has too."""
    place = distributed.get_world_size(group) - distributed.get_rank(group)
    highest = mine.int() * place
    distributed.all_reduce(highest, distributed.ReduceOp.MAX, group)
    return mine & (highest == place)


def fingerprint(parameters: Iterable[Tensor], device: torch.device) -> Tensor:
    """Two signed sums over a sample of the weights, and the sample's norm: [3], float64.

    Parameters that no rank has whole (DTensors, what FSDP flattened) or that have no values yet are left out.

    >>> fingerprint([torch.nn.Parameter(torch.tensor([3.0, 4.0]))], torch.device("cpu"))[2].item()
    5.0
    """
    samples = [_sample(p).to(device, torch.float64) for p in parameters if _is_whole(p)]
    if not samples:
        return torch.zeros(3, dtype=torch.float64, device=device)
    sample = torch.cat(samples).nan_to_num(0, 0, 0)
    signs = torch.randint(0, 2, (2, len(sample)), generator=torch.Generator().manual_seed(0)) * 2 - 1
    return torch.cat([signs.to(sample) @ sample, sample.norm().view(1)])


def _is_whole(parameter: Tensor) -> bool:
    return type(parameter) is torch.nn.Parameter and not parameter.is_meta and not hasattr(parameter, "_fsdp_flattened")


def _sample(parameter: Tensor) -> Tensor:
    """Some values of a parameter, from all over it."""
    values = parameter.detach()
    values = (torch.view_as_real(values) if values.is_complex() else values).reshape(-1)
    return values[:: max(1, len(values) // SAMPLE)]


def expect_same(parts: Sequence[Part], weights: Tensor, group: Group) -> None:
    """Refuse ranks that met different layers, or have different weights, before their numbers are mixed up."""
    sizes = [part.ends.shape[1] for part in parts]
    mark = weights.new_tensor([zlib.crc32(str(sizes).encode())])
    marks = torch.cat([mark, -mark, weights[:2], -weights])
    distributed.all_reduce(marks, distributed.ReduceOp.MAX, group)
    highest, lowest, a, b, minus_a, minus_b, minus_norm = marks.tolist()
    if highest != -lowest:
        raise AliveError(
            f"the ranks met different layers: rank {distributed.get_rank(group)} measured {len(sizes)}, of "
            f"{', '.join(map(str, sizes[:6]))}{' ...' * (len(sizes) > 6)} units",
            "Give every rank the same model and as many forward passes, or penalise each by itself: across_ranks=False",
        )
    if max(a + minus_a, b + minus_b) > APART * -minus_norm:
        raise AliveError(
            "the ranks have different weights: their models are not one and the same, and a penalty over all would mix "
            "them up",
            "Wrap the model in DistributedDataParallel, or penalise each rank's by itself: across_ranks=False",
        )
