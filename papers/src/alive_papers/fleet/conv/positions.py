"""A penalty by position: a unit is a channel at one place of the map, and each place of an image is a point.

Every entry may be an extreme, so all pre-activations are kept. Maps of a whole batch do not fit in the cache: they are
read row by row, each row through all blocks: once for extremes and who attains them, and once on the way back.
"""

from __future__ import annotations

from ..compiled import kernel
from ..lanes import WIDTH, add, any_set, full, largest, least, load, most, mul, smallest, store, total, where_equal
from ..slacks import ONE, aim_at, forces, slack_lanes


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
def join_row(s, z, c, start, side, first):  # type: ignore[no-untyped-def]
    """Join one row of one channel and block to the extremes of its places over the blocks so far."""
    for x in range(side):
        i, v = c * side + x, load(z, c, start + x * WIDTH)
        store(s.row_top, i, 0, v if first else most(v, load(s.row_top, i, 0)))
        store(s.row_bottom, i, 0, v if first else least(v, load(s.row_bottom, i, 0)))


@kernel
def ties_at(s, level, c, n, high, low, blocks):  # type: ignore[no-untyped-def]
    """How many images have the one value, and the other, in one channel at one place."""
    h, e, zero = full(high), full(low), full(0)
    on, off = zero, zero
    for b in range(blocks):
        v, real = load(s.z[level, b], c, n), load(s.real, 0, b * WIDTH)
        on, off = add(on, where_equal(v, h, real, zero)), add(off, where_equal(v, e, real, zero))
    return total(on), total(off)


@kernel
def end_row(s, level, y, start, side, blocks):  # type: ignore[no-untyped-def]
    """The extremes over all images of the units of one row; where a margin is missed, how many images attain them."""
    for i in range(s.row_top.shape[0]):
        c, x = i // side, i % side
        j = (c * side + y) * side + x
        high, low = largest(load(s.row_top, i, 0)), smallest(load(s.row_bottom, i, 0))
        s.unit_top[level, j], s.unit_bottom[level, j] = high, low
        if high < ONE or low > -ONE:
            s.ties[level, 0, j], s.ties[level, 1, j] = ties_at(s, level, c, start + x * WIDTH, high, low, blocks)


@kernel
def position_ends(plan, s, blocks):  # type: ignore[no-untyped-def]
    """Extremes of each channel at each place over the images, and of each image at each place over channels."""
    side, reach = plan.side, plan.taps // 2
    pitch = side + 2 * reach
    for level in range(s.z.shape[0]):
        for y in range(side):
            start = ((y + reach) * pitch + reach) * WIDTH
            for b in range(blocks):
                z = s.z[level, b]
                for c in range(z.shape[0] if plan.units else 0):
                    join_row(s, z, c, start, side, b == 0)
                for x in range(side if plan.points else 0):
                    high, low = across(z, start + x * WIDTH)
                    store(s.point_top[level], y * side + x, b * WIDTH, high)
                    store(s.point_bottom[level], y * side + x, b * WIDTH, low)
            if plan.units:
                end_row(s, level, y, start, side, blocks)


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
