"""Many small layers measured together: one node in the graph of autograd for all of them, and one call each way."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..torch_private import is_transformed
from .fused import add_pull, in_a_row
from .separation import Rows, Separation, Slacks, by_size
from .way import SMALL, Way, addresses, way_of


class Pending(NamedTuple):
    """A small layer to be measured together with others: its pre-activations, which nobody changes, and the way."""

    z: Tensor
    way: Way


def later(z: Tensor, rule: Separation, unit_axis: int, point_axis: int, cutoff: float) -> Pending | None:
    """A copy of z to be measured `together` with other layers; None where z is too large, or lies unusually."""
    if z.numel() > SMALL:
        return None
    way = way_of(z, rule, unit_axis, point_axis, cutoff)
    return None if way.sweep is None else Pending(z.clone(), way)


def together(layers: Sequence[Pending]) -> list[Slacks]:
    """The slacks of layers that were put off, all of one dtype; as `slacks` of each."""
    found = {}
    for axis, s in joined(layers).items():
        found[axis] = iter(s.split([layer.way.by_name[axis] for layer in layers if axis in layer.way.by_name]))
    return [{name: next(found[name]) for name in layer.way.names} for layer in layers]


def joined(layers: Sequence[Pending]) -> Slacks:
    """The same in a row for each axis, as if all were one layer."""
    several = several_of(tuple(layer.way for layer in layers))
    found = _Together.apply(several, *(layer.z for layer in layers))
    return dict(zip(several.axes, found, strict=True))


def in_rows(layers: Sequence[Pending]) -> Rows:
    """The same as rows of matrices, as `separation.rows_of` gives them."""
    several = several_of(tuple(layer.way for layer in layers))
    found: Rows = {}
    for axis, s in joined(layers).items():
        numbers, sizes = several.of_axis[axis]
        if len(set(sizes)) == 1:
            found[axis] = numbers, [(list(range(len(numbers))), s.view(len(numbers), -1))]
        else:
            found[axis] = numbers, by_size(s.split(sizes))
    return found


class Several:
    """Layers that are measured together, in ways that fit: all that need not be found anew at every pass."""

    def __init__(self, ways: tuple[Way, ...]) -> None:
        import numpy as np

        from .sweep.many import many, many_back

        self.ways, self.dtype = ways, ways[0].dtype
        self.of_axis: dict[str, tuple[tuple[int, ...], list[int]]] = {}
        for axis in ("U", "P", "L"):
            numbers = tuple(number for number, way in enumerate(ways) if axis in way.by_name)
            if numbers:
                self.of_axis[axis] = numbers, [ways[number].by_name[axis] for number in numbers]
        self.axes = tuple(self.of_axis)
        self.counts = [sum(sizes) for _, sizes in self.of_axis.values()]
        begun = dict.fromkeys(self.axes, 0)
        layers = []
        for way in ways:
            units, points = way.groups
            first, last = way.names[0], way.names[-1]
            of_units = (self.axes.index(first), begun[first]) if units else (-1, 0)
            of_points = (self.axes.index(last), begun[last]) if points else (-1, 0)
            layers.append([*of_units, *of_points, *way.lies, *way.groups, way.by_rows, way.single])
            for name, size in way.by_name.items():
                begun[name] += size
        self.layers = np.array(layers, np.int64)
        self.numbers = np.stack([way.numbers for way in ways])
        self.forth, self.back, self.array = many, many_back, np.array


@lru_cache(maxsize=64)
def several_of(ways: tuple[Way, ...]) -> Several:
    """The same, made once for all passes alike."""
    return Several(ways)


class _Together(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, several: Several, *zs: Tensor) -> tuple[Tensor, ...]:
        ctx.set_materialize_grads(False)
        rows = [torch.empty(count, dtype=several.dtype) for count in several.counts]
        at = several.array([z.data_ptr() for z in zs])
        slacks_at = several.array([row.data_ptr() for row in rows])
        needed = several.array(ctx.needs_input_grad[1:])
        ctx.forms, ctx.ends, kept = several.forth(several.layers, several.numbers, at, slacks_at, needed)
        ctx.save_for_backward(torch.from_numpy(kept))
        ctx.several = several
        return tuple(rows)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        found = addresses(grads) if not torch.is_grad_enabled() and not is_transformed() else None
        if found is None:
            return None, *_in_torch(ctx, grads)
        several, (kept,) = ctx.several, ctx.saved_tensors
        outs = [
            torch.empty_strided(way.size, way.stride, dtype=way.dtype) if needed else None
            for way, needed in zip(several.ways, ctx.needs_input_grad[1:], strict=True)
        ]
        at = several.array([0 if out is None else out.data_ptr() for out in outs])
        grads_at = several.array(found[0])
        several.back(several.layers, several.numbers, at, grads_at, kept.data_ptr(), ctx.forms, ctx.ends)
        return None, *outs


def _in_torch(ctx: Any, grads: Sequence[Tensor | None]) -> list[Tensor | None]:
    """The gradients of the layers, by operations that torch knows."""
    several, (kept,) = ctx.several, ctx.saved_tensors
    starts = dict.fromkeys(several.axes, 0)
    by_axis = dict(zip(several.axes, grads, strict=True))
    results: list[Tensor | None] = []
    begin = 0
    for way, form, end in zip(several.ways, ctx.forms.tolist(), ctx.ends.tolist(), strict=True):
        parts: list[Tensor | None] = []
        for name, size in zip(way.names, way.sizes, strict=True):
            grad = by_axis[name]
            parts.append(None if grad is None else grad.narrow(0, starts[name], size))
            starts[name] += size
        given = [part for part in parts if part is not None]
        out = torch.zeros(way.size, dtype=way.dtype)
        if form and given:
            add_pull(way, out, way.derivative(form, kept[begin:end]), in_a_row(parts, way))
        results.append(out)
        begin = -(-end // 8) * 8
    return results
