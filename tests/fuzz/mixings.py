"""Mixings: sums, statistics, attention; skips, which add or multiply with an earlier tensor."""

from __future__ import annotations

from math import prod

import numpy as np
import torch
import torch.nn.functional as F
from owners import Labels, both, one, units_of_both
from steps import LARGEST, Before, Draw, Known, Maker, Owners, Step, Who, keep
from torch import Tensor, nn
from weighted import rows_of_sequence, spread


def reduce(draw: Draw, h: Known, before: Before) -> Step | None:
    axis, stays = draw.axis(h.ndim), draw.maybe()
    if h.ndim < 2 and not stays:
        return None
    runs = {
        "sum": lambda t: t.sum(axis, keepdim=stays),
        "mean": lambda t: t.mean(axis, keepdim=stays),
        "amax": lambda t: t.amax(axis, keepdim=stays),
        "max": lambda t: t.max(axis, keepdim=stays).values,
        "logsumexp": lambda t: t.logsumexp(axis, keepdim=stays),
        "norm": lambda t: (t.square().sum(axis, keepdim=stays) + 0.1).sqrt(),
    }
    how = draw.one_of(list(runs))
    return Step(
        f"{how}({axis}, keepdim={stays})",
        lambda me, h, _: runs[how](h),
        lambda me, h, _: (one(h.point, axis, stays), one(h.unit, axis, stays)),
    )


def pool(draw: Draw, h: Known, before: Before) -> Step | None:
    """Positions pooled by two, or all."""
    spatial = h.ndim - 2
    if spatial not in (1, 2):
        return None
    if draw.maybe():
        mean = (F.adaptive_avg_pool1d, F.adaptive_avg_pool2d)[spatial - 1]
        axes = tuple(range(2, h.ndim))
        return Step(
            f"adaptive_avg_pool{spatial}d(1)",
            lambda me, h, _: mean(h, 1),
            lambda me, h, _: (one(h.point, axes, True), one(h.unit, axes, True)),
        )
    if min(h.shape[2:]) < 2:
        return None
    how = draw.one_of([(F.max_pool1d, F.max_pool2d), (F.avg_pool1d, F.avg_pool2d)])[spatial - 1]
    return Step(f"{how.__name__}(2)", lambda me, h, _: how(h, 2), lambda me, h, _: (_pooled(h.point), _pooled(h.unit)))


def _pooled(labels: Labels) -> Labels:
    for axis in range(2, labels.ndim):
        size = labels.shape[axis] // 2
        even = np.take(labels, range(2 * size), axis)
        labels = one(even.reshape(*even.shape[:axis], size, 2, *even.shape[axis + 1 :]), axis + 1)
    return labels


def softmax(draw: Draw, h: Known, before: Before) -> Step:
    axis = draw.axis(h.ndim)
    return Step(f"softmax({axis}) - 0.3", lambda me, h, _: h.softmax(axis) - 0.3, keep)


def cumsum(draw: Draw, h: Known, before: Before) -> Step:
    axis = draw.axis(h.ndim)

    def so_far(labels: Labels) -> Labels:
        first = np.moveaxis(labels, axis, 0)
        return np.moveaxis(np.stack([one(first[: k + 1], 0) for k in range(len(first))]), 0, axis)

    return Step(f"cumsum({axis})", lambda me, h, _: h.cumsum(axis), lambda me, h, _: (so_far(h.point), so_far(h.unit)))


def centred(draw: Draw, h: Known, before: Before) -> Step:
    """The mean over an axis taken away."""
    axis = draw.axis(h.ndim)
    return Step(f"h - h.mean({axis})", lambda me, h, _: h - h.mean(axis, keepdim=True), _with_statistic(axis))


def scaled_by_statistic(draw: Draw, h: Known, before: Before) -> Step:
    axis = draw.axis(h.ndim)
    return Step(
        f"h * sigmoid(h.mean({axis}))", lambda me, h, _: h * h.mean(axis, keepdim=True).sigmoid(), _with_statistic(axis)
    )


