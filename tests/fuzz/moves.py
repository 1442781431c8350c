"""Movements: entries change place, and take their owners with them; each is written twice, in torch and in numpy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

import numpy as np
import torch
import torch.nn.functional as F
from owners import NONE, Labels, padded, parted, told_apart
from steps import LARGEST, Before, Draw, Known, Maker, Owners, Run, Step
from torch import Tensor


def move(text: str, run: Callable[[Tensor], Tensor], same: Callable[[Labels], Labels]) -> Step:
    """A movement of one tensor."""
    return Step(text, lambda me, h, _: run(h), lambda me, h, _: (same(h.point), same(h.unit)))


def copying(text: str, run: Callable[[Tensor], Tensor], same: Callable[[Labels], Labels], axis: int) -> Step:
    """A movement that may put copies side by side along an axis."""
    return Step(text, lambda me, h, _: run(h), lambda me, h, _: (same(h.point), told_apart(same(h.unit), h.unit, axis)))


def beside(text: str, run: Run, parts: Callable[[Known, Before], Sequence[Known]], axis: int) -> Step:
    """Tensors put side by side along an axis."""

    def who(me: Step, h: Known, before: Before) -> Owners:
        points, units = ([getattr(part, what) for part in parts(h, before)] for what in ("point", "unit"))
        return np.concatenate(points, axis), parted(units, points, axis)

    return Step(text, run, who)


def move_by_data(text: str, run: Callable[[Tensor], Tensor], same: Callable[[Tensor, Labels], Labels]) -> Step:
    """A movement that depends on the values."""
    return Step(text, lambda me, h, _: run(h), lambda me, h, _: (same(h.value, h.point), same(h.value, h.unit)))


# Axes


def transpose(draw: Draw, h: Known, before: Before) -> Step | None:
    if h.ndim < 2:
        return None
    a, b = draw.chance.sample(range(h.ndim), 2)
    return move(f"transpose({a}, {b})", lambda t: t.transpose(a, b), lambda i: np.swapaxes(i, a, b))


def permute(draw: Draw, h: Known, before: Before) -> Step | None:
    if h.ndim < 3:
        return None
    order = draw.chance.sample(range(h.ndim), h.ndim)
    return move(f"permute{tuple(order)}", lambda t: t.permute(order), lambda i: np.transpose(i, order))


def movedim(draw: Draw, h: Known, before: Before) -> Step | None:
    if h.ndim < 2:
        return None
    a, b = draw.axis(h.ndim), draw.axis(h.ndim)
    return move(f"movedim({a}, {b})", lambda t: t.movedim(a, b), lambda i: np.moveaxis(i, a, b))


def turned(draw: Draw, h: Known, before: Before) -> Step | None:
    if h.ndim != 2:
        return None
    return move("t().contiguous()", lambda t: t.t().contiguous(), lambda i: i.T.copy())


def reshape(draw: Draw, h: Known, before: Before) -> Step | None:
    """Any shape with as many entries, made by merging and splitting."""
    left, shape = prod(h.shape), []
    while left > 1 and len(shape) < 3:
        shape.append(draw.one_of([k for k in range(1, left + 1) if left % k == 0]))
        left //= shape[-1]
    shape.append(left)
    draw.chance.shuffle(shape)
    return move(f"reshape{tuple(shape)}", lambda t: t.reshape(shape), lambda i: i.reshape(shape))


def flatten(draw: Draw, h: Known, before: Before) -> Step | None:
    if h.ndim < 2:
        return None
    a, b = sorted(draw.chance.sample(range(h.ndim), 2))
    shape = (*h.shape[:a], prod(h.shape[a : b + 1]), *h.shape[b + 1 :])
    return move(f"flatten({a}, {b})", lambda t: t.flatten(a, b), lambda i: i.reshape(shape))


def unflatten(draw: Draw, h: Known, before: Before) -> Step | None:
    axis = draw.axis(h.ndim)
    size = h.shape[axis]
    parts = [k for k in (1, 2, 3) if size % k == 0]
    if h.ndim > 3:
        return None
    k = draw.one_of(parts)
    pair = (k, size // k) if draw.maybe() else (size // k, k)
    shape = (*h.shape[:axis], *pair, *h.shape[axis + 1 :])
    return move(f"unflatten({axis}, {pair})", lambda t: t.unflatten(axis, pair), lambda i: i.reshape(shape))


def squeeze(draw: Draw, h: Known, before: Before) -> Step | None:
    ones = [k for k, size in enumerate(h.shape) if size == 1]
    if not ones or h.ndim < 2:
        return None
    axis = draw.one_of(ones)
    return move(f"squeeze({axis})", lambda t: t.squeeze(axis), lambda i: np.squeeze(i, axis))


def unsqueeze(draw: Draw, h: Known, before: Before) -> Step | None:
    if h.ndim > 3:
        return None
    axis = draw.axis(h.ndim + 1)
    return move(f"unsqueeze({axis})", lambda t: t.unsqueeze(axis), lambda i: np.expand_dims(i, axis))


def expand(draw: Draw, h: Known, before: Before) -> Step | None:
    if h.ndim > 3:
        return None
    axis, size = draw.axis(h.ndim + 1), draw.size()
    shape = (*h.shape[:axis], size, *h.shape[axis:])
    if prod(shape) > LARGEST:
        return None
    return move(
        f"unsqueeze({axis}).expand{shape}",
        lambda t: t.unsqueeze(axis).expand(shape),
        lambda i: np.broadcast_to(np.expand_dims(i, axis), shape),
    )


# Parts


def chunk(draw: Draw, h: Known, before: Before) -> Step:
    """One of the pieces."""
    axis, pieces = draw.axis(h.ndim), draw.one_of([2, 2, 3])
    size = -(-h.shape[axis] // pieces)
    k = draw.chance.randrange(-(-h.shape[axis] // size))
    part = (slice(None),) * axis + (slice(k * size, (k + 1) * size),)
    return move(f"chunk({pieces}, {axis})[{k}]", lambda t: t.chunk(pieces, axis)[k], lambda i: i[part])


def split(draw: Draw, h: Known, before: Before) -> Step:
    """All pieces, in another order."""
    axis, size = draw.axis(h.ndim), draw.one_of([1, 2])
    count = -(-h.shape[axis] // size)
    order = draw.chance.sample(range(count), count)

    def same(i: Labels) -> Labels:
        pieces = np.split(i, range(size, i.shape[axis], size), axis)
        return np.concatenate([pieces[k] for k in order], axis)

    text = f"cat(split({size}, {axis}) in order {order}, {axis})"
    return move(text, lambda t: torch.cat([t.split(size, axis)[k] for k in order], axis), same)


def unbind(draw: Draw, h: Known, before: Before) -> Step:
    """Slices, put together along another axis."""
    a, b = draw.axis(h.ndim), draw.axis(h.ndim)
    if h.ndim == 1 or draw.maybe():
        return move(
            f"stack(unbind({a}), {b})",
            lambda t: torch.stack(t.unbind(a), b),
            lambda i: np.stack(list(np.moveaxis(i, a, 0)), b),
        )

    def parts(h: Known, before: Before) -> list[Known]:
        slices = zip(*(np.moveaxis(labels, a, 0) for labels in (h.point, h.unit)), strict=True)
        return [Known(value, *labels) for value, labels in zip(h.value.unbind(a), slices, strict=True)]

    b = draw.axis(h.ndim - 1)
    return beside(f"cat(unbind({a}), {b})", lambda me, h, _: torch.cat(h.unbind(a), b), parts, b)


def narrow(draw: Draw, h: Known, before: Before) -> Step:
    axis = draw.axis(h.ndim)
    start = draw.chance.randrange(h.shape[axis])
    length = draw.chance.randint(1, h.shape[axis] - start)
    part = (slice(None),) * axis + (slice(start, start + length),)
    return move(f"narrow({axis}, {start}, {length})", lambda t: t.narrow(axis, start, length), lambda i: i[part])


def slices(draw: Draw, h: Known, before: Before) -> Step:
    axis, start, step = draw.axis(h.ndim), draw.one_of([0, 0, 1]), draw.one_of([1, 2])
    if h.shape[axis] <= start:
        start = 0
    part = (slice(None),) * axis + (slice(start, None, step),)
    return move(f"h[{':, ' * axis}{start}::{step}]", lambda t: t[part], lambda i: i[part])


def select(draw: Draw, h: Known, before: Before) -> Step | None:
    if h.ndim < 2:
        return None
    axis = draw.axis(h.ndim)
    k = draw.chance.randrange(h.shape[axis])
    return move(f"select({axis}, {k})", lambda t: t.select(axis, k), lambda i: np.take(i, k, axis))


def diagonal(draw: Draw, h: Known, before: Before) -> Step | None:
    if h.ndim < 2:
        return None
    a, b = draw.chance.sample(range(h.ndim), 2)
    return move(f"diagonal(0, {a}, {b})", lambda t: t.diagonal(0, a, b), lambda i: np.diagonal(i, 0, a, b))


# Orders


def flip(draw: Draw, h: Known, before: Before) -> Step:
    axis = draw.axis(h.ndim)
    return move(f"flip({axis})", lambda t: t.flip(axis), lambda i: np.flip(i, axis))


def roll(draw: Draw, h: Known, before: Before) -> Step:
    axis, by = draw.axis(h.ndim), draw.one_of([1, 2, -1])
    return move(f"roll({by}, {axis})", lambda t: t.roll(by, axis), lambda i: np.roll(i, by, axis))


def pick(draw: Draw, h: Known, before: Before) -> Step:
    """Fixed indices along one axis, some twice, some never."""
    axis = draw.axis(h.ndim)
    at = [draw.chance.randrange(h.shape[axis]) for _ in range(draw.size())]
    index = torch.tensor(at)
    fancy = (slice(None),) * axis + (at,)
    how, run = draw.one_of(
        [
            (f"index_select({axis}, {at})", lambda t: t.index_select(axis, index)),
            (f"h[{':, ' * axis}{at}]", lambda t: t[fancy]),
        ]
    )
    return copying(how, run, lambda i: np.take(i, at, axis), axis)


def gather(draw: Draw, h: Known, before: Before) -> Step:
    """Fixed indices, different for every row."""
    axis = draw.axis(h.ndim)
    shape = list(h.shape)
    shape[axis] = draw.size()
    index = torch.randint(h.shape[axis], shape, generator=draw.torch)
    where = index.numpy()
    return move(
        f"gather({axis}, index{tuple(shape)})",
        lambda t: t.gather(axis, index),
        lambda i: np.take_along_axis(i, where, axis),
    )


def two_lists(draw: Draw, h: Known, before: Before) -> Step | None:
    """h[rows, columns], with lists."""
    if h.ndim < 2:
        return None
    count = draw.size()
    rows, columns = ([draw.chance.randrange(h.shape[k]) for _ in range(count)] for k in (0, 1))
    return move(f"h[{rows}, {columns}]", lambda t: t[rows, columns], lambda i: i[rows, columns])


def fixed_mask(draw: Draw, h: Known, before: Before) -> Step:
    axis = draw.axis(h.ndim)
    keep = [draw.maybe(0.7) for _ in range(h.shape[axis])]
    keep[0] |= not any(keep)
    mask = torch.tensor(keep)
    part, same = (slice(None),) * axis + (mask,), (slice(None),) * axis + (np.array(keep),)
    return move(f"h[{':, ' * axis}{keep}]", lambda t: t[part], lambda i: i[same])


# Orders that the data decide


def sort(draw: Draw, h: Known, before: Before) -> Step:
    axis = draw.axis(h.ndim)
    runs = {
        f"sort({axis}).values": lambda t: t.sort(dim=axis, stable=True).values,
        f"gather({axis}, argsort({axis}))": lambda t: t.gather(axis, t.argsort(dim=axis, stable=True)),
    }
    text = draw.one_of(list(runs))
    return move_by_data(
        text, runs[text], lambda z, i: np.take_along_axis(i, z.argsort(dim=axis, stable=True).numpy(), axis)
    )


def topk(draw: Draw, h: Known, before: Before) -> Step:
    """The k largest along an axis, or zeros in all other places."""
    axis = draw.axis(h.ndim)
    k = draw.chance.randint(1, h.shape[axis])
    return move_by_data(
        f"topk({k}, {axis}).values",
        lambda t: t.topk(k, axis).values,
        lambda z, i: np.take_along_axis(i, z.topk(k, axis).indices.numpy(), axis),
    )


def ranked_rows(draw: Draw, h: Known, before: Before) -> Step:
    """Rows in the order of their sums."""
    axis = draw.axis(h.ndim)
    others = [k for k in range(h.ndim) if k != axis]

    def order(t: Tensor) -> Tensor:
        return (t.sum(others) if others else t).argsort(stable=True)

    return move_by_data(
        f"index_select({axis}, argsort of sums)",
        lambda t: t.index_select(axis, order(t)),
        lambda z, i: np.take(i, order(z).numpy(), axis),
    )


def rows_that(draw: Draw, h: Known, before: Before) -> Step:
    """Rows whose sum is positive; all, where none is."""

    def chosen(t: Tensor) -> Tensor:
        mask = t.flatten(1).sum(1) > 0 if t.ndim > 1 else t > 0
        return mask if bool(mask.any()) else torch.ones_like(mask)

    run = (lambda t: t[chosen(t)]) if draw.maybe() else (lambda t: t.index_select(0, chosen(t).nonzero()[:, 0]))
    return move_by_data("h[h.sum(rows) > 0]", run, lambda z, i: i[chosen(z).numpy()])


def masked_select(draw: Draw, h: Known, before: Before) -> Step:
    """All entries above the median, as a vector."""

    def mask(t: Tensor) -> Tensor:
        return t >= t.median()

    return move_by_data(
        "masked_select(h >= h.median())", lambda t: t.masked_select(mask(t)), lambda z, i: i[mask(z).numpy()]
    )


# Copies


def repeat(draw: Draw, h: Known, before: Before) -> Step | None:
    axis, times = draw.axis(h.ndim), [1] * h.ndim
    times[axis] = 2
    if prod(h.shape) * 2 > LARGEST:
        return None
    how = draw.one_of(["repeat", "tile"])
    return copying(f"{how}{tuple(times)}", lambda t: getattr(t, how)(times), lambda i: np.tile(i, times), axis)


def repeat_interleave(draw: Draw, h: Known, before: Before) -> Step | None:
    axis = draw.axis(h.ndim)
    if prod(h.shape) * 2 > LARGEST:
        return None
    text = f"repeat_interleave(2, {axis})"
    return copying(text, lambda t: t.repeat_interleave(2, axis), lambda i: np.repeat(i, 2, axis), axis)


def upsample(draw: Draw, h: Known, before: Before) -> Step | None:
    if h.ndim not in (3, 4) or prod(h.shape) * 4 > LARGEST:
        return None
    axes = range(2, h.ndim)

    def same(i: Labels) -> Labels:
        for axis in axes:
            i = np.repeat(i, 2, axis)
        return i

    return move("interpolate(scale_factor=2)", lambda t: F.interpolate(t, scale_factor=2), same)


def pad(draw: Draw, h: Known, before: Before) -> Step:
    """Zeros around the last axis, or copies."""
    mode = draw.one_of(["constant", "constant", "replicate", "circular"]) if h.ndim in (3,) else "constant"
    left, right = draw.one_of([(1, 0), (0, 1), (1, 1)])
    widths = [(0, 0)] * (h.ndim - 1) + [(left, right)]
    numpy_mode = {"constant": "constant", "replicate": "edge", "circular": "wrap"}[mode]
    options = {"constant_values": NONE} if mode == "constant" else {}
    return move(
        f"pad(({left}, {right}), {mode!r})",
        lambda t: F.pad(t, (left, right), mode),
        lambda i: padded(np.pad(i, widths, numpy_mode, **options)),
    )


def pixel_shuffle(draw: Draw, h: Known, before: Before) -> Step | None:
    if h.ndim != 4 or h.shape[1] % 4:
        return None

    def same(i: Labels) -> Labels:
        n, c, height, width = i.shape
        parts = i.reshape(n, c // 4, 2, 2, height, width)
        return np.transpose(parts, (0, 1, 4, 2, 5, 3)).reshape(n, c // 4, 2 * height, 2 * width)

    return move("pixel_shuffle(2)", lambda t: F.pixel_shuffle(t, 2), same)


def unfold(draw: Draw, h: Known, before: Before) -> Step | None:
    """Windows along an axis, which overlap."""
    axis = draw.axis(h.ndim)
    if h.ndim > 3:
        return None
    size, step = draw.chance.randint(1, min(3, h.shape[axis])), draw.one_of([1, 2])
    part = (slice(None),) * axis + (slice(None, None, step),)
    return move(
        f"unfold({axis}, {size}, {step})",
        lambda t: t.unfold(axis, size, step),
        lambda i: np.lib.stride_tricks.sliding_window_view(i, size, axis)[part],
    )


# Several tensors


def _fitting(h: Known, before: Before, axis: int) -> list[int]:
    """Tensors like h in all axes but one."""
    rest = [*h.shape[:axis], *h.shape[axis + 1 :]]
    return [
        k
        for k, other in enumerate(before)
        if other.ndim == h.ndim and [*other.shape[:axis], *other.shape[axis + 1 :]] == rest
    ]


def cat(draw: Draw, h: Known, before: Before) -> Step | None:
    """With an earlier tensor, along any axis that lets them."""
    options = [(axis, k) for axis in range(h.ndim) for k in _fitting(h, before, axis)]
    if not options:
        return None
    axis, k = draw.one_of(options)
    if prod(h.shape) + prod(before[k].shape) > LARGEST:
        return None
    return beside(
        f"cat([h, h{k}], {axis})",
        lambda me, h, before: torch.cat([h, before[k]], axis),
        lambda h, before: [h, before[k]],
        axis,
    )


def stack(draw: Draw, h: Known, before: Before) -> Step | None:
    others = [k for k, other in enumerate(before) if other.shape == h.shape]
    if not others or h.ndim > 3 or 2 * prod(h.shape) > LARGEST:
        return None
    k, axis = draw.one_of(others), draw.axis(h.ndim + 1)
    return beside(
        f"stack([h, h{k}], {axis})",
        lambda me, h, before: torch.stack([h, before[k]], axis),
        lambda h, before: [_with_axis(h, axis), _with_axis(before[k], axis)],
        axis,
    )


def _with_axis(h: Known, axis: int) -> Known:
    return Known(h.value.unsqueeze(axis), np.expand_dims(h.point, axis), np.expand_dims(h.unit, axis))


def token(draw: Draw, h: Known, before: Before) -> Step | None:
    """A parameter beside the positions of every point, as a class token."""
    if h.ndim != 3 or h.shape[0] == h.shape[1] == 1:
        return None
    shape = (h.shape[0], 1, h.shape[2])

    def who(me: Step, h: Known, before: Before) -> Owners:
        nobody = np.full(shape, NONE)
        return np.concatenate([nobody, h.point], 1), np.concatenate([nobody, h.unit], 1)

    return Step(
        f"cat([token.expand{shape}, h], 1)",
        lambda me, h, _: torch.cat([me.token.expand(shape), h], 1),
        who,
        token=draw.weight(1, 1, h.shape[2]),
    )


def write(draw: Draw, h: Known, before: Before) -> Step | None:
    """A slice written in place: zeros, which leave it whose it was, or an earlier tensor's."""
    axis = draw.axis(h.ndim)
    at = draw.chance.randrange(h.shape[axis])
    part = (*(slice(None),) * axis, slice(at, at + 1))
    others = [k for k, other in enumerate(before) if other.shape == h.shape]
    where = f"h[{':, ' * axis}{at}]"
    if others and draw.maybe(0.8):
        k = draw.one_of(others)

        def who(me: Step, h: Known, before: Before) -> Owners:
            return _written(h.point, part, before[k].point[part]), _written(h.unit, part, before[k].unit[part])

        return Step(f"{where} = h{k}[same]", lambda me, h, before: _write(h.clone(), part, before[k][part]), who)
    return move(f"{where} = 0", lambda t: _write(t.clone(), part, 0.0), lambda i: i)


