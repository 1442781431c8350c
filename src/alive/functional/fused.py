"""Separation slacks at almost no cost: the fast twin of `separation`.

Forward takes one values-only pass (`amax` and `amin` over the positions give [N, C] maps from which unit and point
extremes both follow), and looks up where an extreme lies only for the groups whose slack is positive. Only those few
indices are kept. Backward adds a handful of numbers to a gradient; for ReLU that gradient is made here, so no tensor
of the size of the activations is allocated or saved that the plain ReLU would not have. Where a great part of a layer
ties, as where nothing reaches it and every value is a bias, a byte a value says which are extremes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd import forward_ad

from .derivative import Pull, Spread, no_pull, sizes, spread
from .separation import Separation, Slacks, canonical

LISTED = 65_536  # ties that may be listed, whatever the size of the layer
FEW = 32  # channels, below which a channels-last tensor is reduced axis by axis


class Layout(NamedTuple):
    """Where the units and the points lie in z, and the activation's cutoff."""

    unit_axis: int = 1
    point_axis: int = 0
    cutoff: float = 0.0


def slacks(z: Tensor, rule: Separation, *, cutoff: float = 0.0, unit_axis: int = 1, point_axis: int = 0) -> Slacks:
    """As `separation.slacks`, in value and gradient; z itself is not kept, so it may be changed in place afterwards."""
    axes = rule.satisfiable_axes(canonical(z, unit_axis, point_axis).shape)
    if not axes:
        return {}
    return dict(zip(axes, _Slacks.apply(z, rule, Layout(unit_axis, point_axis, cutoff)), strict=True))


def applies(z: Tensor) -> bool:
    """Whether z can be measured here: a plain tensor that holds values, and nobody traces or transforms what we do."""
    if torch.compiler.is_compiling() or z.is_meta or torch._C._functorch.peek_interpreter_stack() is not None:
        return False
    if forward_ad._current_level >= 0 or (torch._C._len_torch_dispatch_stack() and _is_traced()):
        return False
    return type(z) is Tensor or type(z) is torch.nn.Parameter


def _is_traced() -> bool:
    """Whether torch writes down what is computed, or computes without values."""
    keys = torch._C._TorchDispatchModeKey
    return any(torch._C._get_dispatch_mode(key) is not None for key in (keys.FAKE, keys.PROXY))


def relu_slacks(
    z: Tensor, rule: Separation, *, unit_axis: int = 1, point_axis: int = 0, inplace: bool = False
) -> tuple[Tensor, Slacks]:
    """relu(z) and the slacks of z together.

    >>> y, s = relu_slacks(torch.tensor([[2.0, 0.5], [-3.0, 0.25]]), Separation(mode="U"))
    >>> y.tolist(), s["U"].tolist()
    ([[2.0, 0.5], [0.0, 0.25]], [0.0, 0.875])
    """
    axes = rule.satisfiable_axes(canonical(z, unit_axis, point_axis).shape)
    if not axes:
        return z.relu_() if inplace else z.relu(), {}
    y, *s = _ReluSlacks.apply(z, rule, Layout(unit_axis, point_axis), inplace)
    return y, dict(zip(axes, s, strict=True))


class _Slacks(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: Tensor, rule: Separation, layout: Layout) -> tuple[Tensor, ...]:
        s, pull = _measure(z, rule, layout, ctx.needs_input_grad[0])
        ctx.save_for_backward(*pull)
        ctx.rule, ctx.kind, ctx.layout, ctx.shape, ctx.dtype = rule, type(pull), layout, z.shape, z.dtype
        return tuple(s)

    @staticmethod
    def backward(ctx: Any, *grad_s: Tensor) -> tuple[Tensor | None, ...]:
        grad = torch.zeros(ctx.shape, dtype=ctx.dtype, device=grad_s[0].device)
        return _add(grad, grad_s, ctx.kind(*ctx.saved_tensors), ctx), None, None