def _with_statistic(axis: int) -> Who:
    def who(me: Step, h: Known, before: Before) -> Owners:
        mean = one(h.point, axis, True), one(h.unit, axis, True)
        return both(h.point, mean[0]), units_of_both(h.unit, mean[1])

    return who


def product_of(a: Known, b: Known) -> Owners:
    """Owners of a @ b: each entry is of its row's owner in a and of its column's in b."""
    points = one(a.point, -1)[..., :, None], one(b.point, -2)[..., None, :]
    units = one(a.unit, -1)[..., :, None], one(b.unit, -2)[..., None, :]
    return both(*points), units_of_both(*units)


def gram(draw: Draw, h: Known, before: Before) -> Step | None:
    """h times its own transpose."""
    if h.ndim < 2 or prod(h.shape) * h.shape[-2] > LARGEST * 10:
        return None

    def who(me: Step, h: Known, before: Before) -> Owners:
        return product_of(h, turned(h))

    return Step("h @ h.mT", lambda me, h, _: h @ h.mT, who)


def turned(h: Known) -> Known:
    return Known(h.value.mT, np.swapaxes(h.point, -1, -2), np.swapaxes(h.unit, -1, -2))


def matmul(draw: Draw, h: Known, before: Before) -> Step | None:
    """With an earlier tensor."""
    if h.ndim < 2:
        return None
    others = [
        k
        for k, other in enumerate(before)
        if other.ndim == h.ndim and other.shape[:-2] == h.shape[:-2] and other.shape[-2] == h.shape[-1]
    ]
    if not others:
        return None
    k = draw.one_of(others)
    return Step(f"h @ h{k}", lambda me, h, before: h @ before[k], lambda me, h, before: product_of(h, before[k]))


def attention(draw: Draw, h: Known, before: Before) -> Step | None:
    """softmax(q kᵀ) v, of h itself or of its linear maps."""
    if h.ndim not in (2, 3, 4):
        return None
    size = draw.size()
    plain = draw.maybe(0.4)
    out = h.shape[-1] if plain else size
    query, key, value = (None if plain else draw.with_weights(nn.Linear(h.shape[-1], size)) for _ in range(3))
    by_hand = draw.maybe()
    units = draw.units(out)

    def run(me: Step, h: Tensor, before: object) -> Tensor:
        q, k, v = (layer(h) if layer is not None else h for layer in (me.query, me.key, me.value))
        if by_hand:
            return (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1) @ v
        return F.scaled_dot_product_attention(q, k, v)

    def who(me: Step, h: Known, before: Before) -> Owners:
        shape = (*h.shape[:-1], out)
        row = rows_of_sequence(h.point, -2)
        if not plain:
            return np.broadcast_to(row, shape), spread(units, shape, -1)
        column = one(h.point, -2, True)
        return np.where(row < 0, column, row), np.broadcast_to(one(h.unit, -2, True), shape)

    parts = {"query": query, "key": key, "value": value}
    text = "softmax(q @ k.mT) @ v" if by_hand else "scaled_dot_product_attention(q, k, v)"
    return Step(f"{text} of {'h' if plain else f'Linears to {size}'}", run, who, **parts)


# Skips


def _broadcast(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...] | None:
    try:
        return np.broadcast_shapes(a, b)
    except ValueError:
        return None


