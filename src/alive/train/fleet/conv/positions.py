"""A penalty by position: a unit is a channel at one place of the map, and each place of an image is a point.

Every entry may be an extreme, so all pre-activations are kept. Maps of a whole batch do not fit in the cache: they are
read row by row, each row through all blocks, once for extremes and how many attain them, and once on the way back.
"""

from __future__ import annotations

import numpy as np

from ..compiled import kernel
from ..lanes import (
    WIDTH,
    add,
    any_set,
    full,
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
from ..slacks import aim_at, forces, slack_lanes

INF = np.float32(np.inf)


@kernel
def across(z, n):  # type: ignore[no-untyped-def]
    """Extremes over the channels of sixteen images at one place."""
    high = load(z, 0, n)
    low = high
    for c in range(1, z.shape[0]):
        v = load(z, c, n)
        high, low = most(v, high), least(v, low)
    return high, low


@kernel
def begin_row(s):  # type: ignore[no-untyped-def]
    """No image has been seen yet."""
    for i in range(s.row_top.shape[0]):
        store(s.row_top, i, 0, full(-INF))
        store(s.row_bottom, i, 0, full(INF))
        store(s.row_on, i, 0, full(0))
        store(s.row_off, i, 0, full(0))


@kernel
def join_row(s, z, c, start, side, real):  # type: ignore[no-untyped-def]
    """Join one row of one channel and block to the extremes of its places, and count who attains them so far."""
    zero = full(0)
    for x in range(side):
        i, v = c * side + x, load(z, c, start + x * WIDTH)
        high, low, on, off = (
            load(s.row_top, i, 0),
            load(s.row_bottom, i, 0),
            load(s.row_on, i, 0),
            load(s.row_off, i, 0),
        )
        store(s.row_on, i, 0, add(where_less(high, v, zero, on), where_less(v, high, zero, real)))
        store(s.row_off, i, 0, add(where_less(v, low, zero, off), where_less(low, v, zero, real)))
        store(s.row_top, i, 0, most(v, high))
        store(s.row_bottom, i, 0, least(v, low))


@kernel
def end_row(s, level, y, side):  # type: ignore[no-untyped-def]
    """The extremes over all images of the units of one row, and how many images attain them."""
    zero = full(0)
    for i in range(s.row_top.shape[0]):
        j = (i // side * side + y) * side + i % side
        tops, bottoms = load(s.row_top, i, 0), load(s.row_bottom, i, 0)
        high, low = largest(tops), smallest(bottoms)
        s.unit_top[level, j], s.unit_bottom[level, j] = high, low
        s.ties[level, 0, j] = total(where_equal(tops, full(high), load(s.row_on, i, 0), zero))
        s.ties[level, 1, j] = total(where_equal(bottoms, full(low), load(s.row_off, i, 0), zero))


@kernel
def position_ends(plan, s, blocks):  # type: ignore[no-untyped-def]
    """Extremes of each channel at each place over the images, and of each image at each place over channels."""
    side, reach = plan.side, plan.taps // 2
    pitch = side + 2 * reach
    for level in range(s.z.shape[0]):
        for y in range(side):
            start = ((y + reach) * pitch + reach) * WIDTH
            begin_row(s)
            for b in range(blocks):
                z, real = s.z[level, b], load(s.real, 0, b * WIDTH)
                for c in range(z.shape[0] if plan.units else 0):
                    join_row(s, z, c, start, side, real)
                for x in range(side if plan.points else 0):
                    high, low = across(z, start + x * WIDTH)
                    store(s.point_top[level], y * side + x, b * WIDTH, high)
                    store(s.point_bottom[level], y * side + x, b * WIDTH, low)
            if plan.units:
                end_row(s, level, y, side)


@kernel
def aim_positions(plan, s, level, weight):  # type: ignore[no-untyped-def]
    """Aim every channel at each place at its own extremes."""
    for j in range(s.unit_top.shape[1]):
        high, low = s.unit_top[level, j], s.unit_bottom[level, j]
        aim_at(s.aim[level], j, high, low, s.ties[level, 0, j], s.ties[level, 1, j], plan, weight)


@kernel
def pull_units(aim, z, p, n, area, real, g):  # type: ignore[no-untyped-def]
    """Add to the entries at one place what their units aim at."""
    zero = full(0)
    for c in range(g.shape[0]):
        j = c * area + p
        if aim[2, j] == 0 and aim[3, j] == 0:
            continue
        v = load(z, c, n)
        high = where_equal(v, full(aim[0, j]), mul(full(aim[2, j]), real), zero)
        low = where_equal(v, full(aim[1, j]), mul(full(aim[3, j]), real), zero)
        store(g, c, n, add(load(g, c, n), add(high, low)))


@kernel
def pull_points(plan, z, n, real, weight, g):  # type: ignore[no-untyped-def]
    """Add the pull of the slacks of sixteen images at one place to the entries that are their extremes."""
    top, bottom = across(z, n)
    if not any_set(slack_lanes(top, bottom, plan)):
        return
    one, zero = full(1), full(0)
    on, off = zero, zero
    for c in range(g.shape[0]):
        v = load(z, c, n)
        on, off = add(on, where_equal(v, top, one, zero)), add(off, where_equal(v, bottom, one, zero))
    up, down = forces(plan, top, bottom, on, off, weight)
    up, down = mul(up, real), mul(down, real)
    for c in range(g.shape[0]):
        v = load(z, c, n)
        pulled = add(load(g, c, n), where_equal(v, top, up, zero))
        store(g, c, n, add(pulled, where_equal(v, bottom, down, zero)))


@kernel
def pull_positions(plan, s, level, b, weight, g):  # type: ignore[no-untyped-def]
    """Add the pull of all slacks to the entries of one layer and block, place by place."""
    side, reach, z, real = plan.side, plan.taps // 2, s.z[level, b], load(s.real, 0, b * WIDTH)
    points = plan.points and plan.point_values > 1
    for p in range(side * side):
        n = ((p // side + reach) * (side + 2 * reach) + p % side + reach) * WIDTH
        if plan.units:
            pull_units(s.aim[level], z, p, n, side * side, real, g)
        if points:
            pull_points(plan, z, n, real, weight, g)
