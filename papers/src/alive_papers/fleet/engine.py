"""Train one member from start to end: epochs of steps, and a row of measurements where one is asked for."""

from __future__ import annotations

import math

import numpy as np

from .compiled import entry_point, joined
from .layouts import evaluate, lay_out, pass_back, pass_forward
from .plan import BAD_BOTH, BAD_LOGITS, BAD_LOSS, BAD_PENALTY, DONE, INTERRUPTED
from .prices import level_prices, move_multipliers
from .slacks import penalty
from .task import right, task_loss
from .update import update

EPOCH, STEP, FRESH, ROWS, RIGHT = 0, 1, 2, 3, 4  # where a member stands; points named right in this epoch's steps
HEALTH_POINTS = 1000  # looked at for health where the steps themselves tell the training accuracy
COLUMNS = (
    *("epoch", "loss", "penalty", "train_right", "test_right", "dead_units", "linear_units", "dead_points"),
    "after_right",  # of the training points looked at, by the network after the epoch, in evaluation
)
ZERO = np.float32(0)


@joined
def at(values, i):  # type: ignore[no-untyped-def]
    """The value at i; the last one holds from there on."""
    return values[min(i, values.size - 1)]


@joined
def step(plan, net, s, points, y, course, state, chosen, moves):  # type: ignore[no-untyped-def]
    """One step on the chosen points, moved as told: (loss, penalty), not taken if one of them is not finite."""
    rate = np.float32(at(course.rate, state[EPOCH]))
    if not (plan.still and state[FRESH]):
        lay_out(plan, points, chosen, moves, s)
        pass_forward(plan, net, s, chosen.size, state[STEP], rate)
    weight = at(course.weight, state[STEP])
    if plan.running:
        state[RIGHT] += right(s.logits, y, chosen)
    loss = task_loss(s.logits, y, chosen)
    if not plan.task:
        s.logits[:] = ZERO
    if plan.mean:
        level_prices(plan, net.prices, s, chosen.size)
    price = weight * penalty(plan, net.prices.share, s, chosen.size) if weight > 0 else 0.0
    state[FRESH] = 0
    if math.isfinite(loss) and math.isfinite(price):
        pass_back(plan, net, s, chosen.size, weight, state[STEP], rate)
        if plan.auto:
            move_multipliers(plan, net.prices, s, chosen.size)
        update(plan, net, at(course.lr, state[EPOCH]), at(course.output_lr, state[EPOCH]), state[STEP] + 1)
        state[STEP] += 1
    return loss, price


@joined
def write_row(plan, net, room, points, seen, signal, row):  # type: ignore[no-untyped-def]
    """Measure the network as it now is; what was amiss, if anything. Training points last: their traces serve on.

    `seen` is how many points the steps named right, where that is the training accuracy.
    """
    for part in range(2):
        s = room.train if part else room.test
        x, y = (points.x, points.y) if part else (points.test_x, points.test_y)
        if part and plan.running:
            y = y[:HEALTH_POINTS]
        hits, dead = evaluate(plan, net, s, x, y, points.everyone, part == 1, signal)
        if signal[0]:
            return INTERRUPTED
        if hits < 0:
            return BAD_LOGITS
        row[4 - part], row[7] = hits, dead
    row[8] = row[3]
    if plan.running:
        row[3] = seen
    off, on = 0, 0
    for level in range(net.top.shape[0]):
        for c in range(net.top.shape[1]):
            off += net.top[level, c] <= ZERO
            on += net.bottom[level, c] > ZERO
    row[5], row[6] = off, on
    return DONE


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
        state[RIGHT] = 0
        now = order.points[min(state[EPOCH] - begun, order.points.shape[0] - 1)]
        moves = order.moves[min(state[EPOCH] - begun, order.moves.shape[0] - 1)]
        for first in range(0, now.size, plan.batch):
            if signal[0]:
                return INTERRUPTED
            chosen = now[first : first + plan.batch]
            moved = moves[first : first + plan.batch]
            a, b = step(plan, net, room.train, points.x, points.y, course, state, chosen, moved)
            fault = fault_of(a, b)
            if fault:
                return fault
            loss += a * chosen.size / now.size
            price += b * chosen.size / now.size
        epoch = state[EPOCH]
        if (epoch + 1) % plan.record_every == 0 or epoch + 1 == plan.epochs:
            row = log[state[ROWS]]
            row[0], row[1], row[2] = epoch, loss, price
            fault = write_row(plan, net, room, points, state[RIGHT], signal, row)
            if fault:
                return fault
            state[ROWS] += 1
            state[FRESH] = 1
        state[EPOCH] += 1
        signal[1] += 1
    return DONE
