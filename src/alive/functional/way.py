"""How a layer of one shape, layout and dtype is measured by one rule: all that need not be found anew at every pass."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor

from ..errors import AliveError, require
from ..torch_private import FakeTensor, is_transformed
from .derivative import Pull, Spread
from .extremes import Axes, canonical
from .separation import Separation
from .sweep.forms import LISTED, MARKED, TIED

KNOWN = 512  # ways kept, before all are forgotten
SMALL = 65_536  # values of a layer that is cheaper to keep for a while than to give a node of its own in the graph
SPAN = 2**29  # values a sweep can number
PRICE = "steps with the penalty take up to three times as long in thin networks, a third as long again in wide ones"


@cache
def compiler_fault() -> str:
    """Why numba cannot be taken, what that costs and how to get it; empty where it can."""
    try:
        with require("the fast penalty on a CPU", "alive[fast]"):
            import numba  # noqa: F401
    except AliveError as error:
        return f"{error} Without it {PRICE}"
    return ""


@cache
def has_compiler() -> bool:
    """Whether numba is here; where it is not, the penalty is measured by torch, and that is said once."""
    if compiler_fault():
        warnings.warn(compiler_fault(), stacklevel=2)
    return not compiler_fault()


def asked_of(rule: Separation, axes: Sequence[str], ndim: int, cutoff: float) -> tuple[Any, ...]:
    """What a rule asks of [N, C, *positions] by some of its axes, as `ends.Groups`."""
    margins = {1: rule.pos_margin + cutoff, -1: rule.neg_margin - cutoff}
    return "".join(axes), rule.pools(ndim), list(rule.signs), [margins[sign] for sign in rule.signs]


class Way:
    """A rule for a layer that lies in one way; with the compiled sweeps (`sweep`) where they apply."""

    def __init__(self, z: Tensor, rule: Separation, unit_axis: int, point_axis: int, cutoff: float) -> None:
        self.rule, self.axes, self.cutoff = rule, Axes(unit_axis, point_axis), cutoff
        seen = self.axes.canonical(z)
        self.size, self.dtype = z.shape, z.dtype
        self.shape = seen.shape  # [N, C, *positions]
        self.names = rule.satisfiable_axes(seen.shape)
        self.sizes = rule.sizes(self.names, seen.shape)
        self.by_name = dict(zip(self.names, self.sizes, strict=True))
        self.sweep: Any = None
        self.back: Any = None
        self.by_rows = False
        self.by_ends = not compiles(z)  # measured by `ends`, of which this is asked
        self.asked = asked_of(rule, self.names, seen.ndim, cutoff)
        if self.names and not self.by_ends and 0 < z.numel() < SPAN:
            self._choose(z, seen)

    def _choose(self, z: Tensor, seen: Tensor) -> None:
        """Take the sweeps that fit the layout, if some do."""
        N, C, P = (*seen.shape[:2], seen.shape[2:].numel())
        if z.is_neg() or not (P == 1 or self.names == ["L"] or self.rule.conv == "channel"):
            return
        from .sweep.back import maps_back, rows_back
        from .sweep.maps import maps
        from .sweep.rows import rows

        self.single = self.rule.ties == "single"
        if P > 1 and seen.is_contiguous():
            self.sweep, self.back = maps, maps_back
        elif seen.movedim(1, -1).is_contiguous() and (P == 1 or not self.single):
            # In rows of several positions, the first of equal ends in memory need not be the first of its point.
            self.sweep, self.back, self.by_rows = rows, rows_back, True
        if self.names == ["L"]:  # all of it is one point
            N, P, C = (1, N * P, C) if self.by_rows else (1, P, N * C)
        self.lies = N, P, C
        self.groups = C if "U" in self.names else 0, N if self.names[-1] != "U" else 0
        self.stride = z.stride()
        margins = self.rule.pos_margin + self.cutoff, self.rule.neg_margin - self.cutoff
        self.numbers = torch.tensor([*margins, *self.rule.shares], dtype=z.dtype).numpy()

    def measure(self, z: Tensor, y: Tensor | None, needs_grad: bool) -> tuple[list[Tensor], int, Any]:
        """The slacks by axis, and what is kept for backward, its form and bytes; relu(z) is written to y."""
        s = [torch.empty(size, dtype=self.dtype) for size in self.sizes]
        form, kept = self.sweep_to(z, y, s[0].data_ptr(), s[-1].data_ptr(), needs_grad)
        return s, form, kept

    def sweep_to(self, z: Tensor, y: Tensor | None, first: int, last: int, needs_grad: bool) -> tuple[int, Any]:
        """Write the slacks of the first and the last axis to addresses; gives the form and bytes of what is kept."""
        N, P, C = self.lies
        units, points = self.groups
        y_at = 0 if y is None else y.data_ptr()
        kept: tuple[int, Any] = self.sweep(
            z.data_ptr(),
            y_at,
            first if units else 0,
            last if points else 0,
            N,
            P,
            C,
            self.numbers,
            self.single,
            needs_grad,
        )
        return kept

    def gradient(
        self, grad_y: Tensor | None, y: Tensor | None, grad_s: Sequence[Tensor | None], form: int, kept: Tensor | None
    ) -> Tensor | None:
        """The gradient of z by a compiled sweep; None where the gradients are nothing that it can read."""
        if is_transformed() or not (grad_y is None or grad_y.stride() == self.stride):
            return None
        at = addresses((grad_y, *grad_s))
        if at is None:
            return None
        return self.back_from(at[0][0], y, at[0][1], at[0][-1], form, kept)

    def back_from(
        self, grad_y_at: int, y: Tensor | None, first: int, last: int, form: int, kept: Tensor | None
    ) -> Tensor:
        """The gradient of z, from that of relu(z) and of the first and the last axis at their addresses."""
        N, P, C = self.lies
        units, points = self.groups
        out = torch.empty_strided(self.size, self.stride, dtype=self.dtype)
        self.back(
            grad_y_at,
            0 if y is None else y.data_ptr(),
            first if units else 0,
            last if points else 0,
            out.data_ptr(),
            0 if kept is None else kept.data_ptr(),
            form,
            0 if kept is None else kept.numel() // self._entry(form),
            N,
            P,
            C,
            units,
            points,
            self.numbers,
        )
        return out

    def _entry(self, form: int) -> int:
        """Bytes of a place in a list."""
        return 4 if form == LISTED else 4 + self.dtype.itemsize

    def derivative(self, form: int, kept: Tensor) -> Pull | Spread:
        """What a sweep kept, as torch can add it: places by their order in memory, or a byte a value."""
        if form == MARKED:
            count = self.size.numel()
            N, C, *positions = self.shape
            bits = kept[:count] if self.groups[0] else kept[:count] >> 2
            slopes = kept[-(-count // 8) * 8 :].view(self.dtype).view(2, -1)
            return Spread(bits.view(N, *positions, C).movedim(-1, 1) if self.by_rows else bits.view(self.shape), slopes)
        found = kept.numel() // self._entry(form)
        codes = kept[-4 * found :].view(torch.int32).long()
        place, which = codes >> 2, codes & 3
        N, P, C = self.lies
        unit = place % C if self.by_rows else place // P % C
        group = torch.where(which < 2, unit, self.groups[0] + place // (P * C))
        if form == TIED:
            return Pull(place, group, kept[: -4 * found].view(self.dtype))
        plus, minus = self.rule.shares
        return Pull(place, group, torch.where(which % 2 == 0, -plus, minus).to(self.dtype))


def addresses(grads: Sequence[Tensor | None]) -> tuple[list[int], list[Tensor | None]] | None:
    """Where gradients lie (0: none), rows in one piece, and what must live as long; None if one lies nowhere."""
    held: list[Tensor | None] = []
    for grad in grads:
        if grad is not None and (type(grad) is not Tensor or grad.is_neg()):
            return None
        held.append(grad if grad is None or grad.ndim > 1 or grad.is_contiguous() else grad.contiguous())
    try:
        return [0 if grad is None else grad.data_ptr() for grad in held], held
    except RuntimeError:  # a batch of gradients
        return None


def compiles(z: Tensor) -> bool:
    """Whether compiled code can read it, and there is some."""
    is_plain = z.is_cpu and z.dtype in (torch.float32, torch.float64) and not isinstance(z, FakeTensor)
    return is_plain and has_compiler()


_ways: dict[tuple[Any, ...], Way] = {}


def way_of(z: Tensor, rule: Separation, unit_axis: int, point_axis: int, cutoff: float) -> Way:
    """The way to measure z, made once for all layers alike."""
    if z.is_nested or z.layout != torch.strided:
        canonical(z, unit_axis, point_axis)  # which refuses nested tensors
        return Way(z, rule, unit_axis, point_axis, cutoff)
    # A way holds its rule, so that no other rule can have its id.
    key = (id(rule), unit_axis, point_axis, cutoff, z.shape, z.stride(), z.dtype, compiles(z), z.is_neg())
    way = _ways.get(key)
    if way is None:
        if len(_ways) >= KNOWN:
            _ways.clear()
        way = _ways[key] = Way(z, rule, unit_axis, point_axis, cutoff)
    return way
