"""Extremes of maps, and the pull of their slacks: a unit is a channel over its whole map.

Extremes that miss a margin are looked for in the rows that attain them, while the map is still in the cache; so that
all that is kept of it, beside what the next layer reads, are these few.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types

from ..compiled import kernel
from ..lanes import (
    WIDTH,
    add,
    full,
    intrinsic,
    largest,
    least,
    load,
    most,
    mul,
    smallest,
    store,
    total,
    where_equal,
    where_less,
)
from ..slacks import LAYER, ONE, UNITS, ZERO, aim_at, ends, forces, slack_lanes
from .positions import aim_positions, pull_positions

INF = np.float32(np.inf)


def _any(builder: Any, values: Sequence[Any], high: Any, low: Any) -> Any:
    """Whether a lane of any of the vectors is as high as the one, or as low as the other."""
    tests = [builder.fcmp_ordered(sign, v, end) for v in values for sign, end in ((">=", high), ("<=", low))]
    bits = builder.bitcast(reduce(builder.or_, tests), ir.IntType(WIDTH))
    return builder.icmp_unsigned("!=", bits, ir.Constant(ir.IntType(WIDTH), 0))


@intrinsic
def reaches(typing_context, value, high, low):  # type: ignore[no-untyped-def]
    """Whether any lane is as high as the one value, or as low as the other."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _any(builder, args[:1], *args[1:])

    return types.boolean(value, high, low), code


@intrinsic
def four_reach(typing_context, a, b, c, d, high, low):  # type: ignore[no-untyped-def]
    """The same of four vectors, at the price of little more than one."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _any(builder, args[:4], *args[4:])

    return types.boolean(a, b, c, d, high, low), code


@kernel
def fold_rows(row_top, row_bottom, top, bottom):  # type: ignore[no-untyped-def]
    """Extremes of each channel in each image from those of its rows."""
    side = row_top.shape[0] // top.shape[0]
    for c in range(top.shape[0]):
        high, low = load(row_top, c * side, 0), load(row_bottom, c * side, 0)
        for row in range(c * side + 1, (c + 1) * side):
            high, low = most(load(row_top, row, 0), high), least(load(row_bottom, row, 0), low)
        store(top, c, 0, high)
        store(bottom, c, 0, low)


@kernel
def channel_ends(s, level, b):  # type: ignore[no-untyped-def]
    """Join the extremes of one block to those of its images and channels; of channels, over the blocks so far."""
    top, bottom = s.lane_top[level], s.lane_bottom[level]
    fold_rows(s.row_top, s.row_bottom, top, bottom)
    high, low = load(top, 0, 0), load(bottom, 0, 0)
    for c in range(top.shape[0]):
        t, e = load(top, c, 0), load(bottom, c, 0)
        high, low = most(high, t), least(low, e)
        a, z = largest(t), smallest(e)
        s.unit_top[level, c] = max(a, s.unit_top[level, c]) if b else a
        s.unit_bottom[level, c] = min(z, s.unit_bottom[level, c]) if b else z
    store(s.point_top[level], 0, b * WIDTH, high)
    store(s.point_bottom[level], 0, b * WIDTH, low)


@kernel
def note_row(s, level, b, c, start, stop, high, low):  # type: ignore[no-untyped-def]
    """Note the entries of one row that are as high as the one value in some image, or as low as the other."""
    z, noted, places, found, n = s.z[0, 0], s.noted[level, b], s.places[level, b], s.notes[level, b], start
    while n < stop:
        some = min(4, (stop - n) // WIDTH)
        if some < 4 or four_reach(
            load(z, c, n), load(z, c, n + WIDTH), load(z, c, n + 2 * WIDTH), load(z, c, n + 3 * WIDTH), high, low
        ):
            for at in range(n, n + some * WIDTH, WIDTH):
                v = load(z, c, at)
                if reaches(v, high, low):
                    store(noted, found, 0, v)
                    places[found, 0], places[found, 1] = c, at
                    found += 1
        n += some * WIDTH
    s.notes[level, b] = found


@kernel
def note(plan, s, level, b):  # type: ignore[no-untyped-def]
    """Note the pre-activations of one block that are extremes whose margin is missed.

    Those of its images are known by now. Those of its channels are so over the blocks so far: what is noted of them
    holds all that will be extremes over the batch, and some that will not.
    """
    channel_ends(s, level, b)
    s.notes[level, b] = 0
    side, reach, one, far = plan.side, plan.taps // 2, full(1), full(INF)
    pitch, near = side + 2 * reach, full(-INF)
    high_image, low_image = far, near
    if plan.points:
        top, bottom = load(s.point_top[level], 0, b * WIDTH), load(s.point_bottom[level], 0, b * WIDTH)
        high_image, low_image = where_less(top, one, top, far), where_less(full(-1), bottom, bottom, near)
    for c in range(s.unit_top.shape[1]):
        high, low = high_image, low_image
        if (plan.units or plan.layer) and s.unit_top[level, c] < ONE:
            high = least(high, full(s.unit_top[level, c]))
        if (plan.units or plan.layer) and s.unit_bottom[level, c] > -ONE:
            low = most(low, full(s.unit_bottom[level, c]))
        for y in range(side):
            top, bottom = load(s.row_top, c * side + y, 0), load(s.row_bottom, c * side + y, 0)
            if reaches(top, high, low) or reaches(bottom, high, low):
                start = ((y + reach) * pitch + reach) * WIDTH
                note_row(s, level, b, c, start, start + side * WIDTH, high, low)


@kernel
def count_ties(s, level, aims, blocks):  # type: ignore[no-untyped-def]
    """How many entries of each channel have the values it looks for, in real images; a block's are noted in order."""
    zero = full(0)
    ties = s.ties[0]
    ties[:] = ZERO
    for b in range(blocks):
        real, noted, places, count, i = (
            load(s.real, 0, b * WIDTH),
            s.noted[level, b],
            s.places[level, b],
            s.notes[level, b],
            0,
        )
        while i < count:
            c, on, off = places[i, 0], zero, zero
            high, low = full(aims[0, c]), full(aims[1, c])
            while i < count and places[i, 0] == c:
                v = load(noted, i, 0)
                on, off = add(on, where_equal(v, high, real, zero)), add(off, where_equal(v, low, real, zero))
                i += 1
            ties[0, c] += total(on)
            ties[1, c] += total(off)


