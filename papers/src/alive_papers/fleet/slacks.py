"""Separation slacks of a pass, and their pull on the pre-activations: the twin of `separation.slack`, ties split.

The extremes are known from the forward pass. Who attains one is looked for only where a margin is missed.
"""

from __future__ import annotations

import numpy as np

from .compiled import joined, kernel
from .lanes import (
    WIDTH,
    add,
    any_set,
    div,
    entry,
    fma,
    full,
    largest,
    load,
    most,
    mul,
    store,
    sub,
    total,
    where_equal,
    where_less,
)

UNITS, POINTS, LAYER = 0, 1, 2  # axes, as columns of what each layer's slacks count
ZERO, ONE, TWO = np.float32(0), np.float32(1), np.float32(2)


@kernel
def slack(top, bottom, plan):  # type: ignore[no-untyped-def]
    """Slack s = β relu(1 − top) + (1−β) relu(1 + bottom)."""
    short = ONE - top if top < ONE else ZERO
    over = ONE + bottom if bottom > -ONE else ZERO
    return plan.plus * short + plan.minus * over


@kernel
def slack_lanes(top, bottom, plan):  # type: ignore[no-untyped-def]
    """The same of sixteen points."""
    short = most(sub(full(1), top), full(0))
    over = most(add(full(1), bottom), full(0))
    return fma(full(plan.plus), short, mul(full(plan.minus), over))


@kernel
def ends(top, bottom):  # type: ignore[no-untyped-def]
    """The extremes of a layer from those of its units."""
    high, low = top[0], bottom[0]
    for j in range(top.size):
        high, low = max(high, top[j]), min(low, bottom[j])
    return high, low


@kernel
def cost(s, plan):  # type: ignore[no-untyped-def]
    """What one slack adds to A."""
    return np.float64(s) * np.float64(s) if plan.squared else np.float64(s)


@kernel
def cost_of_points(top, bottom, real, plan):  # type: ignore[no-untyped-def]
    """What the slacks of all points add to A."""
    t = full(0)
    for p in range(top.shape[0]):
        for n in range(0, top.shape[1], WIDTH):
            s = slack_lanes(load(top, p, n), load(bottom, p, n), plan)
            t = fma(s if plan.squared else full(1), mul(s, load(real, 0, n)), t)
    return np.float64(total(t))


@kernel
def penalty(plan, share, s, count):  # type: ignore[no-untyped-def]
    """A of all layers; an axis with a single value cannot be satisfied and is left out."""
    t = 0.0
    for level in range(s.unit_top.shape[0]):
        if plan.units and count * plan.unit_values > 1:
            for j in range(s.unit_top.shape[1]):
                t += share[level, UNITS] * cost(slack(s.unit_top[level, j], s.unit_bottom[level, j], plan), plan)
        if plan.points and plan.point_values > 1:
            t += share[level, POINTS] * cost_of_points(s.point_top[level], s.point_bottom[level], s.real, plan)
        if plan.layer and count * plan.layer_values > 1:
            high, low = ends(s.unit_top[level], s.unit_bottom[level])
            t += share[level, LAYER] * cost(slack(high, low, plan), plan)
    return t


@joined
def slope_of(s, weight, plan):  # type: ignore[no-untyped-def]
    """Slope of weight·A at one slack."""
    return weight * TWO * s if plan.squared else weight


@kernel
def ties_of(z, j, high, low, count):  # type: ignore[no-untyped-def]
    """How many of the first `count` points of row j have the one value, and the other."""
    on, off, h, b, one, zero = full(0), full(0), full(high), full(low), full(1), full(0)
    for n in range(0, z.shape[1], WIDTH):
        v = load(z, j, n)
        on = add(on, where_equal(v, h, one, zero))
        off = add(off, where_equal(v, b, one, zero))
    copies, last = np.float32(z.shape[1] - count), z[j, count - 1]  # the padding repeats the last point
    return total(on) - (copies if last == high else ZERO), total(off) - (copies if last == low else ZERO)


@kernel
def aim_at(aim, j, high, low, on, off, plan, weight):  # type: ignore[no-untyped-def]
    """What row j looks for, and what it adds there: the pull of one slack, shared by all that attain its extremes."""
    slope = slope_of(slack(high, low, plan), weight, plan)
    aim[0, j], aim[1, j] = high, low
    aim[2, j] = -slope * plan.plus / on if high < ONE else ZERO
    aim[3, j] = slope * plan.minus / off if low > -ONE else ZERO


