"""Separation slacks at almost no cost: the fast twin of `separation.slacks`, in value and gradient.

Forward takes one pass over the values, and looks up where an extreme lies only for the groups whose slack is positive.
Only those few places are kept. Backward adds a handful of numbers to a gradient; for ReLU that gradient is made here,
so no tensor of the size of the activations is allocated or saved that the plain ReLU would not have. Where a great
part of a layer ties, as where nothing reaches it and every value is a bias, a byte a value says which are extremes.

On a CPU, `sweep` does all of it, the ReLU too, for the usual layouts, and other layouts are copied into one of these.
On other devices, in other precisions than float32 and float64, without numba and under a compiler, the operator of
`ends` gives the extremes and their places, and nothing waits: there the first of equal extremes gets the gradient.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from ..torch_private import FakeTensor, is_dual, is_proxy_tracing, is_transformed, node_of
from . import ends, separation
from .derivative import Pull, Spread
from .ends import Ends
from .extremes import Axes, canonical
from .separation import Separation, Slacks
from .way import SMALL, SPAN, Way, way_of


def slacks(z: Tensor, rule: Separation, *, cutoff: float = 0.0, unit_axis: int = 1, point_axis: int = 0) -> Slacks:
    """As `separation.slacks`, in value and gradient; z itself is not kept, so it may be changed in place afterwards."""
    return _now(measure(z, rule, cutoff=cutoff, unit_axis=unit_axis, point_axis=point_axis))


def measure(
    z: Tensor, rule: Separation, *, cutoff: float = 0.0, unit_axis: int = 1, point_axis: int = 0
) -> Slacks | Ends:
    """The same; where only the ends are measured here, these, as slacks are better made of many layers at once."""
    if torch.compiler.is_compiling():
        return ends.in_graph(canonical(z, unit_axis, point_axis), rule, cutoff, relu=False)[1]
    way = way_of(z, rule, unit_axis, point_axis, cutoff)
    if not way.names:
        return {}
    seen = way.axes.canonical(z)
    if way.by_ends:
        return Ends(torch.ops.alive.ends(seen, *way.asked)[0], way)
    return _rearrange(seen, way) if way.sweep is None else _name(_Slacks.apply(z, way), way)


def _rearrange(z: Tensor, way: Way) -> Slacks:
    """The slacks of what no sweep can read as it lies: of each position as a point or unit of its own, or of a copy."""
    positions = z.shape[2:].numel()
    dense: dict[str, Tensor] = {}
    if not 0 < z.numel() < SPAN:
        return separation.slacks(z, way.rule, cutoff=way.cutoff)
    if way.rule.conv == "channel" or positions == 1 or way.names == ["L"]:
        return slacks(z.resolve_neg().contiguous(), way.rule, cutoff=way.cutoff)
    for axis in way.names:
        rows = z.flatten(1) if axis == "U" else z.flatten(2).transpose(1, 2).flatten(0, 1)
        dense |= slacks(rows, _of_axis(way.rule, axis), cutoff=way.cutoff)
    return dense


@lru_cache(maxsize=64)
def _of_axis(rule: Separation, axis: str) -> Separation:
    return replace(rule, mode=axis)


def applies(z: Tensor) -> bool:
    """Whether z can be measured here: a plain tensor, or one of a fake device, and nobody else traces what we do."""
    if torch.compiler.is_compiling():  # of a small layer a compiler makes more itself
        return not z.is_nested and z.numel() > SMALL
    if z.is_meta or is_transformed() or is_dual() or is_proxy_tracing():
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
    axes = Axes(unit_axis, point_axis)
    if torch.compiler.is_compiling():
        seen, s = ends.in_graph(axes.canonical(z), rule, 0.0, relu=True)
        assert seen is not None
        return axes.as_it_was(seen, z), s
    way = way_of(z, rule, unit_axis, point_axis, 0.0)
    if way.sweep is not None:
        y, *measured = _ReluSlacks.apply(z, way, inplace)
        return y, _name(measured, way)
    if way.by_ends and way.names and not inplace:
        y, values, _ = torch.ops.alive.relu_ends(axes.canonical(z), *way.asked)
        return axes.as_it_was(y, z), Ends(values, way, True)
    found = measure(z, rule, unit_axis=unit_axis, point_axis=point_axis)
    return z.relu_() if inplace else z.relu(), found


def passes_through(measured: Slacks | Ends) -> bool:
    """Whether backward from relu(z) goes through the node that measured z."""
    if isinstance(measured, Ends):
        return measured.with_relu
    return any(isinstance(s.grad_fn, node_of(_ReluSlacks)) for s in measured.values())


def _name(measured: Sequence[Tensor], way: Way) -> Slacks:
    return dict(zip(way.names, measured, strict=True))


def _now(measured: Slacks | Ends) -> Slacks:
    return ends.slacks([measured])[0] if isinstance(measured, Ends) else measured


class _Slacks(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: Tensor, way: Way) -> tuple[Tensor, ...]:
        ctx.set_materialize_grads(False)
        s, ctx.form, kept = _measure(z, way, None, ctx.needs_input_grad[0])
        ctx.save_for_backward(*kept)
        ctx.way = way
        return tuple(s)

    @staticmethod
    def backward(ctx: Any, *grad_s: Tensor | None) -> tuple[Tensor | None, ...]:
        return _gradient(ctx, None, None, grad_s, ctx.saved_tensors), None


class _ReluSlacks(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: Tensor, way: Way, inplace: bool) -> tuple[Tensor, ...]:
        ctx.set_materialize_grads(False)
        if inplace:
            s, ctx.form, kept = _measure(z, way, None, ctx.needs_input_grad[0])
            y = z.relu_()
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


def in_a_row(parts: Sequence[Tensor | None], way: Way) -> Tensor:
    """The gradients of the slacks of all axes in a row; zeros where there is none."""
    like = next(part for part in parts if part is not None)
    rows = [like.new_zeros(n) if part is None else part for part, n in zip(parts, way.sizes, strict=True)]
    return torch.cat(rows) if len(rows) > 1 else rows[0]


def _gradient(
    ctx: Any, grad_y: Tensor | None, y: Tensor | None, grad_s: Sequence[Tensor | None], kept: Sequence[Tensor]
) -> Tensor:
    """The gradient of z from those of relu(z), if any, and of the slacks."""
    way = ctx.way
    if not torch.is_grad_enabled():  # a gradient of the gradient needs operations that torch knows
        fast: Tensor | None = way.gradient(grad_y, y, grad_s, ctx.form, kept[0] if kept else None)
        if fast is not None:
            return fast
    if y is not None and grad_y is not None:
        grad: Tensor = torch.ops.aten.threshold_backward.default(grad_y, y, 0)
    else:
        grad = torch.zeros(way.size, dtype=way.dtype)
    if kept and any(g is not None for g in grad_s):
        add_pull(way, grad, way.derivative(ctx.form, kept[0]), in_a_row(grad_s, way))
    return grad


def add_pull(way: Way, grad: Tensor, pull: Pull | Spread, upstream: Tensor) -> None:
    """Add the slacks' gradient to a gradient that nobody else holds."""
    seen = way.axes.canonical(grad)
    if isinstance(pull, Pull):  # its places are numbered as they lie in memory
        pull.add(seen.movedim(1, -1) if way.by_rows else seen, upstream)
    else:
        pull.add(seen, upstream, way.rule)


def _measure(z: Tensor, way: Way, y: Tensor | None, needs_grad: bool) -> tuple[list[Tensor], Any, Sequence[Tensor]]:
    """The slacks by axis, and their derivative: its form, and what is to be kept of it; relu(z) is written to y."""
    s, form, kept = way.measure(z, y, needs_grad)
    return s, form, (torch.from_numpy(kept),) if form else ()
