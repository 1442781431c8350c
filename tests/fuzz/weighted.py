"""Weighted operations: what comes out has new units, the output features; and norms, which keep the old."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
import torch
import torch.nn.functional as F
from owners import MANY, MIXED, NONE, RAW, Labels, one
from steps import Before, Draw, Known, Maker, Owners, Step, Who, keep
from torch import nn


def spread(units: Labels, shape: Sequence[int], *axes: int) -> Labels:
    """The units, which lie along these axes of the shape, for every entry."""
    view = [1] * len(shape)
    for axis in axes:
        view[axis] = shape[axis]
    return np.broadcast_to(units.reshape(view), shape).copy()


# Linear maps of one axis


def along(axis: int, units: Labels) -> Who:
    """All entries along an axis make each output feature, which takes its place."""

    def who(me: Step, h: Known, before: Before) -> Owners:
        shape = list(h.shape)
        shape[axis] = len(units)
        point = np.broadcast_to(one(h.point, axis, keepdims=True), shape)
        return point, spread(units, shape, axis)

    return who


def linear(draw: Draw, h: Known, before: Before) -> Step:
    """An nn.Linear; sometimes one that was used before."""
    again = [step for step in draw.steps if isinstance(getattr(step, "linear", None), nn.Linear)]
    fitting = [step for step in again if step.linear.in_features == h.shape[-1]]
    if fitting and draw.maybe(0.4):
        step = draw.one_of(fitting)
        return Step(f"{step.text}, the same", step.run, step.who, linear=step.linear)
    out = draw.size()
    layer = draw.with_weights(nn.Linear(h.shape[-1], out, bias=draw.maybe(0.8)))
    return Step(
        f"Linear({h.shape[-1]}, {out})", lambda me, h, _: me.linear(h), along(-1, draw.units(out)), linear=layer
    )


def one_row(draw: Draw, h: Known, before: Before) -> Step:
    weight, bias = draw.weight(1, h.shape[-1]), draw.bias(1)
    return Step(
        f"F.linear(h, weight[1, {h.shape[-1]}])",
        lambda me, h, _: F.linear(h, me.weight, me.bias),
        along(-1, draw.units(1)),
        weight=weight,
        bias=bias,
    )


def times_weight(draw: Draw, h: Known, before: Before) -> Step:
    out = draw.size()
    parts = {"weight": draw.weight(h.shape[-1], out), "bias": draw.bias(out)}
    return Step(
        f"h @ W[{h.shape[-1]}, {out}] + b",
        lambda me, h, _: h @ me.weight + me.bias,
        along(-1, draw.units(out)),
        **parts,
    )


def weight_times(draw: Draw, h: Known, before: Before) -> Step | None:
    if h.ndim < 2:
        return None
    out = draw.size()
    weight = draw.weight(out, h.shape[-2])
    return Step(
        f"W[{out}, {h.shape[-2]}] @ h", lambda me, h, _: me.weight @ h, along(-2, draw.units(out)), weight=weight
    )


def mm(draw: Draw, h: Known, before: Before) -> Step | None:
    if h.ndim != 2:
        return None
    out = draw.size()
    text, run, parts = f"mm(h, W[{h.shape[1]}, {out}])", lambda me, h, _: torch.mm(h, me.weight), {}
    if draw.maybe():
        text, run = f"addmm(b, h, W[{h.shape[1]}, {out}])", lambda me, h, _: torch.addmm(me.bias, h, me.weight)
        parts = {"bias": draw.bias(out)}
    return Step(text, run, along(-1, draw.units(out)), weight=draw.weight(h.shape[1], out), **parts)


def mm_from_left(draw: Draw, h: Known, before: Before) -> Step | None:
    if h.ndim != 2:
        return None
    out = draw.size()
    return Step(
        f"mm(W[{out}, {h.shape[0]}], h)",
        lambda me, h, _: torch.mm(me.weight, h),
        along(0, draw.units(out)),
        weight=draw.weight(out, h.shape[0]),
    )


def vector(draw: Draw, h: Known, before: Before) -> Step | None:
    if h.ndim < 2:
        return None

    def who(me: Step, h: Known, before: Before) -> Owners:
        point = one(h.point, -1)
        return point, np.full_like(point, draw.first_unit)

    weight = draw.weight(h.shape[-1])
    return Step(f"h @ w[{h.shape[-1]}]", lambda me, h, _: h @ me.weight, who, weight=weight)


def einsum(draw: Draw, h: Known, before: Before) -> Step | None:
    """A weight against any axis; its output feature stays there, or goes to the end."""
    letters = "abcd"[: h.ndim]
    axis, out, stays = draw.axis(h.ndim), draw.size(), draw.maybe()
    if h.shape[axis] == 1:
        return None  # a mere product
    rest = letters.replace(letters[axis], "z") if stays else letters.replace(letters[axis], "") + "z"
    text = f"{letters},{letters[axis]}z->{rest}"
    units = draw.units(out)

    def who(me: Step, h: Known, before: Before) -> Owners:
        point, unit = along(axis, units)(me, h, before)
        return (point, unit) if stays else (np.moveaxis(point, axis, -1), np.moveaxis(unit, axis, -1))

    return Step(
        f"einsum({text!r}, h, W[{h.shape[axis]}, {out}])",
        lambda me, h, _: torch.einsum(text, h, me.weight),
        who,
        weight=draw.weight(h.shape[axis], out),
    )


def ensemble(draw: Draw, h: Known, before: Before) -> Step | None:
    """A weight of its own for every slice of the first axis: [E, F, C] has E·C units."""
    if h.ndim != 3 or h.shape[2] == 1:
        return None
    members, out = h.shape[0], draw.size()
    how = draw.one_of(["bmm", "matmul", "einsum", "baddbmm"])
    units = draw.units(members * out).reshape(members, out)

    def who(me: Step, h: Known, before: Before) -> Owners:
        shape = (*h.shape[:2], out)
        return np.broadcast_to(one(h.point, 2, keepdims=True), shape), spread(units, shape, 0, 2)

    runs = {
        "bmm": lambda me, h, _: torch.bmm(h, me.weight),
        "matmul": lambda me, h, _: torch.matmul(h, me.weight) + me.bias,
        "einsum": lambda me, h, _: torch.einsum("enf,efc->enc", h, me.weight),
        "baddbmm": lambda me, h, _: torch.baddbmm(me.bias, h, me.weight),
    }
    parts = {"weight": draw.weight(members, h.shape[2], out)}
    if how in ("matmul", "baddbmm"):
        parts["bias"] = draw.bias(members, 1, out)
    return Step(f"{how}(h, W[{members}, {h.shape[2]}, {out}])", runs[how], who, **parts)


def positive_weights(draw: Draw, h: Known, before: Before) -> Step:
    """A ReLU of parameters alone is no layer."""
    out = draw.size()
    how = draw.one_of([F.relu, F.softplus, torch.relu])
    parts = {"weight": draw.weight(out, h.shape[-1]), "bias": draw.bias(out)}
    return Step(
        f"F.linear(h, {how.__name__}(W[{out}, {h.shape[-1]}]), b)",
        lambda me, h, _: F.linear(h, how(me.weight), me.bias),
        along(-1, draw.units(out)),
        **parts,
    )


def bilinear(draw: Draw, h: Known, before: Before) -> Step | None:
    others = [k for k, other in enumerate(before) if other.ndim and other.shape[:-1] == h.shape[:-1]]
    if not others or not h.ndim:
        return None
    k, out = draw.one_of(others), draw.size()
    layer = draw.with_weights(nn.Bilinear(h.shape[-1], before[k].shape[-1], out))
    units = draw.units(out)

    def who(me: Step, h: Known, before: Before) -> Owners:
        point = one(np.concatenate([h.point, before[k].point], -1), -1, keepdims=True)
        shape = (*h.shape[:-1], out)
        return np.broadcast_to(point, shape), spread(units, shape, -1)

    return Step(f"Bilinear(h, h{k}) -> {out}", lambda me, h, before: me.layer(h, before[k]), who, layer=layer)


# Convolutions


def _windows(labels: Labels, kernel: int, stride: int, padding: int, spatial: int) -> Labels:
    """What each output position sees: [..., *positions, *kernel]."""
    pad = [(0, 0)] * (labels.ndim - spatial) + [(padding, padding)] * spatial
    padded = np.pad(labels, pad, constant_values=NONE)
    axes = tuple(range(labels.ndim - spatial, labels.ndim))
    seen = np.lib.stride_tricks.sliding_window_view(padded, (kernel,) * spatial, axes)
    steps = (slice(None),) * (labels.ndim - spatial) + (slice(None, None, stride),) * spatial
    return seen[steps]


def conv(draw: Draw, h: Known, before: Before) -> Step | None:
    """Convolutions of one and two dimensions, in groups too; sometimes of a tensor without a batch."""
    unbatched = h.ndim in (2, 3) and draw.maybe(0.1)
    spatial = h.ndim - 2 + unbatched
    if spatial not in (1, 2):
        return None
    channels, sides = h.shape[1 - unbatched], h.shape[2 - unbatched :]
    kernel, stride, padding = draw.one_of([1, 1, 2, 3]), draw.one_of([1, 1, 2]), draw.one_of([0, 0, 1])
    if kernel > min(sides) + 2 * padding or padding >= kernel:
        kernel, padding = 1, 0
    groups = draw.one_of([g for g in (1, 1, 2, 3, 4, 6) if channels % g == 0])
    out = groups * draw.one_of([1, 2, 3])
    kind = (nn.Conv1d, nn.Conv2d)[spatial - 1]
    layer = draw.with_weights(kind(channels, out, kernel, stride, padding, groups=groups))
    units = draw.units(out)

    def who(me: Step, h: Known, before: Before) -> Owners:
        point = h.point[None] if unbatched else h.point
        seen = _windows(point, kernel, stride, padding, spatial)
        of_kernel = tuple(range(seen.ndim - spatial, seen.ndim))
        seen = one(seen, of_kernel)  # by input channel
        by_group = np.stack([one(part, 1) for part in np.split(seen, groups, 1)], 1)
        point = np.repeat(by_group, out // groups, 1)
        unit = spread(units, point.shape, 1)
        return (point[0], unit[0]) if unbatched else (point, unit)

    text = f"Conv{spatial}d({channels}, {out}, {kernel}, stride={stride}, padding={padding}, groups={groups})"
    return Step(text + " without a batch" * unbatched, lambda me, h, _: me.layer(h), who, layer=layer)


def conv_transpose(draw: Draw, h: Known, before: Before) -> Step | None:
    spatial = h.ndim - 2
    if spatial not in (1, 2):
        return None
    channels, sides, out = h.shape[1], h.shape[2:], draw.size()
    kernel, stride = draw.one_of([1, 2, 3]), draw.one_of([1, 2])
    kind = (nn.ConvTranspose1d, nn.ConvTranspose2d)[spatial - 1]
    layer = draw.with_weights(kind(channels, out, kernel, stride))
    units = draw.units(out)
    result = [(side - 1) * stride + kernel for side in sides]

    def who(me: Step, h: Known, before: Before) -> Owners:
        by_position = one(h.point, 1)  # [N, *sides]
        parts = []
        for offset in np.ndindex(*[kernel] * spatial):
            part = np.full((h.shape[0], *result), NONE)
            where = tuple(slice(o, o + (side - 1) * stride + 1, stride) for o, side in zip(offset, sides, strict=True))
            part[(slice(None), *where)] = by_position
            parts.append(part)
        point = one(np.stack(parts), 0)
        shape = (h.shape[0], out, *result)
        return np.broadcast_to(point[:, None], shape), spread(units, shape, 1)

    text = f"ConvTranspose{spatial}d({channels}, {out}, {kernel}, stride={stride})"
    return Step(text, lambda me, h, _: me.layer(h), who, layer=layer)


# Recurrent, attention, tables


def cell(draw: Draw, h: Known, before: Before) -> Step | None:
    if h.ndim != 2:
        return None
    out = draw.size()
    kind = draw.one_of([nn.GRUCell, nn.RNNCell])
    layer = draw.with_weights(kind(h.shape[1], out))
    return Step(
        f"{kind.__name__}({h.shape[1]}, {out})", lambda me, h, _: me.layer(h), along(-1, draw.units(out)), layer=layer
    )


def rows_of_sequence(point: Labels, time: int) -> Labels:
    """Whose a row is that was made from a whole sequence: of the one whose row it was, if there are several."""
    row = one(point, -1, True)
    return np.where(row < 0, one(row, time, True), row)


def recurrent(draw: Draw, h: Known, before: Before) -> Step | None:
    if h.ndim != 3:
        return None
    out, time = draw.size(), draw.one_of([0, 1])
    kind = draw.one_of([nn.GRU, nn.LSTM])
    layer = draw.with_weights(kind(h.shape[2], out, batch_first=time == 1))
    units = draw.units(out)

    def who(me: Step, h: Known, before: Before) -> Owners:
        shape = (*h.shape[:2], out)
        return np.broadcast_to(rows_of_sequence(h.point, time), shape), spread(units, shape, -1)

    text = f"{kind.__name__}({h.shape[2]}, {out}, batch_first={time == 1})"
    return Step(text, lambda me, h, _: me.layer(h)[0], who, layer=layer)


def attention_module(draw: Draw, h: Known, before: Before) -> Step | None:
    """nn.MultiheadAttention on itself: along one axis everything sees everything."""
    if h.ndim != 3 or h.shape[2] not in (2, 4, 6):
        return None
    time = draw.one_of([0, 1])
    layer = draw.with_weights(nn.MultiheadAttention(h.shape[2], 2, batch_first=time == 1))
    units = draw.units(h.shape[2])

    def who(me: Step, h: Known, before: Before) -> Owners:
        return np.broadcast_to(rows_of_sequence(h.point, time), h.shape), spread(units, h.shape, -1)

    return Step(
        f"MultiheadAttention({h.shape[2]}, 2, batch_first={time == 1})",
        lambda me, h, _: me.layer(h, h, h, need_weights=False)[0],
        who,
        layer=layer,
    )


def table(draw: Draw, h: Known, before: Before) -> Step:
    """An Embedding of the largest feature's number."""
    out = draw.size()
    layer = nn.Embedding(h.shape[-1], out, _weight=draw.weight(h.shape[-1], out).detach())
    return Step(
        f"Embedding(h.argmax(-1)) -> {out}",
        lambda me, h, _: me.layer(h.argmax(-1)),
        along(-1, draw.units(out)),
        layer=layer,
    )


