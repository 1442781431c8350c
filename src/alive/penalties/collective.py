"""The penalty of a batch that lies on several ranks: as if one process had seen all of it, in value and gradient.

Each rank has measured the ends of its part (`functional.parts`). When the penalty is asked for, the ends of all layers
travel together in one reduction, and what must be summed in another: how many values share an end, and the slacks of
the points. Nothing travels in backward.

Every rank returns the same penalty A, and differentiates it by its own pre-activations alone, times the number of
ranks W: the mean of these gradients over the ranks, which DistributedDataParallel takes, is the gradient of A.
An end that several ranks share is divided among all its ties, wherever they are; or, with ties "single", given to the
first, where the points of a lower rank come before those of a higher one.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, distributed

from ..errors import AliveError, expect_one_of
from ..functional import AGGREGATES, Separation, Slacks, parts
from ..functional.parts import Part
from ..functional.separation import Means, by_size, in_order, mean_square
from ..torch_private import remember
from ..world import Group

SAMPLE = 256  # values of a parameter that stand for all of it
APART = 1e-5  # how far weights may differ, relative to their norm: more than rounding, less than a step of training


def aggregate(
    shared: Sequence[Part], points: Sequence[Slacks], rule: Separation, *, how: str = "meansq", group: Group = None
) -> Tensor:
    """The twin of `separation.aggregate` over the batch of all ranks: of parts by unit or layer, of slacks by point.

    Every rank of the group must call it, with the same layers in the same order.
    """
    expect_one_of("aggregate", how, AGGREGATES)
    if how == "meansq":
        return torch.stack([each.average() for each in means(shared, points, rule, group=group).values()]).sum()
    by_point = [s["P"] for s in points if "P" in s]
    like = (by_point or [part.ends for part in shared])[0]
    own = torch.cat(by_point) if by_point else like.new_zeros(0)
    ends, ties, margins, owners = _join(shared, like)
    counts = _row((own.numel(), *(part.values for part in shared)), like.device)
    ends, total, counts = _Across.apply(ends, _power(own, how).sum().view(1), ties, counts, rule.ties, group)

    satisfiable = counts[1:][owners] > 1
    s = torch.where(satisfiable, parts.slacks(ends, margins, rule), 0)
    return _aggregate(_power(s, how).sum(), satisfiable.sum(), total[0], counts[0], how)


def means(
    shared: Sequence[Part], points: Sequence[Slacks], rule: Separation, *, group: Group = None
) -> dict[str, Means]:
    """The twin of `separation.means` over the batch of all ranks; every rank has the same, of all layers it met."""
    by_point = [s["P"] for s in points if "P" in s]
    like = (by_point or [part.ends for part in shared])[0]
    own = by_size([s.get("P", like.new_zeros(0)) for s in points]) if "P" in rule.axes else []
    squares, sums = (in_order(own, power) for power in (_square_sum, _sum)) if own else [like.new_zeros(0)] * 2
    values = _row(tuple(part.values for part in shared), like.device)
    sizes = _row(tuple(len(s.get("P", ())) for s in points)[: len(squares)], like.device)
    ends, ties, margins, owners = _join(shared, like)
    counts = torch.cat([values, sizes, sums.double()])
    ends, squares, counts = _Across.apply(ends, squares, ties, counts, rule.ties, group)

    values, sizes, sums = counts.split([len(values), len(sizes), len(sums)])
    found = {}
    if shared:
        groups = [part.ends.shape[1] for part in shared]
        present = (values > 1) & (_row(tuple(groups), values.device) > 0)
        s = torch.where(present[owners], parts.slacks(ends, margins, rule), 0)
        matrices = by_size(s.split(groups))
        squares_of, slacks_of = (in_order(matrices, power) for power in (mean_square, _mean))
        numbers = tuple(range(len(shared)))
        found[rule.axes[0]] = Means(
            numbers, torch.where(present, squares_of, 0), torch.where(present, slacks_of, 0), present
        )
    if own:
        count = sizes.clamp(min=1)
        numbers = tuple(range(len(sizes)))
        found["P"] = Means(numbers, squares / count.to(squares.dtype), (sums / count).to(squares.dtype), sizes > 0)
    return found


def _sum(rows: Tensor) -> Tensor:
    return rows.detach().sum(1)


def _mean(rows: Tensor) -> Tensor:
    return rows.detach().mean(1)


def _square_sum(rows: Tensor) -> Tensor:
    return rows.square().sum(1)


def _join(shared: Sequence[Part], like: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Ends, ties and margins [S, G of all layers], and the number of the layer of each group."""
    if not shared:
        nothing = like.new_zeros(1, 0)
        return nothing, nothing, nothing, torch.zeros(0, dtype=torch.long, device=like.device)
    ends = torch.cat([part.ends for part in shared], 1)
    ties = torch.cat([part.ties for part in shared], 1)
    margins = torch.cat([part.margins.expand_as(part.ends) for part in shared], 1)
    return ends, ties, margins, _owners(tuple(part.ends.shape[1] for part in shared), like.device)


@remember
def _owners(sizes: tuple[int, ...], device: torch.device) -> Tensor:
    """The number of the layer of each group, of layers of so many groups."""
    return torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes)).to(device)


@remember
def _row(numbers: tuple[int, ...], device: torch.device) -> Tensor:
    """Numbers as a tensor that nobody changes, which goes to its device once."""
    return torch.tensor(numbers, dtype=torch.float64, device=device)


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
    """Ends over all ranks, and totals [T] over them; backward gives W times the gradient to those who own them."""

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
        sums = torch.cat([mine.masked_fill(ends.isnan(), torch.nan).flatten(), counts, total.double()])
        distributed.all_reduce(sums, distributed.ReduceOp.SUM, group)
        tied, counts, summed = sums.split([ends.numel(), len(counts), len(total)])
        tied = tied.view_as(ends)
        if rule == "single":
            ctx.owned = _first(ends == top, group) * float(world)
        else:
            ctx.owned = (mine / tied.clamp(min=1) * world).to(ends.dtype)
        ctx.world = world
        counts = counts.clone()
        ctx.mark_non_differentiable(counts)
        return top.masked_fill(tied.isnan(), torch.nan), summed.to(total.dtype), counts

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


def expect_same(shared: Sequence[Part], weights: Tensor, group: Group, *, points: int = 0) -> None:
    """Refuse ranks that met different layers, or have different weights, before their numbers are mixed up.

    `points` is in how many layers points are measured, where these must be the same ones.
    """
    sizes = [part.ends.shape[1] for part in shared]
    mark = weights.new_tensor([zlib.crc32(str((sizes, points)).encode())])
    marks = torch.cat([mark, -mark, weights[:2], -weights])
    distributed.all_reduce(marks, distributed.ReduceOp.MAX, group)
    highest, lowest, a, b, minus_a, minus_b, minus_norm = marks.tolist()
    if highest != -lowest:
        raise AliveError(
            f"the ranks met different layers: rank {distributed.get_rank(group)} measured {max(len(sizes), points)}"
            + f", of {', '.join(map(str, sizes[:6]))}{' ...' * (len(sizes) > 6)} units" * bool(sizes),
            "Give every rank the same model and as many forward passes, or penalise each by itself: across_ranks=False",
        )
    if max(a + minus_a, b + minus_b) > APART * -minus_norm:
        raise AliveError(
            "the ranks have different weights: their models are not one and the same, and a penalty over all would mix "
            "them up",
            "Wrap the model in DistributedDataParallel, or penalise each rank's by itself: across_ranks=False",
        )
