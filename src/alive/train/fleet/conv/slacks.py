"""Extremes of maps, and the pull of their slacks: a unit is a channel, or a channel at a position.

Where an extreme lies is looked for only where a margin is missed, and only in blocks whose images attain it. Networks
with a penalty are plain, so that nothing but a ReLU lies between their pre-activations and what the next layer reads.
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
    div,
    full,
    intrinsic,
    largest,
    least,
    load,
    most,
    mul,
    smallest,
    store,
    sub,
    total,
    where_equal,
    where_less,
)
from ..slacks import LAYER, ONE, UNITS, ZERO, aim_at, ends, slack_lanes


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
def channel_ends(s, level, blocks):  # type: ignore[no-untyped-def]
    """Extremes of channels and of images from those of each channel in each image."""
    for c in range(s.unit_top.shape[1]):
        high, low = load(s.lane_top[level, 0], c, 0), load(s.lane_bottom[level, 0], c, 0)
        for b in range(1, blocks):
            high, low = most(high, load(s.lane_top[level, b], c, 0)), least(low, load(s.lane_bottom[level, b], c, 0))
        s.unit_top[level, c], s.unit_bottom[level, c] = largest(high), smallest(low)
    for b in range(blocks):
        top, bottom = s.lane_top[level, b], s.lane_bottom[level, b]
        high, low = load(top, 0, 0), load(bottom, 0, 0)
        for c in range(1, top.shape[0]):
            high, low = most(high, load(top, c, 0)), least(low, load(bottom, c, 0))
        store(s.point_top[level], 0, b * WIDTH, high)
        store(s.point_bottom[level], 0, b * WIDTH, low)


@kernel
def position_ends(plan, s, level, blocks):  # type: ignore[no-untyped-def]
    """Extremes of each channel at each position over the images, and of each image at each position over channels."""
    side, reach, channels = plan.side, plan.taps // 2, s.z.shape[2]
    pitch, area = side + 2 * reach, plan.side * plan.side
    for p in range(area):
        n = ((p // side + reach) * pitch + p % side + reach) * WIDTH
        for c in range(channels):
            high = load(s.z[level, 0], c, n)
            low = high
            for b in range(1, blocks):
                v = load(s.z[level, b], c, n)
                high, low = most(v, high), least(v, low)
            s.unit_top[level, c * area + p], s.unit_bottom[level, c * area + p] = largest(high), smallest(low)
        for b in range(blocks):
            z = s.z[level, b]
            high = load(z, 0, n)
            low = high
            for c in range(1, channels):
                v = load(z, c, n)
                high, low = most(v, high), least(v, low)
            store(s.point_top[level], p, b * WIDTH, high)
            store(s.point_bottom[level], p, b * WIDTH, low)


@kernel
def map_ends(plan, s, count):  # type: ignore[no-untyped-def]
    """The extremes of all units and points of the pass just made, as the penalty asks for them."""
    blocks = (count + WIDTH - 1) // WIDTH
    for level in range(s.lane_top.shape[0]):
        if plan.by_position:
            position_ends(plan, s, level, blocks)
        else:
            channel_ends(s, level, blocks)


@kernel
def ties_in_channel(plan, s, level, c, high, low, blocks):  # type: ignore[no-untyped-def]
    """How many entries of a channel have the one value, and the other, in real images."""
    side, reach = plan.side, plan.taps // 2
    pitch, h, e, zero = side + 2 * reach, full(high), full(low), full(0)
    on, off = zero, zero
    for b in range(blocks):
        if not (
            largest(where_equal(load(s.lane_top[level, b], c, 0), h, full(1), zero)) > ZERO
            or largest(where_equal(load(s.lane_bottom[level, b], c, 0), e, full(1), zero)) > ZERO
        ):
            continue
        real, z = load(s.real, 0, b * WIDTH), s.z[level, b]
        for y in range(side):
            start = ((y + reach) * pitch + reach) * WIDTH
            n, stop = start, start + side * WIDTH
            while n < stop:
                some = min(4, (stop - n) // WIDTH)
                if some < 4 or four_reach(
                    load(z, c, n), load(z, c, n + WIDTH), load(z, c, n + 2 * WIDTH), load(z, c, n + 3 * WIDTH), h, e
                ):
                    for at in range(n, n + some * WIDTH, WIDTH):
                        v = load(z, c, at)
                        on, off = add(on, where_equal(v, h, real, zero)), add(off, where_equal(v, e, real, zero))
                n += some * WIDTH
    return total(on), total(off)


@kernel
def ties_at_position(s, level, c, n, high, low, blocks):  # type: ignore[no-untyped-def]
    """The same of one position."""
    h, e, zero = full(high), full(low), full(0)
    on, off = zero, zero
    for b in range(blocks):
        v, real = load(s.z[level, b], c, n), load(s.real, 0, b * WIDTH)
        on, off = add(on, where_equal(v, h, real, zero)), add(off, where_equal(v, e, real, zero))
    return total(on), total(off)


@kernel
def aim_units(plan, s, level, weight, blocks):  # type: ignore[no-untyped-def]
    """Aim every unit at its own extremes."""
    side, reach, area = plan.side, plan.taps // 2, plan.side * plan.side
    pitch = side + 2 * reach
    for j in range(s.unit_top.shape[1]):
        high, low = s.unit_top[level, j], s.unit_bottom[level, j]
        on, off = ONE, ONE
        if high < ONE or low > -ONE:
            if plan.by_position:
                c, p = j // area, j % area
                n = ((p // side + reach) * pitch + p % side + reach) * WIDTH
                on, off = ties_at_position(s, level, c, n, high, low, blocks)
            else:
                on, off = ties_in_channel(plan, s, level, j, high, low, blocks)
        aim_at(s.aim[level], j, high, low, on, off, plan, weight)


@kernel
def aim_layer(plan, s, level, weight, blocks):  # type: ignore[no-untyped-def]
    """Aim every channel at the layer's extremes."""
    high, low = ends(s.unit_top[level], s.unit_bottom[level])
    channels, on, off = s.z.shape[2], ZERO, ZERO
    if high < ONE or low > -ONE:
        for c in range(channels):
            more_on, more_off = ties_in_channel(plan, s, level, c, high, low, blocks)
            on += more_on
            off += more_off
    for c in range(channels):
        aim_at(s.layer_aim[level], c, high, low, max(on, ONE), max(off, ONE), plan, weight)