@kernel
def aim_units(aim, z, top, bottom, plan, weight, count):  # type: ignore[no-untyped-def]
    """Aim every unit at its own extremes; False if none misses a margin."""
    missed = False
    for j in range(z.shape[0]):
        on, off = ONE, ONE
        if top[j] < ONE or bottom[j] > -ONE:
            on, off = ties_of(z, j, top[j], bottom[j], count)
            missed = True
        aim_at(aim, j, top[j], bottom[j], on, off, plan, weight)
    return missed


@kernel
def aim_layer(aim, z, extremes, plan, weight, count):  # type: ignore[no-untyped-def]
    """Aim every unit at the layer's extremes; False if both margins are kept."""
    high, low = extremes
    if high >= ONE and low <= -ONE:
        return False
    on, off = ZERO, ZERO
    for j in range(z.shape[0]):
        a, b = ties_of(z, j, high, low, count)
        on += a
        off += b
    for j in range(z.shape[0]):
        aim_at(aim, j, high, low, on, off, plan, weight)
    return True


@kernel
def pull_rows(g, z, aim):  # type: ignore[no-untyped-def]
    """Add to each row what it aims at."""
    zero = full(0)
    for j in range(g.shape[0]):
        high, low, up, down = entry(aim, 0, j), entry(aim, 1, j), entry(aim, 2, j), entry(aim, 3, j)
        for n in range(0, g.shape[1], WIDTH):
            v = load(z, j, n)
            pulled = add(load(g, j, n), where_equal(v, high, up, zero))
            store(g, j, n, add(pulled, where_equal(v, low, down, zero)))


@kernel
def forces(plan, top, bottom, on, off, weight):  # type: ignore[no-untyped-def]
    """What the slacks of sixteen points add at each of their extremes, which so many entries attain."""
    one, zero = full(1), full(0)
    s = slack_lanes(top, bottom, plan)
    slope = add(s, s) if plan.squared else one
    up, down = mul(full(-plan.plus * weight), slope), mul(full(plan.minus * weight), slope)
    if any_set(sub(on, one)) or any_set(sub(off, one)):  # ties are rare, and divisions slow
        up, down = div(up, on), div(down, off)
    return where_less(top, one, up, zero), where_less(full(-1), bottom, down, zero)


@kernel
def pull_points(g, z, top, bottom, plan, weight):  # type: ignore[no-untyped-def]
    """Add the pull of each point's slack to the units that are its extremes, position by position."""
    width, zero, one = z.shape[0] // top.shape[0], full(0), full(1)
    for p in range(top.shape[0]):
        for n in range(0, z.shape[1], WIDTH):
            t, b = load(top, p, n), load(bottom, p, n)
            if not largest(slack_lanes(t, b, plan)) > ZERO:
                continue
            on, off = zero, zero
            for j in range(p * width, (p + 1) * width):
                v = load(z, j, n)
                on = add(on, where_equal(v, t, one, zero))
                off = add(off, where_equal(v, b, one, zero))
            up, down = forces(plan, t, b, on, off, weight)
            for j in range(p * width, (p + 1) * width):
                v = load(z, j, n)
                pulled = add(load(g, j, n), where_equal(v, t, up, zero))
                store(g, j, n, add(pulled, where_equal(v, b, down, zero)))


@kernel
def clear_padding(g, real, count):  # type: ignore[no-untyped-def]
    """Nothing flows back from the padding."""
    for j in range(g.shape[0]):
        for n in range(count // WIDTH * WIDTH, g.shape[1], WIDTH):
            store(g, j, n, mul(load(g, j, n), load(real, 0, n)))


@joined
def pull(g, s, level, plan, share, weight, count):  # type: ignore[no-untyped-def]
    """Add the gradient of weight·A in the pre-activations of one layer, whose slacks count by their share [3]."""
    by_unit, by_point, by_layer = (
        np.float32(weight * share[UNITS]),
        np.float32(weight * share[POINTS]),
        np.float32(weight * share[LAYER]),
    )
    z = s.z[level]
    top, bottom = s.unit_top[level], s.unit_bottom[level]
    if plan.units and count * plan.unit_values > 1 and aim_units(s.aim, z, top, bottom, plan, by_unit, count):
        pull_rows(g, z, s.aim)
    several = count * plan.layer_values > 1
    if plan.layer and several and aim_layer(s.aim, z, ends(top, bottom), plan, by_layer, count):
        pull_rows(g, z, s.aim)
    if plan.points and plan.point_values > 1:
        pull_points(g, z, s.point_top[level], s.point_bottom[level], plan, by_point)
    clear_padding(g, s.real, count)
