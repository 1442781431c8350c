"""What the slacks of each layer and axis count where they count as means, and the multipliers of the weight "auto"."""

from __future__ import annotations

import math

import numpy as np

from .compiled import kernel
from .lanes import WIDTH, fma, full, load, total
from .slacks import LAYER, POINTS, UNITS, ends, slack, slack_lanes


@kernel
def terms(plan, s, count, axis):  # type: ignore[no-untyped-def]
    """How many slacks a layer has on an axis, 0 if it is not asked for or cannot be satisfied."""
    if axis == UNITS:
        return s.unit_top.shape[1] if plan.units and count * plan.unit_values > 1 else 0
    if axis == POINTS:
        return s.point_top.shape[1] * count if plan.points and plan.point_values > 1 else 0
    return 1 if plan.layer and count * plan.layer_values > 1 else 0


@kernel
def level_prices(plan, prices, s, count):  # type: ignore[no-untyped-def]
    """Let every layer and axis count as the mean of its slacks times its multiplier, and A be the mean over layers."""
    layers = prices.share.shape[0]
    for axis in range(3):
        n = terms(plan, s, count, axis)
        for level in range(layers):
            prices.share[level, axis] = prices.multiplier[level, axis] / (layers * n) if n else 0.0


@kernel
def mean_slack(plan, s, level, axis, n):  # type: ignore[no-untyped-def]
    """The mean of the n slacks of one layer on one axis."""
    t = 0.0
    if axis == UNITS:
        for j in range(s.unit_top.shape[1]):
            t += np.float64(slack(s.unit_top[level, j], s.unit_bottom[level, j], plan))
    elif axis == POINTS:
        top, bottom, several = s.point_top[level], s.point_bottom[level], full(0)
        for p in range(top.shape[0]):
            for k in range(0, top.shape[1], WIDTH):
                several = fma(slack_lanes(load(top, p, k), load(bottom, p, k), plan), load(s.real, 0, k), several)
        t = np.float64(total(several))
    else:
        high, low = ends(s.unit_top[level], s.unit_bottom[level])
        t = np.float64(slack(high, low, plan))
    return t / n


@kernel
def move_multipliers(plan, prices, s, count):  # type: ignore[no-untyped-def]
    """One step of νPI for every layer and axis, by the slacks of the batch just seen."""
    rule = plan.rule
    for axis in range(LAYER + 1):
        n = terms(plan, s, count, axis)
        if not n:
            continue
        for level in range(prices.share.shape[0]):
            e, smooth = mean_slack(plan, s, level, axis, n), prices.smooth[level, axis]
            if math.isnan(smooth):
                smooth = e
            step = rule.ki * (e - rule.tol) + rule.kp * (1 - rule.nu) * (e - smooth)
            prices.multiplier[level, axis] = min(max(prices.multiplier[level, axis] + step, 0.0), rule.top)
            prices.smooth[level, axis] = rule.nu * smooth + (1 - rule.nu) * e
