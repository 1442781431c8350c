"""The task: cross-entropy of one logit or several, its gradient, and how many points are right."""

from __future__ import annotations

import math

import numpy as np

from .compiled import kernel

ZERO, ONE = np.float32(0), np.float32(1)
PRODUCT = 512  # factors of at most 2 whose product a double holds: one logarithm serves them all


@kernel
def binary(row, y, points):  # type: ignore[no-untyped-def]
    """Mean binary cross-entropy of one logit; its gradient replaces the row, zero in the padding."""
    count = points.size
    linear, product, logs = 0.0, 1.0, 0.0
    share = ONE / np.float32(count)
    for n in range(count):
        x, label = row[n], np.float32(y[points[n]])
        e = np.float32(math.exp(-abs(x)))
        linear += np.float64((x if x > ZERO else ZERO) - x * label)  # log1p(e) is added below
        product *= 1.0 + np.float64(e)
        if (n + 1) % PRODUCT == 0:
            logs += math.log(product)
            product = 1.0
        p = ONE / (ONE + e)
        row[n] = ((p if x >= ZERO else e * p) - label) * share
        if x != x:
            linear += np.float64(x)
    for n in range(count, row.size):
        row[n] = ZERO
    return (linear + logs + math.log(product)) / count


@kernel
def several(logits, y, points):  # type: ignore[no-untyped-def]
    """Mean cross-entropy of the classes; its gradient replaces the logits, zero in the padding."""
    count, classes = points.size, logits.shape[0]
    loss = 0.0
    share = ONE / np.float32(count)
    for n in range(count):
        top = logits[0, n]
        for c in range(1, classes):
            top = max(top, logits[c, n])
        t = ZERO
        right = logits[y[points[n]], n] - top
        for c in range(classes):
            e = np.float32(math.exp(logits[c, n] - top))
            logits[c, n] = e
            t += e
        loss += np.float64(np.float32(math.log(t)) - right)
        for c in range(classes):
            logits[c, n] *= share / t
        logits[y[points[n]], n] -= share
    for c in range(classes):
        for n in range(count, logits.shape[1]):
            logits[c, n] = ZERO
    return loss / count


@kernel
def task_loss(logits, y, points):  # type: ignore[no-untyped-def]
    """The loss; the logits become its gradient."""
    if logits.shape[0] == 1:
        return binary(logits[0], y, points)
    return several(logits, y, points)


@kernel
def right(logits, y, points):  # type: ignore[no-untyped-def]
    """How many points the logits classify correctly; -1 if any logit is not finite."""
    hits = 0
    for n in range(points.size):
        named = 0
        for c in range(logits.shape[0]):
            if not np.isfinite(logits[c, n]):
                return -1
            if logits[c, n] > logits[named, n]:
                named = c
        if logits.shape[0] == 1:
            named = 1 if logits[0, n] > ZERO else 0
        hits += named == y[points[n]]
    return hits