def tokens(draw: Draw, h: Known, before: Before) -> Step:
    """An Embedding of integers."""
    out = draw.size()
    layer = nn.Embedding(8, out, _weight=draw.weight(8, out).detach())
    units = draw.units(out)

    def who(me: Step, h: Known, before: Before) -> Owners:
        shape = (*h.shape, out)
        return np.broadcast_to(h.point[..., None], shape), spread(units, shape, -1)

    return Step(f"Embedding(8, {out})", lambda me, h, _: me.layer(h), who, layer=layer)


# Norms and scales keep the units; where there are none, the channels of a norm are units


def _normed(axis: int, units: Labels) -> Who:
    def who(me: Step, h: Known, before: Before) -> Owners:
        lost = np.isin(h.unit, (MIXED, MANY)).any() and not (h.unit == RAW).any()
        return h.point, spread(units, h.shape, axis) if lost else h.unit

    return who


def layer_norm(draw: Draw, h: Known, before: Before) -> Step | None:
    if h.shape[-1] < 3:
        return None
    layer = draw.with_weights(nn.LayerNorm(h.shape[-1], eps=0.1))
    who = _normed(-1, draw.units(h.shape[-1]))
    return Step(f"LayerNorm({h.shape[-1]})", lambda me, h, _: me.layer(h), who, layer=layer)