class _ReluSlacks(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: Tensor, rule: Separation, layout: Layout, inplace: bool) -> tuple[Tensor, ...]:
        s, pull = _measure(z, rule, layout, ctx.needs_input_grad[0])
        y = z.relu_() if inplace else z.relu()
        if inplace:
            ctx.mark_dirty(y)
        ctx.save_for_backward(y, *pull)
        ctx.rule, ctx.kind, ctx.layout = rule, type(pull), layout
        return y, *s

    @staticmethod
    def backward(ctx: Any, grad_y: Tensor, *grad_s: Tensor) -> tuple[Tensor | None, ...]:
        y, *pull = ctx.saved_tensors
        grad = torch.ops.aten.threshold_backward.default(grad_y, y, 0)
        return _add(grad, grad_s, ctx.kind(*pull), ctx), None, None, None


def _add(grad: Tensor, grad_s: tuple[Tensor, ...], pull: Pull | Spread, ctx: Any) -> Tensor:
    """Add the slacks' gradient to a gradient that nobody else holds."""
    upstream = torch.cat(grad_s) if len(grad_s) > 1 else grad_s[0]
    pull.add(canonical(grad, ctx.layout.unit_axis, ctx.layout.point_axis), upstream, ctx.rule)
    return grad


def _measure(z: Tensor, rule: Separation, layout: Layout, needs_grad: bool) -> tuple[list[Tensor], Pull | Spread]:
    """The slacks of z by satisfiable axis, and their sparse derivative, the groups of all axes in a row."""
    z = canonical(z, layout.unit_axis, layout.point_axis)
    if z.device.type == "cpu" and z.dtype in (torch.float32, torch.float64) and z.layout == torch.strided:
        return _compiled(z.detach(), rule, layout.cutoff, needs_grad)
    return _in_torch(z, rule, layout.cutoff, needs_grad)


def _compiled(z: Tensor, rule: Separation, cutoff: float, needs_grad: bool) -> tuple[list[Tensor], Pull | Spread]:
    """On CPU: torch takes the extremes over the positions, a compiled kernel does the rest."""
    from .kernel import measure

    axes = rule.satisfiable_axes(z.shape)
    counts = sizes(rule, axes, z.shape)
    plus, minus = rule.shares
    pooled = _pooled(z, rule) and z.shape[2:].numel() > 1
    top = _over_positions(z, torch.amax) if pooled and plus else None
    bottom = _over_positions(z, torch.amin) if pooled and minus else None
    flat = z.flatten(2) if z.ndim > 2 else z.unsqueeze(2)
    # Contiguous where that is cheap: the kernel is compiled anew for every layout it meets.
    flat = flat if pooled else flat.contiguous()
    top = flat if top is None else top
    bottom = top if bottom is None else bottom
    s, *pull, many = measure(
        flat.numpy(),
        (top if plus else bottom).numpy(),
        bottom.numpy(),
        ("U" in axes, "P" in axes, "L" in axes),
        _pair(rule.pos_margin + cutoff, rule.neg_margin - cutoff, z.dtype),
        _pair(plus, minus, z.dtype),
        rule.ties == "single",
        needs_grad,
        LISTED,
    )
    first = counts[0]  # of at most two axes
    parts = [s] if len(counts) == 1 else [s[:first], s[first:]]
    found = _spread(z, rule, cutoff) if many else Pull(*map(torch.from_numpy, pull))
    return [torch.from_numpy(part) for part in parts], found


def _spread(z: Tensor, rule: Separation, cutoff: float) -> Spread:
    sides = _sides(rule, cutoff, torch.promote_types(z.dtype, torch.float32), z.device)
    return spread(z, rule, sides.signs, sides.margins, sides.slopes)


def _over_positions(z: Tensor, extreme: Callable[..., Tensor]) -> Tensor:
    """The extremes [N, C, 1] over all positions of z [N, C, *P].

    With few channels innermost (channels_last), one axis after the other: a row of positions and channels is long
    enough for vectors, where all positions at once would be taken number by number, some fifteen times slower.
    """
    if z.ndim == 3 or z.stride(1) != 1 or z.shape[1] >= FEW:
        return extreme(z.flatten(2), 2, keepdim=True).contiguous()
    rows = z.movedim(1, -1)
    while rows.ndim > 2:
        rows = extreme(rows, 1)
    return rows.unsqueeze(2).contiguous()


