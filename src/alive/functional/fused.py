"""Separation slacks at almost no cost: the fast twin of `separation.slacks`, in value and gradient.

Forward takes one pass over the values, and looks up where an extreme lies only for the groups whose slack is positive.
Only those few places are kept. Backward adds a handful of numbers to a gradient; for ReLU that gradient is made here,
so no tensor of the size of the activations is allocated or saved that the plain ReLU would not have. Where a great
part of a layer ties, as where nothing reaches it and every value is a bias, a byte a value says which are extremes.

On a CPU, `sweep` does all of it, the ReLU too, for the usual layouts; for others torch takes the extremes over the
positions, and `kernel` does the rest. On other devices, in other precisions than float32 and float64, and without
numba, torch takes the extremes and their places (`ends`), and nothing waits: there the first of equal extremes gets the
gradient.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from ..torch_private import FakeTensor, is_dual, is_proxy_tracing, is_transformed, node_of
from . import ends
from .derivative import Pull, Spread, spread
from .ends import Ends
from .extremes import over_positions
from .separation import Separation, Slacks
from .way import Way, way_of

LISTED = 65_536  # ties that may be listed, whatever the size of the layer


def slacks(z: Tensor, rule: Separation, *, cutoff: float = 0.0, unit_axis: int = 1, point_axis: int = 0) -> Slacks:
    """As `separation.slacks`, in value and gradient; z itself is not kept, so it may be changed in place afterwards."""
    return _now(measure(z, rule, cutoff=cutoff, unit_axis=unit_axis, point_axis=point_axis))


def measure(
    z: Tensor, rule: Separation, *, cutoff: float = 0.0, unit_axis: int = 1, point_axis: int = 0
) -> Slacks | Ends:
    """The same; where only the ends are measured here, these, as slacks are better made of many layers at once."""
    way = way_of(z, rule, unit_axis, point_axis, cutoff)
    return _name(_Slacks.apply(z, way), way) if way.names else {}


def applies(z: Tensor) -> bool:
    """Whether z can be measured here: a plain tensor, or one of a fake device, and nobody else traces what we do."""
    if torch.compiler.is_compiling() or z.is_meta or is_transformed() or is_dual() or is_proxy_tracing():
        return False
    return type(z) in (Tensor, torch.nn.Parameter, FakeTensor)


def relu_slacks(
    z: Tensor, rule: Separation, *, unit_axis: int = 1, point_axis: int = 0, inplace: bool = False
) -> tuple[Tensor, Slacks]:
    """relu(z) and the slacks of z together.

    >>> y, s = relu_slacks(torch.tensor([[2.0, 0.5], [-3.0, 0.25]]), Separation(mode="U"))
    >>> y.tolist(), s["U"].tolist()
    ([[2.0, 0.5], [0.0, 0.25]], [0.0, 0.875])
    """
    y, measured = relu_measure(z, rule, unit_axis=unit_axis, point_axis=point_axis, inplace=inplace)
    return y, _now(measured)


def relu_measure(
    z: Tensor, rule: Separation, *, unit_axis: int = 1, point_axis: int = 0, inplace: bool = False
) -> tuple[Tensor, Slacks | Ends]:
    """relu(z), and z measured as by `measure`."""
    way = way_of(z, rule, unit_axis, point_axis, 0.0)
    if not way.names:
        return z.relu_() if inplace else z.relu(), {}
    y, *measured = _ReluSlacks.apply(z, way, inplace)
    return y, _name(measured, way)


def _name(measured: Sequence[Tensor], way: Way) -> Slacks | Ends:
    return Ends(measured[0], way) if way.by_ends else dict(zip(way.names, measured, strict=True))


def _now(measured: Slacks | Ends) -> Slacks:
    return ends.slacks([measured])[0] if isinstance(measured, Ends) else measured


class _Slacks(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: Tensor, way: Way) -> tuple[Tensor, ...]:
        ctx.set_materialize_grads(False)
        s, ctx.form, kept = _measure(z, way, None, ctx.needs_input_grad[0])
        ctx.save_for_backward(*kept)
        ctx.way, ctx.device = way, z.device
        return tuple(s)

    @staticmethod
    def backward(ctx: Any, *grad_s: Tensor | None) -> tuple[Tensor | None, ...]:
        return _gradient(ctx, None, None, grad_s, ctx.saved_tensors), None


class _ReluSlacks(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: Tensor, way: Way, inplace: bool) -> tuple[Tensor, ...]:
        ctx.set_materialize_grads(False)
        if inplace or way.sweep is None:
            s, ctx.form, kept = _measure(z, way, None, ctx.needs_input_grad[0])
            y = z.relu_() if inplace else z.relu()
            if inplace:
                ctx.mark_dirty(y)
        else:
            y = torch.empty_like(z)
            s, ctx.form, kept = _measure(z, way, y, ctx.needs_input_grad[0])
        ctx.save_for_backward(y, *kept)
        ctx.way = way
        return y, *s

    @staticmethod
    def backward(ctx: Any, grad_y: Tensor | None, *grad_s: Tensor | None) -> tuple[Tensor | None, ...]:
        y, *kept = ctx.saved_tensors
        return _gradient(ctx, grad_y, y, grad_s, kept), None, None


RELU_NODE = node_of(_ReluSlacks)  # the node of ReLU and slacks together, in the graph of autograd


def in_a_row(parts: Sequence[Tensor | None], way: Way) -> Tensor:
    """The gradients of the slacks of all axes in a row; zeros where there is none."""
    like = next(part for part in parts if part is not None)
    rows = [like.new_zeros(n) if part is None else part for part, n in zip(parts, way.sizes, strict=True)]
    return torch.cat(rows) if len(rows) > 1 else rows[0]


def _gradient(
    ctx: Any, grad_y: Tensor | None, y: Tensor | None, grad_s: Sequence[Tensor | None], kept: Sequence[Tensor]
) -> Tensor:
    """The gradient of z from those of relu(z), if any, and of the slacks."""
    way, swept = ctx.way, type(ctx.form) is int  # else the class of what was kept, or None for places
    if swept and not torch.is_grad_enabled():  # a gradient of the gradient needs operations that torch knows
        grad: Tensor | None = way.gradient(grad_y, y, grad_s, ctx.form, kept[0] if kept else None)
        if grad is not None:
            return grad
    if y is not None and grad_y is not None:
        grad = torch.ops.aten.threshold_backward.default(grad_y, y, 0)
    else:
        grad = torch.zeros(way.size, dtype=way.dtype, device=ctx.device if y is None else y.device)
    if way.by_ends and kept and grad_s[0] is not None:
        ends.add(way.in_memory(grad), kept[0], grad_s[0])
    elif kept and any(g is not None for g in grad_s):
        pull = way.derivative(ctx.form, kept[0]) if swept else ctx.form(*kept)
        add_pull(way, grad, pull, in_a_row(grad_s, way), in_memory=swept)
    return grad


def add_pull(way: Way, grad: Tensor, pull: Pull | Spread, upstream: Tensor, *, in_memory: bool) -> None:
    """Add the slacks' gradient to a gradient that nobody else holds; places may be numbered as they lie in memory."""
    by_place = in_memory and isinstance(pull, Pull)
    pull.add(way.in_memory(grad) if by_place else way.axes.canonical(grad), upstream, way.rule)


def _measure(z: Tensor, way: Way, y: Tensor | None, needs_grad: bool) -> tuple[list[Tensor], Any, Sequence[Tensor]]:
    """The slacks by axis, and their derivative: its form, and what is to be kept of it. A sweep writes relu(z) to y."""
    if way.sweep is not None:
        s, form, kept = way.measure(z, y, needs_grad)
        return s, form, (torch.from_numpy(kept),) if form else ()
    z = way.axes.canonical(z).detach()
    if way.by_ends:
        values, places = ends.locate(z, way)
        return [values], None, (places,) if needs_grad else ()
    s, pull = _by_kernel(z, way.rule, way.cutoff, needs_grad)
    return s, type(pull), pull


def _by_kernel(z: Tensor, rule: Separation, cutoff: float, needs_grad: bool) -> tuple[list[Tensor], Pull | Spread]:
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