def skip(draw: Draw, h: Known, before: Before) -> Step | None:
    """Added to, or multiplied with, an earlier tensor: of the same shape rather than of another."""
    alike = [k for k, other in enumerate(before) if other.shape == h.shape]
    fitting = [k for k, other in enumerate(before) if _broadcast(other.shape, h.shape)]
    if not fitting:
        return None
    k = draw.one_of(alike if alike and draw.maybe(0.8) else fitting)
    if prod(_broadcast(before[k].shape, h.shape) or ()) > LARGEST:
        return None
    runs = {"+": lambda a, b: a + b, "-": lambda a, b: b - a, "*": lambda a, b: a * b}
    how = draw.one_of(["+", "+", "+", "-", "*"])

    def who(me: Step, h: Known, before: Before) -> Owners:
        return both(h.point, before[k].point), units_of_both(h.unit, before[k].unit)

    return Step(f"h {how} h{k}", lambda me, h, before: runs[how](h, before[k]), who)


def outer(draw: Draw, h: Known, before: Before) -> Step | None:
    """h[:, :, None] + h[:, None, :]: of two axes, or of points with points."""
    if h.ndim != 2 or prod(h.shape) * max(h.shape) > LARGEST:
        return None
    a, b = draw.one_of([(1, 2), (0, 1), (0, 2)])

    def who(me: Step, h: Known, before: Before) -> Owners:
        left, right = (Known(h.value, np.expand_dims(h.point, k), np.expand_dims(h.unit, k)) for k in (a, b))
        return both(left.point, right.point), units_of_both(left.unit, right.unit)

    return Step(f"h.unsqueeze({a}) + h.unsqueeze({b})", lambda me, h, _: h.unsqueeze(a) + h.unsqueeze(b), who)


def glu(draw: Draw, h: Known, before: Before) -> Step | None:
    axis = draw.axis(h.ndim)
    if h.shape[axis] % 2:
        return None

    def who(me: Step, h: Known, before: Before) -> Owners:
        points, units = (np.split(labels, 2, axis) for labels in (h.point, h.unit))
        return both(*points), units_of_both(*units)

    return Step(f"glu({axis})", lambda me, h, _: F.glu(h, axis), who)


def squeeze_and_excite(draw: Draw, h: Known, before: Before) -> Step | None:
    """Channels scaled by a linear map of their means."""
    if h.ndim not in (3, 4):
        return None
    layer = draw.with_weights(nn.Linear(h.shape[1], h.shape[1]))
    axes = tuple(range(2, h.ndim))
    units = draw.units(h.shape[1])

    def run(me: Step, h: Tensor, before: object) -> Tensor:
        gate = me.layer(h.mean(axes)).sigmoid()
        return h * gate.reshape(*gate.shape, *[1] * len(axes))

    def who(me: Step, h: Known, before: Before) -> Owners:
        gate = one(h.point, (1, *axes), True)
        return both(h.point, gate), units_of_both(h.unit, spread(units, h.shape, 1))

    return Step("h * sigmoid(Linear(h.mean(positions)))", run, who, layer=layer)


def smooth(draw: Draw, h: Known, before: Before) -> Step:
    """Functions that are not one-sided."""
    runs = {
        "tanh": torch.tanh,
        "sigmoid() - 0.5": lambda t: t.sigmoid() - 0.5,
        "neg": torch.neg,
        "abs() - 1": lambda t: t.abs() - 1,
        "sin": torch.sin,
        "* 2 + 0.1": lambda t: t * 2 + 0.1,
    }
    text = draw.one_of(list(runs))
    return Step(text, lambda me, h, _: runs[text](h), keep)


MIXINGS: dict[str, tuple[Maker, int]] = {
    "sum, mean, max": (reduce, 5),
    "pool": (pool, 4),
    "softmax": (softmax, 1),
    "cumsum": (cumsum, 1),
    "minus a mean": (centred, 2),
    "times a statistic": (scaled_by_statistic, 2),
    "h @ h.mT": (gram, 1),
    "matmul of activations": (matmul, 2),
    "attention": (attention, 3),
    "outer sum": (outer, 2),
}

SKIPS: dict[str, tuple[Maker, int]] = {
    "skip": (skip, 8),
    "glu": (glu, 2),
    "squeeze and excite": (squeeze_and_excite, 2),
    "smooth": (smooth, 3),
}