@kernel
def aim_channels(plan, s, level, weight, blocks):  # type: ignore[no-untyped-def]
    """Aim every channel at its own extremes."""
    aims = s.aim[level]
    aims[0], aims[1] = s.unit_top[level], s.unit_bottom[level]
    count_ties(s, level, aims, blocks)
    for c in range(aims.shape[1]):
        aim_at(aims, c, aims[0, c], aims[1, c], s.ties[0, 0, c], s.ties[0, 1, c], plan, weight)


@kernel
def aim_layer(plan, s, level, weight, blocks):  # type: ignore[no-untyped-def]
    """Aim every channel at the layer's extremes."""
    aims = s.layer_aim[level]
    high, low = ends(s.unit_top[level], s.unit_bottom[level])
    aims[0], aims[1] = high, low
    count_ties(s, level, aims, blocks)
    on, off = s.ties[0, 0].sum(), s.ties[0, 1].sum()
    for c in range(aims.shape[1]):
        aim_at(aims, c, high, low, on, off, plan, weight)


@kernel
def aim(plan, share, s, weight, blocks, count):  # type: ignore[no-untyped-def]
    """Before anything flows back: what every unit of every layer looks for, and what it adds there."""
    for level in range(s.lane_top.shape[0]):
        by_unit, by_layer = np.float32(weight * share[level, UNITS]), np.float32(weight * share[level, LAYER])
        if not (plan.units and count * plan.unit_values > 1):
            s.aim[level, 2:] = ZERO
        elif plan.by_position:
            aim_positions(plan, s, level, by_unit)
        else:
            aim_channels(plan, s, level, by_unit, blocks)
        if plan.layer and count * plan.layer_values > 1:
            aim_layer(plan, s, level, by_layer, blocks)


@kernel
def pull_channels(s, level, b, aims, g):  # type: ignore[no-untyped-def]
    """Add to the noted entries of one block what their channels aim at."""
    zero, real, noted, places = full(0), load(s.real, 0, b * WIDTH), s.noted[level, b], s.places[level, b]
    for i in range(s.notes[level, b]):
        c, n = places[i, 0], places[i, 1]
        v = load(noted, i, 0)
        high = where_equal(v, full(aims[0, c]), mul(full(aims[2, c]), real), zero)
        low = where_equal(v, full(aims[1, c]), mul(full(aims[3, c]), real), zero)
        store(g, c, n, add(load(g, c, n), add(high, low)))


@kernel
def pull_images(plan, s, level, b, weight, g):  # type: ignore[no-untyped-def]
    """Add the pull of each image's slack to the noted entries that are its extremes, wherever they lie."""
    top, bottom = load(s.point_top[level], 0, b * WIDTH), load(s.point_bottom[level], 0, b * WIDTH)
    if not largest(slack_lanes(top, bottom, plan)) > ZERO:
        return
    one, zero, noted, places = full(1), full(0), s.noted[level, b], s.places[level, b]
    real = load(s.real, 0, b * WIDTH)
    on, off = zero, zero
    for i in range(s.notes[level, b]):
        v = load(noted, i, 0)
        on, off = add(on, where_equal(v, top, one, zero)), add(off, where_equal(v, bottom, one, zero))
    up, down = forces(plan, top, bottom, on, off, weight)
    up, down = mul(up, real), mul(down, real)
    for i in range(s.notes[level, b]):
        c, n = places[i, 0], places[i, 1]
        v = load(noted, i, 0)
        pulled = add(load(g, c, n), where_equal(v, top, up, zero))
        store(g, c, n, add(pulled, where_equal(v, bottom, down, zero)))


@kernel
def pull(plan, s, level, b, g, by_point):  # type: ignore[no-untyped-def]
    """Add the gradient of the penalty in the pre-activations of one layer and block."""
    if plan.keep:
        pull_positions(plan, s, level, b, by_point, g)
        return
    if plan.units:
        pull_channels(s, level, b, s.aim[level], g)
    if plan.layer:
        pull_channels(s, level, b, s.layer_aim[level], g)
    if plan.points:
        pull_images(plan, s, level, b, by_point, g)
