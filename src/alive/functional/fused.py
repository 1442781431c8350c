"""Separation slacks at almost no cost: the fast twin of `separation.slacks`, in value and gradient.

Forward takes one values-only pass (`amax` and `amin` over the positions give [N, C] maps from which unit and point
extremes both follow), and looks up where an extreme lies only for the groups whose slack is positive. Only those few
indices are kept. Backward adds a handful of numbers to a gradient; for ReLU that gradient is made here, so no tensor
of the size of the activations is allocated or saved that the plain ReLU would not have. Where a great part of a layer
ties, as where nothing reaches it and every value is a bias, a byte a value says which are extremes.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from .derivative import Pull, Spread, no_pull, pull_at, spread
from .extremes import Axes, Maps, canonical, over_positions
from .separation import Separation, Slacks, sides

LISTED = 65_536  # ties that may be listed, whatever the size of the layer


def slacks(z: Tensor, rule: Separation, *, cutoff: float = 0.0, unit_axis: int = 1, point_axis: int = 0) -> Slacks:
    """As `separation.slacks`, in value and gradient; z itself is not kept, so it may be changed in place afterwards."""
    axes = rule.satisfiable_axes(canonical(z, unit_axis, point_axis).shape)
    if not axes:
        return {}
    return dict(zip(axes, _Slacks.apply(z, rule, Axes(unit_axis, point_axis), cutoff), strict=True))


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
    y, *s = _ReluSlacks.apply(z, rule, Axes(unit_axis, point_axis), inplace)
    return y, dict(zip(axes, s, strict=True))


class _Slacks(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: Tensor, rule: Separation, axes: Axes, cutoff: float) -> tuple[Tensor, ...]:
        s, pull = _measure(axes.canonical(z), rule, cutoff, ctx.needs_input_grad[0])
        ctx.save_for_backward(*pull)
        ctx.rule, ctx.kind, ctx.axes, ctx.shape, ctx.dtype = rule, type(pull), axes, z.shape, z.dtype
        return tuple(s)

    @staticmethod
    def backward(ctx: Any, *grad_s: Tensor) -> tuple[Tensor | None, ...]:
        grad = torch.zeros(ctx.shape, dtype=ctx.dtype, device=grad_s[0].device)
        return _add(grad, grad_s, ctx.kind(*ctx.saved_tensors), ctx), None, None, None


class _ReluSlacks(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: Tensor, rule: Separation, axes: Axes, inplace: bool) -> tuple[Tensor, ...]:
        s, pull = _measure(axes.canonical(z), rule, 0.0, ctx.needs_input_grad[0])
        y = z.relu_() if inplace else z.relu()
        if inplace:
            ctx.mark_dirty(y)
        ctx.save_for_backward(y, *pull)
        ctx.rule, ctx.kind, ctx.axes = rule, type(pull), axes
        return y, *s

    @staticmethod
    def backward(ctx: Any, grad_y: Tensor, *grad_s: Tensor) -> tuple[Tensor | None, ...]:
        y, *pull = ctx.saved_tensors
        grad = torch.ops.aten.threshold_backward.default(grad_y, y, 0)
        return _add(grad, grad_s, ctx.kind(*pull), ctx), None, None, None


RELU_NODE = _ReluSlacks._backward_cls  # the node of ReLU and slacks together, in the graph of autograd


def _add(grad: Tensor, grad_s: tuple[Tensor, ...], pull: Pull | Spread, ctx: Any) -> Tensor:
    """Add the slacks' gradient to a gradient that nobody else holds."""
    upstream = torch.cat(grad_s) if len(grad_s) > 1 else grad_s[0]
    pull.add(ctx.axes.canonical(grad), upstream, ctx.rule)
    return grad


def _measure(z: Tensor, rule: Separation, cutoff: float, needs_grad: bool) -> tuple[list[Tensor], Pull | Spread]:
    """The slacks of the canonical z by satisfiable axis, and their derivative, the groups of all axes in a row."""
    if z.device.type == "cpu" and z.dtype in (torch.float32, torch.float64) and z.layout == torch.strided:
        return _compiled(z.detach(), rule, cutoff, needs_grad)
    return _in_torch(z, rule, cutoff, needs_grad)


def _compiled(z: Tensor, rule: Separation, cutoff: float, needs_grad: bool) -> tuple[list[Tensor], Pull | Spread]:
    """On CPU: torch takes the extremes over the positions, `kernel` does the rest."""
    from .kernel import measure

    axes = rule.satisfiable_axes(z.shape)
    counts = rule.sizes(axes, z.shape)
    plus, minus = rule.shares
    pooled = rule.pools(z.ndim) and z.shape[2:].numel() > 1
    top = over_positions(z, torch.amax) if pooled and plus else None
    bottom = over_positions(z, torch.amin) if pooled and minus else None
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
    found = spread(z, rule, cutoff) if many else Pull(*map(torch.from_numpy, pull))
    return [torch.from_numpy(part) for part in parts], found


@lru_cache(maxsize=256)
def _pair(a: float, b: float, dtype: torch.dtype) -> Any:
    return torch.tensor([a, b], dtype=dtype).numpy()


def _in_torch(z: Tensor, rule: Separation, cutoff: float, needs_grad: bool) -> tuple[list[Tensor], Pull | Spread]:
    """On any device, in calls to torch: the twin of `separation.slack`, both sides as rows of one sum."""
    dtype = torch.promote_types(z.dtype, torch.float32)
    signs, shares, margins, slopes = sides(rule, cutoff, dtype, z.device)
    maps = Maps.of(z, rule.signs, pooled=rule.pools(z.ndim))
    axes = rule.satisfiable_axes(z.shape)
    ends = maps.ends(axes)
    xi = torch.relu(margins - ends)
    s = (shares * xi).sum(0)
    parts = [part.clone() for part in s.split(rule.sizes(axes, z.shape))]
    if not needs_grad:
        return parts, no_pull(dtype, z.device)
    spot, group = maps.attained(ends.masked_fill(xi <= 0, torch.nan), axes)
    if not spot.numel():
        return parts, no_pull(dtype, z.device)
    if rule.ties == "split" and spot.numel() > 4 * s.numel() + max(LISTED, maps.cells.numel() // 16):
        return parts, spread(z, rule, cutoff)
    return parts, pull_at(maps.places(spot, group, signs), slopes, s.numel(), rule.ties)