def batch_norm(draw: Draw, h: Known, before: Before) -> Step | None:
    if h.ndim not in (2, 3, 4) or prod(h.shape) // h.shape[1] < 3:
        return None
    kind = nn.BatchNorm2d if h.ndim == 4 else nn.BatchNorm1d
    layer = draw.with_weights(kind(h.shape[1], momentum=0.0, eps=0.1))
    who = _normed(1, draw.units(h.shape[1]))
    return Step(f"{kind.__name__}({h.shape[1]})", lambda me, h, _: me.layer(h), who, layer=layer)


def group_norm(draw: Draw, h: Known, before: Before) -> Step | None:
    if h.ndim < 3 or prod(h.shape[2:]) < 3:
        return None
    groups = draw.one_of([g for g in (1, 2, 3, h.shape[1]) if h.shape[1] % g == 0])
    layer = draw.with_weights(nn.GroupNorm(groups, h.shape[1], eps=0.1))
    who = _normed(1, draw.units(h.shape[1]))
    return Step(f"GroupNorm({groups}, {h.shape[1]})", lambda me, h, _: me.layer(h), who, layer=layer)


def scale(draw: Draw, h: Known, before: Before) -> Step:
    """A parameter for every entry of the last axis, or for all."""
    size = draw.one_of([1, h.shape[-1]])
    parts = {"weight": draw.weight(size), "bias": draw.bias(size)}
    return Step(f"h * w[{size}] + b[{size}]", lambda me, h, _: h * me.weight + me.bias, keep, **parts)


WEIGHTED: dict[str, tuple[Maker, int]] = {
    "linear": (linear, 8),
    "one-row linear": (one_row, 2),
    "h @ W": (times_weight, 2),
    "W @ h": (weight_times, 2),
    "mm, addmm": (mm, 1),
    "mm from the left": (mm_from_left, 1),
    "h @ w": (vector, 1),
    "einsum": (einsum, 3),
    "ensemble": (ensemble, 2),
    "ReLU of weights": (positive_weights, 1),
    "Bilinear": (bilinear, 1),
    "conv": (conv, 7),
    "conv transpose": (conv_transpose, 2),
    "GRU cell, RNN cell": (cell, 1),
    "GRU, LSTM": (recurrent, 1),
    "MultiheadAttention": (attention_module, 1),
    "Embedding of an argmax": (table, 1),
    "LayerNorm": (layer_norm, 2),
    "BatchNorm": (batch_norm, 3),
    "GroupNorm": (group_norm, 1),
    "scale": (scale, 1),
}
