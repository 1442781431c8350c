"""The ends of a layer's groups as one operator: their values, and where they lie, in shapes that no value decides.

    alive::ends(z, groups)       -> ends, places                 both [sides, groups]
    alive::relu_ends(z, groups)  -> relu(z), ends, places
    alive::ends_back(...)        -> the gradient of z, from those of relu(z) and of the ends

z is [N, C, *positions], and a place its flat index in that order. Of equal values the first is the end, whatever `ties`
says, for sharing would take a second reading of z. Nothing here waits for a device, and of a layer no more is kept than
one number a group and side. The operator is seen whole by torch.compile and by fake tensors; its kernels are the
compiled sweeps on a CPU, Triton where that is, and plain torch everywhere else. The rule, `separation.slack`, is
applied to the ends of all layers in a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.library import define, impl, register_autograd, register_fake

from ..torch_private import remember
from . import tiles
from .separation import Separation, Slacks, slack
from .way import SPAN, Way, asked_of, compiles

EXACT = getattr(torch.Tag, "needs_exact_strides", torch.Tag.needs_fixed_stride_order)


class Ends(NamedTuple):
    """The largest and the smallest value of each group, as the rule has it: [sides, groups], the axes in a row.

    `with_relu`: whether one operator gave them and relu(z).
    """

    values: Tensor
    way: Way
    with_relu: bool = False


class Groups(NamedTuple):
    """What is asked of a layer, as an operator takes it.

    axes      which of U, P, L, in a row
    pools     whether ends are over positions too
    signs     the sides: 1 for the largest, -1 for the smallest
    margins   for each side, as sign · value: an end that reaches it pulls at nothing, so its place need not be known
    """

    axes: str
    pools: bool
    signs: list[int]
    margins: list[float]

    def sizes(self, shape: Sequence[int]) -> list[int]:
        """How many groups each axis has in [N, C, P]."""
        N, C, P = shape
        own = 1 if self.pools else P
        return [{"U": C * own, "P": N * own, "L": 1}[axis] for axis in self.axes]


def flat(z: Tensor) -> Tensor:
    """z [N, C, *positions] as [N, C, P]."""
    return z.flatten(2) if z.ndim > 2 else z.unsqueeze(2)


def locate(z: Tensor, groups: Groups, *, relu: bool = False) -> tuple[Tensor | None, Tensor, Tensor]:
    """relu(z) if asked for, the ends [sides, groups], and their places."""
    for kernel in (tiles.locate, by_sweeps):
        found: tuple[Tensor | None, Tensor, Tensor] | None = kernel(z, groups, relu=relu)
        if found is not None:
            return found
    ends, places = plain(z, groups)
    return z.relu() if relu else None, ends, places


def by_sweeps(z: Tensor, groups: Groups, *, relu: bool) -> tuple[Tensor | None, Tensor, Tensor] | None:
    """The same by the compiled sweeps, where they can do it."""
    N, C, P = flat(z).shape
    if not compiles(z) or not 0 < z.numel() < SPAN or (P > 1 and not groups.pools and groups.axes != "L"):
        return None
    in_maps, in_rows = z.is_contiguous(), z.movedim(1, -1).is_contiguous()
    if not in_maps and (not in_rows or groups.axes == "L"):
        return None
    from .sweep.ends import maps_ends, rows_ends

    if groups.axes == "L":
        N, C, P = 1, z.numel(), 1
    sides, shared, own = len(groups.signs), C * ("U" in groups.axes), N * (groups.axes != "U")
    ends, places = z.new_empty(2, shared + own), torch.empty(2, shared + own, dtype=torch.long)
    y = torch.empty_like(z) if relu else None
    margins = dict(zip(groups.signs, groups.margins, strict=True))
    numbers = np.array([margins.get(1, -np.inf), margins.get(-1, -np.inf)], ends.numpy().dtype)
    sweep = rows_ends if P == 1 or not in_maps else maps_ends
    at = (t.data_ptr() if t is not None else 0 for t in (z, y, ends, places))
    sweep(*at, N, P, C, shared, own, numbers)
    first = 0 if 1 in groups.signs else 1
    return y, ends[first : first + sides], places[first : first + sides]


def plain(z: Tensor, groups: Groups) -> tuple[Tensor, Tensor]:
    """The ends and their places in plain torch: `torch.max` and `torch.min` give both at once."""
    z = flat(z)
    N, C, P = z.shape
    pools, sizes = groups.pools and P > 1, groups.sizes(z.shape)
    ends = z.new_empty(len(groups.signs), sum(sizes))
    found = ends.new_empty(ends.shape, dtype=torch.long)
    within = found.new_empty(len(groups.signs), N, C) if pools else found
    for side, sign in enumerate(groups.signs):
        pick = torch.max if sign > 0 else torch.min
        cells = z
        if pools:
            cells = z.new_empty(N, C)
            pick(z, 2, out=(cells, within[side]))
        begin = 0
        for axis, size in zip(groups.axes, sizes, strict=True):
            row = slice(begin, begin + size)
            whole = cells.reshape(-1) if axis == "L" else cells
            shape = whole.shape[1:] if axis != "P" else (N, *whole.shape[2:])
            pick(whole, 1 if axis == "P" else 0, out=(ends[side, row].view(shape), found[side, row].view(shape)))
            begin += size
    start, step = _lines(N, C, P, groups.axes, pools, z.device)
    places = torch.addcmul(start, found, step)
    return ends, torch.add(within.flatten(1).gather(1, places), places, alpha=P) if pools else places


@remember
def _lines(N: int, C: int, P: int, axes: str, pools: bool, device: torch.device) -> tuple[Tensor, Tensor]:
    """For each group where the values lie among which it was found, as start + step · the index that was found.

    As cells [N, C] where positions are pooled, else as places.
    """
    size = 1 if pools else P
    n, c, p = (torch.arange(count, device=device) for count in (N, C, size))
    starts = {"U": c * size, "P": n * C * size, "L": n.new_zeros(1)}
    steps = {"U": C * size, "P": size, "L": 1}
    rows = [starts[axis] if axis == "L" else (starts[axis].unsqueeze(1) + p).flatten() for axis in axes]
    return torch.cat(rows), torch.cat([torch.full_like(row, steps[axis]) for axis, row in zip(axes, rows, strict=True)])


def gradient(
    grad_y: Tensor | None, y: Tensor | None, grad_ends: Tensor | None, places: Tensor, like: Sequence[Sequence[int]]
) -> Tensor:
    """The gradient of z in plain torch, from those of relu(z) and of the ends; `like`: size and strides of z."""
    size, stride = like
    if y is not None and grad_y is not None:
        grad = torch.ops.aten.threshold_backward.default(grad_y, y, 0)
    else:
        known = next(t for t in (grad_ends, y) if t is not None)
        grad = torch.empty_strided(size, stride, dtype=known.dtype, device=known.device).zero_()
    return grad if grad_ends is None else add(grad, places, grad_ends.to(grad.dtype))


def add(grad: Tensor, places: Tensor, amounts: Tensor) -> Tensor:
    """The gradient [N, C, *positions], with amounts added at places; if it lies in rows or maps, in place."""
    seen, where, amounts = flat(grad), places.flatten(), amounts.flatten()
    _, C, P = seen.shape
    if grad.is_contiguous():
        seen.view(-1).scatter_add_(0, where, amounts)
        return grad
    cells = torch.div(where, P, rounding_mode="floor")
    at = torch.div(cells, C, rounding_mode="floor"), cells % C, where % P
    added = seen.index_put_(at, amounts, accumulate=True)
    return grad if added.data_ptr() == grad.data_ptr() else grad.copy_(added.view(grad.shape))


GROUPS = "str axes, bool pools, int[] signs, float[] margins"
define("alive::ends", f"(Tensor z, {GROUPS}) -> (Tensor, Tensor)", tags=EXACT)
define("alive::relu_ends", f"(Tensor z, {GROUPS}) -> (Tensor, Tensor, Tensor)", tags=EXACT)
define(
    "alive::ends_back",
    "(Tensor? grad_y, Tensor? y, Tensor? grad_ends, Tensor places, str axes, SymInt[] size, SymInt[] stride) -> Tensor",
    tags=EXACT,
)


def _ends(z: Tensor, *groups: Any) -> tuple[Tensor, Tensor]:
    _, ends, places = locate(z, Groups(*groups))
    return ends, places


def _relu_ends(z: Tensor, *groups: Any) -> tuple[Tensor | None, Tensor, Tensor]:
    return locate(z, Groups(*groups), relu=True)


def _ends_back(*given: Any) -> Tensor:
    grad_y, y, grad_ends, places, axes, *like = given
    found = tiles.gradient(grad_y, y, grad_ends, places, axes, like)
    return gradient(grad_y, y, grad_ends, places, like) if found is None else found


KERNELS: dict[str, Any] = {
    "ends": _ends,
    "relu_ends": _relu_ends,
    "ends_back": _ends_back,
}  # also for who counts what they do
for _name, _kernel in KERNELS.items():
    impl(f"alive::{_name}", "default")(_kernel)


def _fake_ends(z: Tensor, *groups: Any) -> tuple[Tensor, Tensor]:
    asked = Groups(*groups)
    ends = z.new_empty(len(asked.signs), sum(asked.sizes(flat(z).shape)))
    return ends, torch.empty_like(ends, dtype=torch.long)


def _fake_relu_ends(z: Tensor, *groups: Any) -> tuple[Tensor, Tensor, Tensor]:
    return torch.empty_like(z), *_fake_ends(z, *groups)


def _fake_back(*given: Any) -> Tensor:
    *grads, _, _, size, stride = given
    known = next(t for t in grads if t is not None)
    return torch.empty_strided(size, stride, dtype=known.dtype, device=known.device)


FAKES: dict[str, Any] = {"ends": _fake_ends, "relu_ends": _fake_relu_ends, "ends_back": _fake_back}
for _name, _fake in FAKES.items():
    register_fake(f"alive::{_name}", _fake)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    """What backward needs: the activation, if the ReLU was ours, and the places."""
    z, (*y, _, places) = inputs[0], output
    ctx.set_materialize_grads(False)
    ctx.mark_non_differentiable(places)
    ctx.save_for_backward(places, *y)
    ctx.like = inputs[1], z.shape, torch.empty_like(z, device="meta").stride()  # dense


def _back(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
    *grad_y, grad_ends, _ = grads
    places, *y = ctx.saved_tensors
    got = [*(grad_y or [None]), *(y or [None]), grad_ends]
    if got[0] is None and got[2] is None:
        return None, None, None, None, None
    return torch.ops.alive.ends_back(*got, places, *ctx.like), None, None, None, None


def _keep_back(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    _, y, grad_ends, places, *_ = inputs
    ctx.save_for_backward(places, *(() if y is None else (y,)))
    ctx.shape = None if grad_ends is None else grad_ends.shape


def _back_again(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    """The gradient of the gradient: what went through the ReLU, and what lay at the places."""
    (places, *y), unknown = ctx.saved_tensors, (None,) * 5
    through = torch.where(y[0] <= 0, 0, grad) if y and ctx.needs_input_grad[0] else None
    at = flat(grad).reshape(-1).gather(0, places.flatten()).view(ctx.shape) if ctx.needs_input_grad[2] else None
    return through, None, at, *unknown[:4]


for _name in ("alive::ends", "alive::relu_ends"):
    register_autograd(_name, _back, setup_context=_keep)
register_autograd("alive::ends_back", _back_again, setup_context=_keep_back)


def in_graph(z: Tensor, rule: Separation, cutoff: float, *, relu: bool) -> tuple[Tensor | None, Slacks]:
    """relu(z) if asked for, and the slacks of the canonical z, as a compiler sees them: by the operator."""
    names = rule.satisfiable_axes(z.shape)
    if not names:
        return z.relu() if relu else None, {}
    asked = asked_of(rule, names, z.ndim, cutoff)
    found = torch.ops.alive.relu_ends(z, *asked) if relu else (None, *torch.ops.alive.ends(z, *asked))
    values = found[1].to(torch.promote_types(z.dtype, torch.float32)) - cutoff
    s = slack(values[0], values[-1], rule)
    return found[0], dict(zip(names, s.split(rule.sizes(names, z.shape)), strict=True))


def slacks(layers: Sequence[Ends]) -> list[Slacks]:
    """The slacks of layers of one rule, dtype and device, all in a row."""
    dtype = torch.promote_types(layers[0].values.dtype, torch.float32)
    from_cutoff = [values.to(dtype) - way.cutoff if way.cutoff else values for values, way, _ in layers]
    ends = torch.cat(from_cutoff, 1).to(dtype)
    s = slack(ends[0], ends[-1], layers[0].way.rule)
    parts = iter(s.split([size for layer in layers for size in layer.way.sizes]))
    return [{axis: next(parts) for axis in layer.way.names} for layer in layers]
