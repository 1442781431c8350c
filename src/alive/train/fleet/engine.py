"""Train one member from start to end: epochs of steps, and a row of measurements where one is asked for."""

from __future__ import annotations

import math

import numpy as np

from .backward import backward
from .compiled import entry_point, joined, kernel
from .forward import forward, load_points
from .lanes import WIDTH, full, load, most, mul, total, where_less
from .plan import BAD_BOTH, BAD_LOGITS, BAD_LOSS, BAD_PENALTY, DONE, INTERRUPTED
from .prices import level_prices, move_multipliers
from .slacks import penalty
from .task import right, task_loss
from .update import update

EPOCH, STEP, FRESH, ROWS = 0, 1, 2, 3  # where a member stands
COLUMNS = ("epoch", "loss", "penalty", "train_right", "test_right", "dead_units", "linear_units", "dead_points")
ZERO = np.float32(0)
YES, NO = np.bool_(True), np.bool_(False)  # a bare True is a type of its own, and would compile the pass twice


@joined
def at(values, i):  # type: ignore[no-untyped-def]
    """The value at i; the last one holds from there on."""
    return values[min(i, values.size - 1)]


@joined
def step(plan, net, s, points, y, course, state, chosen):  # type: ignore[no-untyped-def]
    """One step on the chosen points: (loss, penalty), not taken if one of them is not finite."""
    rate = np.float32(at(course.rate, state[EPOCH]))
    if not (plan.still and state[FRESH]):
        load_points(points, chosen, s)
        forward(plan, net, s, chosen.size, YES, NO, state[STEP], rate)
    weight = at(course.weight, state[STEP])
    loss = task_loss(s.logits, y, chosen)
    if not plan.task:
        s.logits[:] = ZERO
    if plan.mean:
        level_prices(plan, net.prices, s, chosen.size)
    price = weight * penalty(plan, net.prices.share, s, chosen.size) if weight > 0 else 0.0
    state[FRESH] = 0
    if math.isfinite(loss) and math.isfinite(price):
        backward(plan, net, s, chosen.size, weight, state[STEP], rate)
        if plan.auto:
            move_multipliers(plan, net.prices, s, chosen.size)
        update(plan, net, at(course.lr, state[EPOCH]), state[STEP] + 1)
        state[STEP] += 1
    return loss, price


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
def evaluate(plan, net, s, x, y, everyone, measure):  # type: ignore[no-untyped-def]
    """Points classified correctly (-1: some logit is not finite) and dead points, batch by batch."""
    hits, dead, size = 0, ZERO, min(s.x.shape[1], plan.batch)
    for begun in range(0, y.size, size):
        chosen = everyone[begun : min(begun + size, y.size)]
        load_points(x, chosen, s)
        forward(plan, net, s, chosen.size, NO, measure, np.int64(0), ZERO)
        found = right(s.logits, y, chosen)
        if found < 0:
            return -1, ZERO
        hits += found
        if measure:
            widen(net, s, begun == 0)
            dead += dead_points(s)
    return hits, dead


@joined
def write_row(plan, net, room, points, row):  # type: ignore[no-untyped-def]
    """Measure the network as it now is; False if a logit is not finite. Training points last: their traces serve on."""
    for part in range(2):
        s = room.train if part else room.test
        x, y = (points.x, points.y) if part else (points.test_x, points.test_y)
        hits, dead = evaluate(plan, net, s, x, y, points.everyone, part == 1)
        if hits < 0:
            return False
        row[4 - part], row[7] = hits, dead
    off, on = 0, 0
    for level in range(net.top.shape[0]):
        for c in range(net.top.shape[1]):
            off += net.top[level, c] <= ZERO
            on += net.bottom[level, c] > ZERO
    row[5], row[6] = off, on
    return True


@joined
def fault_of(loss, price):  # type: ignore[no-untyped-def]
    """Which of the two is not finite."""
    if not math.isfinite(loss):
        return BAD_LOSS if math.isfinite(price) else BAD_BOTH
    return DONE if math.isfinite(price) else BAD_PENALTY


@entry_point
def run(plan, net, room, points, course, order, state, log, until, signal):  # type: ignore[no-untyped-def]
    """Go on to the epoch `until`; what ended it. signal = [stop asked for, epochs done by this worker]."""
    begun = state[EPOCH]
    while state[EPOCH] < until:
        loss, price = 0.0, 0.0
        now = order[min(state[EPOCH] - begun, order.shape[0] - 1)]
        for first in range(0, now.size, plan.batch):
            if signal[0]:
                return INTERRUPTED
            chosen = now[first : first + plan.batch]
            a, b = step(plan, net, room.train, points.x, points.y, course, state, chosen)
            fault = fault_of(a, b)
            if fault:
                return fault
            loss += a * chosen.size / now.size
            price += b * chosen.size / now.size
        epoch = state[EPOCH]
        if (epoch + 1) % plan.record_every == 0 or epoch + 1 == plan.epochs:
            row = log[state[ROWS]]
            row[0], row[1], row[2] = epoch, loss, price
            if not write_row(plan, net, room, points, row):
                return BAD_LOGITS
            state[ROWS] += 1
            state[FRESH] = 1
        state[EPOCH] += 1
        signal[1] += 1
    return DONE