@lru_cache(maxsize=256)
def _pair(a: float, b: float, dtype: torch.dtype) -> Any:
    return torch.tensor([a, b], dtype=dtype).numpy()


def _in_torch(z: Tensor, rule: Separation, cutoff: float, needs_grad: bool) -> tuple[list[Tensor], Pull | Spread]:
    """On any device, in calls to torch.

    Both ends are one problem, for the smallest is minus the largest of −z. The sides S are both, or one of them;
    maps [S, N, C, *kept] hold each side's largest values, ends [S, groups] those of each group.
    """
    dtype = torch.promote_types(z.dtype, torch.float32)
    sides = _sides(rule, cutoff, dtype, z.device)
    blocks = _blocks(z, rule)
    maps = blocks.amax(3) if _pooled(z, rule) else blocks
    axes = rule.satisfiable_axes(z.shape)
    ends = torch.cat([_ends(maps, axis) for axis in axes], 1)
    xi = torch.relu(sides.margins - ends)
    s = (sides.shares * xi).sum(0)
    parts = [part.clone() for part in s.split(sizes(rule, axes, z.shape))]
    if not needs_grad:
        return parts, no_pull(dtype, z.device)
    spot, group = _spots(maps, ends.masked_fill(xi <= 0, torch.nan), rule, axes, z.shape)
    if not spot.numel():
        return parts, no_pull(dtype, z.device)
    if rule.ties == "split" and spot.numel() > 4 * s.numel() + max(LISTED, maps.numel() // 16):
        return parts, _spread(z, rule, cutoff)
    return parts, _pull(*_places(z, blocks, maps, spot, group, sides.signs, rule), sides.slopes, s.numel(), rule.ties)


class _Sides(NamedTuple):
    """Of each side asked for: the sign of z, share and margin of ξ (as columns), and ∂s/∂z at an end."""

    signs: Tensor
    shares: Tensor
    margins: Tensor
    slopes: Tensor


@lru_cache(maxsize=256)
def _sides(rule: Separation, cutoff: float, dtype: torch.dtype, device: torch.device) -> _Sides:
    of = {1: (rule.shares[0], rule.pos_margin + cutoff), -1: (rule.shares[1], rule.neg_margin - cutoff)}
    rows = [(sign, *of[sign]) for sign in _signs(rule)]
    with torch.inference_mode(False):
        sign, share, margin = torch.tensor(rows, dtype=dtype, device=device).unbind(1)
        return _Sides(sign, share.unsqueeze(1), margin.unsqueeze(1), -sign * share)


def _signs(rule: Separation) -> list[int]:
    return [sign for sign, share in zip((1, -1), rule.shares, strict=True) if share]


def _pooled(z: Tensor, rule: Separation) -> bool:
    """Whether extremes are taken over positions as well."""
    return z.ndim > 2 and rule.conv == "channel"


def _blocks(z: Tensor, rule: Separation) -> Tensor:
    """Largest of sign·z over each block of positions, [S, N, C, blocks]; sign·z itself where positions are kept."""
    if not _pooled(z, rule):
        return torch.stack([z if sign > 0 else -z for sign in _signs(rule)])
    z = z.flatten(2).unflatten(2, (_block_count(z.shape[2:].numel()), -1))
    return torch.stack([z.amax(3) if sign > 0 else -z.amin(3) for sign in _signs(rule)])


@lru_cache(maxsize=256)
def _block_count(positions: int) -> int:
    """Blocks long enough (128) for a fast reduction, and short enough that looking into one costs little."""
    return max((b for b in range(1, positions // 128 + 1) if positions % b == 0), default=1)


def _over(maps: Tensor, axis: str) -> tuple[int, ...]:
    """The dimensions of maps [S, N, C, *kept] that an end of `axis` is taken over."""
    return {"U": (1,), "P": (2,), "L": tuple(range(1, maps.ndim))}[axis]


def _ends(maps: Tensor, axis: str) -> Tensor:
    ends = maps.amax(_over(maps, axis))
    return ends.flatten(1) if ends.ndim > 1 else ends.unsqueeze(1)


def _locate(
    z: Tensor, blocks: Tensor, maps: Tensor, ends: Tensor, signs: Tensor, rule: Separation, axes: Sequence[str]
) -> tuple[Tensor, Tensor, Tensor] | None:
    """Flat index in z, group and side of every value that is its group's end; NaN ends are not looked for."""
    spot, group = _spots(maps, ends, rule, axes, z.shape)
    return _places(z, blocks, maps, spot, group, signs, rule) if spot.numel() else None


def _spots(
    maps: Tensor, ends: Tensor, rule: Separation, axes: Sequence[str], shape: torch.Size
) -> tuple[Tensor, Tensor]:
    """Flat index in the maps, and group, of every cell that holds its group's end."""
    spots, groups, offset = [], [], 0
    for axis, wanted in zip(axes, ends.split(sizes(rule, axes, shape), 1), strict=True):
        over = _over(maps, axis)
        kept = [1 if d in over else size for d, size in enumerate(maps.shape)]
        spots.append((maps == wanted.reshape(kept)).flatten().nonzero().squeeze(1))
        groups.append(_group(spots[-1], maps, axis) + offset)
        offset += wanted.shape[1]
    return torch.cat(spots), torch.cat(groups)


def _places(
    z: Tensor, blocks: Tensor, maps: Tensor, spot: Tensor, group: Tensor, signs: Tensor, rule: Separation
) -> tuple[Tensor, Tensor, Tensor]:
    """From cells of the maps to places in z: flat index, group and side of each."""
    cells = maps[0].numel()
    side, index = spot // cells, spot % cells
    if _pooled(z, rule):
        hit, index = _descend(z, blocks, spot, maps.flatten()[spot], signs[side])
        side, group = side[hit], group[hit]
    return index, group, side


def _group(spot: Tensor, maps: Tensor, axis: str) -> Tensor:
    """The groups that cells of maps [S, N, C, *kept], given by flat index, belong to."""
    kept = maps.shape[3:].numel()
    row = maps.shape[2] * kept
    match axis:
        case "U":
            return spot % row
        case "P" if kept == 1:
            return spot // row % maps.shape[1]
        case "P":
            return spot // row % maps.shape[1] * kept + spot % kept
        case _:
            return torch.zeros_like(spot)


def _descend(z: Tensor, blocks: Tensor, spot: Tensor, value: Tensor, sign: Tensor) -> tuple[Tensor, Tensor]:
    """From cells of [S, N, C] that hold a value to its blocks, and on to its positions in z: flat indices."""
    _, N, C, B = blocks.shape
    k, b = (blocks.view(-1, B).index_select(0, spot) == value.unsqueeze(1)).nonzero().unbind(1)
    block = spot[k] % (N * C) * B + b  # flat, into [N, C, B]
    rows = z.reshape(N * C * B, -1).index_select(0, block)
    hit, position = (rows == (value * sign)[k].unsqueeze(1)).nonzero().unbind(1)
    return k[hit], block[hit] * rows.shape[1] + position


def _pull(index: Tensor, group: Tensor, side: Tensor, slopes: Tensor, groups: int, ties: str) -> Pull:
    """Give each group's slope to the first of its ties, or share it among them."""
    key = group + side * groups
    if ties == "split":
        return Pull(index, group, slopes[side] / torch.bincount(key)[key])
    first = index.new_full((groups * len(slopes),), torch.iinfo(index.dtype).max)
    first.scatter_reduce_(0, key, index, "amin")
    key = key.unique()
    return Pull(first[key], key % groups, slopes[key // groups])
