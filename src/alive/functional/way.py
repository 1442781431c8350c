"""How a layer of one shape, layout and dtype is measured by one rule: all that need not be found anew at every pass."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ..torch_private import is_transformed
from .derivative import Pull, Spread
from .extremes import Axes, canonical
from .separation import Separation

KNOWN = 512  # ways kept, before all are forgotten


class Way:
    """A rule for a layer that lies in one way; with the compiled sweeps (`sweep`) where they apply."""

    def __init__(self, z: Tensor, rule: Separation, unit_axis: int, point_axis: int, cutoff: float) -> None:
        self.rule, self.axes, self.cutoff = rule, Axes(unit_axis, point_axis), cutoff
        seen = self.axes.canonical(z)
        self.size, self.dtype = z.shape, z.dtype
        self.shape = seen.shape  # [N, C, *positions]
        self.names = rule.satisfiable_axes(seen.shape)
        self.sizes = rule.sizes(self.names, seen.shape)
        self.sweep: Any = None
        self.back: Any = None
        self.by_rows = False
        if self.names and 0 < z.numel() < 2**31 and z.is_cpu and z.dtype in (torch.float32, torch.float64):
            self._choose(z, seen)

    def _choose(self, z: Tensor, seen: Tensor) -> None:
        """Take the sweeps that fit the layout, if some do."""
        N, C, P = (*seen.shape[:2], seen.shape[2:].numel())
        if z.is_neg() or not (P == 1 or self.names == ["L"] or self.rule.conv == "channel"):
            return
        from . import sweep

        self.single = self.rule.ties == "single"
        if P > 1 and seen.is_contiguous():
            self.sweep, self.back = sweep.maps, sweep.maps_back
        elif seen.movedim(1, -1).is_contiguous() and (P == 1 or not self.single):
            # In rows of several positions, the first of equal ends in memory need not be the first of its point.
            self.sweep, self.back, self.by_rows = sweep.rows, sweep.rows_back, True
        if self.names == ["L"]:  # all of it is one point
            N, P, C = (1, N * P, C) if self.by_rows else (1, P, N * C)
        self.lies = N, P, C
        self.groups = C if "U" in self.names else 0, N if self.names[-1] != "U" else 0
        self.stride = z.stride()
        self.entry = 8 + z.element_size()  # bytes of a place in a list
        margins = self.rule.pos_margin + self.cutoff, self.rule.neg_margin - self.cutoff
        self.numbers = torch.tensor([*margins, *self.rule.shares], dtype=z.dtype).numpy()

    def measure(self, z: Tensor, y: Tensor | None, needs_grad: bool) -> tuple[list[Tensor], int, Any]:
        """The slacks by axis, and what is kept for backward, its form and bytes; relu(z) is written to y."""
        s = [torch.empty(size, dtype=self.dtype) for size in self.sizes]
        units, points = self.groups
        form, kept = self.sweep(
            z.data_ptr(),
            0 if y is None else y.data_ptr(),
            s[0].data_ptr() if units else 0,
            s[-1].data_ptr() if points else 0,
            *self.lies,
            self.numbers,
            self.single,
            needs_grad,
        )
        return s, form, kept

    def gradient(
        self, grad_y: Tensor | None, y: Tensor | None, grad_s: Sequence[Tensor | None], form: int, kept: Tensor | None
    ) -> Tensor | None:
        """The gradient of z by a compiled sweep; None where the gradients are nothing that it can read."""
        if is_transformed() or not (grad_y is None or (type(grad_y) is Tensor and grad_y.stride() == self.stride)):
            return None
        if grad_y is not None and grad_y.is_neg():
            return None
        rows = [None if g is None else g.contiguous() for g in grad_s]  # they must live until the sweep is done
        if any(g is not None and (type(g) is not Tensor or g.is_neg()) for g in rows):
            return None
        at = [0 if g is None else g.data_ptr() for g in rows]
        units, points = self.groups
        out = torch.empty_strided(self.size, self.stride, dtype=self.dtype)
        self.back(
            0 if grad_y is None else grad_y.data_ptr(),
            0 if y is None else y.data_ptr(),
            at[0] if units else 0,
            at[-1] if points else 0,
            out.data_ptr(),
            0 if kept is None else kept.data_ptr(),
            form,
            0 if kept is None else kept.numel() // self.entry,
            *self.lies,
            units,
            points,
            self.numbers,
        )
        return out

    def derivative(self, form: int, kept: Tensor) -> Pull | Spread:
        """What a sweep kept, as torch can add it: places by their order in memory, or a byte a value."""
        from . import sweep

        if form == sweep.MARKED:
            count = self.size.numel()
            N, C, *positions = self.shape
            bits, slopes = kept[:count], kept[-(-count // 8) * 8 :].view(self.dtype).view(2, -1)
            return Spread(bits.view(N, *positions, C).movedim(-1, 1) if self.by_rows else bits.view(self.shape), slopes)
        found, size = kept.numel() // self.entry, self.dtype.itemsize
        slope, places = kept[: found * size].view(self.dtype), kept[found * size :].view(torch.int32)
        return Pull(places[:found].long(), places[found:].long(), slope)

    def in_memory(self, grad: Tensor) -> Tensor:
        """A view of a gradient of z, in the order in which places are numbered."""
        seen = self.axes.canonical(grad)
        return seen.movedim(1, -1) if self.by_rows else seen


_ways: dict[tuple[Any, ...], Way] = {}


def way_of(z: Tensor, rule: Separation, unit_axis: int, point_axis: int, cutoff: float) -> Way:
    """The way to measure z, made once for all layers alike."""
    if z.is_nested or z.layout != torch.strided:
        canonical(z, unit_axis, point_axis)  # which refuses nested tensors
        return Way(z, rule, unit_axis, point_axis, cutoff)
    # A way holds its rule, so that no other rule can have its id.
    key = (id(rule), unit_axis, point_axis, cutoff, z.shape, z.stride(), z.dtype, z.is_cpu, z.is_neg())
    way = _ways.get(key)
    if way is None:
        if len(_ways) >= KNOWN:
            _ways.clear()
        way = _ways[key] = Way(z, rule, unit_axis, point_axis, cutoff)
    return way