@kernel
def aim(plan, share, s, weight, blocks, count):  # type: ignore[no-untyped-def]
    """Before anything flows back: what every unit of every layer looks for, and what it adds there."""
    for level in range(s.lane_top.shape[0]):
        if plan.units and count * plan.unit_values > 1:
            aim_units(plan, s, level, np.float32(weight * share[level, UNITS]), blocks)
        else:
            s.aim[level, 2:] = ZERO
        if plan.layer and count * plan.layer_values > 1:
            aim_layer(plan, s, level, np.float32(weight * share[level, LAYER]), blocks)


@kernel
def revisit(plan, s, level, b, h):  # type: ignore[no-untyped-def]
    """Make of a block's pre-activations what the next layer reads, and note where they are extremes that are pulled.

    s.noted[0] entries of s.found are noted: all that a channel of the block, or an image, aims at.
    """
    side, reach, zero, one = plan.side, plan.taps // 2, full(0), full(1)
    pitch, z, far, found = side + 2 * reach, s.z[level, b], full(np.float32(np.inf)), 0
    near = sub(zero, far)
    aims = s.layer_aim[level] if plan.layer else s.aim[level]
    high_image, low_image = far, near
    if plan.points and not plan.by_position:
        top, bottom = load(s.point_top[level], 0, b * WIDTH), load(s.point_bottom[level], 0, b * WIDTH)
        high_image, low_image = where_less(top, one, top, far), where_less(full(-1), bottom, bottom, near)
    by_channel = plan.layer or (plan.units and not plan.by_position)
    for c in range(z.shape[0]):
        high, low = high_image, low_image
        if by_channel and aims[2, c] != ZERO:
            high = least(high, full(aims[0, c]))
        if by_channel and aims[3, c] != ZERO:
            low = most(low, full(aims[1, c]))
        top, bottom = load(s.lane_top[level, b], c, 0), load(s.lane_bottom[level, b], c, 0)
        look = reaches(top, high, low) or reaches(bottom, high, low)
        for y in range(side):
            start = ((y + reach) * pitch + reach) * WIDTH
            n, stop = start, start + side * WIDTH
            while n < stop:
                some = min(4, (stop - n) // WIDTH)
                for at in range(n, n + some * WIDTH, WIDTH):
                    v = load(z, c, at)
                    store(h, c, at, where_less(v, zero, zero, v))
                if look and (
                    some < 4
                    or four_reach(
                        load(z, c, n),
                        load(z, c, n + WIDTH),
                        load(z, c, n + 2 * WIDTH),
                        load(z, c, n + 3 * WIDTH),
                        high,
                        low,
                    )
                ):
                    for at in range(n, n + some * WIDTH, WIDTH):
                        if reaches(load(z, c, at), high, low):
                            s.found[found, 0], s.found[found, 1] = c, at
                            found += 1
                n += some * WIDTH
    s.noted[0] = found


@kernel
def pull_channels(s, level, b, aims, g):  # type: ignore[no-untyped-def]
    """Add to the noted entries of one block what their channels aim at."""
    zero, real, z = full(0), load(s.real, 0, b * WIDTH), s.z[level, b]
    for i in range(s.noted[0]):
        c, n = s.found[i, 0], s.found[i, 1]
        v = load(z, c, n)
        high = where_equal(v, full(aims[0, c]), mul(full(aims[2, c]), real), zero)
        low = where_equal(v, full(aims[1, c]), mul(full(aims[3, c]), real), zero)
        store(g, c, n, add(load(g, c, n), add(high, low)))


@kernel
def pull_positions(plan, s, level, b, g):  # type: ignore[no-untyped-def]
    """The same where each position is a unit of its own."""
    side, reach, area, zero = plan.side, plan.taps // 2, plan.side * plan.side, full(0)
    pitch, real, z, aim = side + 2 * reach, load(s.real, 0, b * WIDTH), s.z[level, b], s.aim[level]
    for c in range(g.shape[0]):
        for p in range(area):
            j = c * area + p
            if aim[2, j] == ZERO and aim[3, j] == ZERO:
                continue
            n = ((p // side + reach) * pitch + p % side + reach) * WIDTH
            v = load(z, c, n)
            high = where_equal(v, full(aim[0, j]), mul(full(aim[2, j]), real), zero)
            low = where_equal(v, full(aim[1, j]), mul(full(aim[3, j]), real), zero)
            store(g, c, n, add(load(g, c, n), add(high, low)))


@kernel
def forces(plan, top, bottom, on, off, real, weight):  # type: ignore[no-untyped-def]
    """What the slacks of sixteen points add at each of their extremes."""
    one, zero = full(1), full(0)
    s = slack_lanes(top, bottom, plan)
    slope = add(s, s) if plan.squared else one
    up = where_less(top, one, div(mul(full(-plan.plus * weight), slope), on), zero)
    down = where_less(full(-1), bottom, div(mul(full(plan.minus * weight), slope), off), zero)
    return mul(up, real), mul(down, real)


@kernel
def pull_images(plan, s, level, b, weight, g):  # type: ignore[no-untyped-def]
    """Add the pull of each image's slack to the noted entries that are its extremes, wherever they lie."""
    top, bottom = load(s.point_top[level], 0, b * WIDTH), load(s.point_bottom[level], 0, b * WIDTH)
    if not largest(slack_lanes(top, bottom, plan)) > ZERO:
        return
    one, zero, z = full(1), full(0), s.z[level, b]
    on, off = zero, zero
    for i in range(s.noted[0]):
        v = load(z, s.found[i, 0], s.found[i, 1])
        on, off = add(on, where_equal(v, top, one, zero)), add(off, where_equal(v, bottom, one, zero))
    up, down = forces(plan, top, bottom, on, off, load(s.real, 0, b * WIDTH), weight)
    for i in range(s.noted[0]):
        c, n = s.found[i, 0], s.found[i, 1]
        v = load(z, c, n)
        pulled = add(load(g, c, n), where_equal(v, top, up, zero))
        store(g, c, n, add(pulled, where_equal(v, bottom, down, zero)))


@kernel
def pull_images_at_positions(plan, s, level, b, weight, g):  # type: ignore[no-untyped-def]
    """The same where each position of an image is a point of its own."""
    side, reach, one, zero, z = plan.side, plan.taps // 2, full(1), full(0), s.z[level, b]
    pitch, real = side + 2 * reach, load(s.real, 0, b * WIDTH)
    for p in range(side * side):
        top, bottom = load(s.point_top[level], p, b * WIDTH), load(s.point_bottom[level], p, b * WIDTH)
        if not largest(slack_lanes(top, bottom, plan)) > ZERO:
            continue
        n = ((p // side + reach) * pitch + p % side + reach) * WIDTH
        on, off = zero, zero
        for c in range(g.shape[0]):
            v = load(z, c, n)
            on, off = add(on, where_equal(v, top, one, zero)), add(off, where_equal(v, bottom, one, zero))
        up, down = forces(plan, top, bottom, on, off, real, weight)
        for c in range(g.shape[0]):
            v = load(z, c, n)
            pulled = add(load(g, c, n), where_equal(v, top, up, zero))
            store(g, c, n, add(pulled, where_equal(v, bottom, down, zero)))


@kernel
def pull(plan, s, level, b, g, by_point):  # type: ignore[no-untyped-def]
    """Add the gradient of the penalty in the pre-activations of one layer and block."""
    if plan.units and plan.by_position:
        pull_positions(plan, s, level, b, g)
    elif plan.units:
        pull_channels(s, level, b, s.aim[level], g)
    if plan.layer:
        pull_channels(s, level, b, s.layer_aim[level], g)
    if plan.points and plan.by_position and plan.point_values > 1:
        pull_images_at_positions(plan, s, level, b, by_point, g)
    elif plan.points and not plan.by_position:
        pull_images(plan, s, level, b, by_point, g)