def _write(t: Tensor, part: Sequence[slice], value: Tensor | float) -> Tensor:
    t[part] = value
    return t


def _written(labels: Labels, part: Sequence[slice], value: Labels) -> Labels:
    labels = labels.copy()
    labels[part] = value
    return labels


def same_again(draw: Draw, h: Known, before: Before) -> Step:
    """Copies and casts, which move nothing."""
    runs = {
        "clone()": lambda t: t.clone(),
        "contiguous()": lambda t: t.contiguous(),
        "double().float()": lambda t: t.double().float(),
        "view_as(h)": lambda t: t.view_as(t),
        "dropout(p=0)": lambda t: F.dropout(t, 0.0),
        "masked_fill(h > 1e9, 1)": lambda t: t.masked_fill(t > 1e9, 1.0),
    }
    text = draw.one_of(list(runs))
    return move(text, runs[text], lambda i: i)


MOVES: dict[str, tuple[Maker, int]] = {
    "transpose": (transpose, 5),
    "permute": (permute, 4),
    "movedim": (movedim, 2),
    "t": (turned, 1),
    "reshape": (reshape, 4),
    "flatten": (flatten, 4),
    "unflatten": (unflatten, 3),
    "squeeze": (squeeze, 6),
    "unsqueeze": (unsqueeze, 3),
    "expand": (expand, 2),
    "chunk": (chunk, 3),
    "split": (split, 2),
    "unbind": (unbind, 2),
    "narrow": (narrow, 2),
    "slice with step": (slices, 2),
    "select": (select, 2),
    "diagonal": (diagonal, 1),
    "flip": (flip, 2),
    "roll": (roll, 2),
    "index_select": (pick, 3),
    "gather": (gather, 2),
    "two lists": (two_lists, 1),
    "fixed mask": (fixed_mask, 1),
    "sort": (sort, 1),
    "top-k": (topk, 2),
    "rows by rank": (ranked_rows, 1),
    "rows by mask": (rows_that, 1),
    "masked_select": (masked_select, 1),
    "repeat": (repeat, 2),
    "repeat_interleave": (repeat_interleave, 2),
    "interpolate": (upsample, 1),
    "pad": (pad, 2),
    "pixel_shuffle": (pixel_shuffle, 3),
    "unfold": (unfold, 2),
    "cat": (cat, 7),
    "stack": (stack, 3),
    "token": (token, 2),
    "write in place": (write, 3),
    "copy": (same_again, 1),
}
