"""How many points a network names right, and who is alive in it: over all points, batch by batch."""

from __future__ import annotations

import numpy as np

from .compiled import kernel
from .forward import forward, load_points
from .lanes import WIDTH, full, load, most, mul, total, where_less
from .task import right

ZERO = np.float32(0)
YES, NO = np.bool_(True), np.bool_(False)  # a bare True is a type of its own, and would compile the pass twice


@kernel
def training_pass(plan, net, s, count, step, rate):  # type: ignore[no-untyped-def]
    """One pass over the batch in s.x, as training makes it."""
    forward(plan, net, s, count, YES, NO, step, rate)


@kernel
def widen(net, s, first):  # type: ignore[no-untyped-def]
    """Join the extremes of one batch to those of the units over all points, a unit being its rows at all positions."""
    width = net.top.shape[1]
    for level in range(net.top.shape[0]):
        for j in range(s.unit_top.shape[1]):
            c = j % width
            if first and j < width:
                net.top[level, c], net.bottom[level, c] = s.unit_top[level, j], s.unit_bottom[level, j]
            net.top[level, c] = max(net.top[level, c], s.unit_top[level, j])
            net.bottom[level, c] = min(net.bottom[level, c], s.unit_bottom[level, j])


@kernel
def dead_points(s):  # type: ignore[no-untyped-def]
    """How many points of the batch no unit of some hidden layer answers to."""
    zero, one, dead = full(0), full(1), ZERO
    for n in range(0, s.real.shape[1], WIDTH):
        found = zero
        for level in range(s.point_top.shape[0]):
            top = load(s.point_top[level], 0, n)
            for p in range(1, s.point_top.shape[1]):
                top = most(top, load(s.point_top[level], p, n))
            found = where_less(zero, top, found, one)
        dead += total(mul(found, load(s.real, 0, n)))
    return dead


@kernel
def evaluate_rows(plan, net, s, x, y, everyone, measure, signal):  # type: ignore[no-untyped-def]
    """Points classified correctly (-1: some logit is not finite) and dead points, batch by batch until a stop."""
    hits, dead, size = 0, ZERO, min(s.x.shape[1], plan.batch)
    for begun in range(0, y.size, size):
        if signal[0]:
            break
        chosen = everyone[begun : min(begun + size, y.size)]
        load_points(plan, x, chosen, s)
        forward(plan, net, s, chosen.size, NO, measure, np.int64(0), ZERO)
        found = right(s.logits, y, chosen)
        if found < 0:
            return -1, ZERO
        hits += found
        if measure:
            widen(net, s, begun == 0)
            dead += dead_points(s)
    return hits, dead
