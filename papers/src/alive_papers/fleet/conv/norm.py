"""Batch norm of maps: a channel is all its positions in all real images of the batch."""

from __future__ import annotations

import numpy as np

from ..compiled import kernel
from ..lanes import WIDTH, fma, full, load, mul, store, sub, total
from ..norm import EPS, MOMENTUM, ONE


@kernel
def sum_about(plan, u, c, real, n, centre):  # type: ignore[no-untyped-def]
    """Σ (u − centre) and Σ (u − centre)² of one channel of one block, over real images."""
    reach = plan.taps // 2
    pitch, lanes, middle = plan.side + 2 * reach, load(real, 0, n), full(centre)
    first, second = full(0), full(0)
    for y in range(plan.side):
        start = ((y + reach) * pitch + reach) * WIDTH
        for m in range(start, start + plan.side * WIDTH, WIDTH):
            away = sub(load(u, c, m), middle)
            part = mul(lanes, away)
            first = fma(lanes, away, first)
            second = fma(part, away, second)
    return np.float64(total(first)), np.float64(total(second))


@kernel
def normalise(plan, net, s, level, blocks, count):  # type: ignore[no-untyped-def]
    """Leave in s.centre, s.factor and s.offset what makes z of u by the batch; the running statistics follow."""
    size = np.float64(count) * np.float64(plan.side * plan.side)
    for c in range(s.u.shape[2]):
        mean, variance = 0.0, 0.0
        for b in range(blocks):
            mean += sum_about(plan, s.u[level, b], c, s.real, b * WIDTH, np.float32(0))[0]
        middle = np.float32(mean / size)
        for b in range(blocks):
            variance += sum_about(plan, s.u[level, b], c, s.real, b * WIDTH, middle)[1]
        scale = ONE / np.sqrt(np.float32(variance / size) + EPS)
        s.mean[level, c], s.scale[level, c] = middle, scale
        s.centre[0, c], s.factor[0, c], s.offset[0, c] = middle, net.w.gain[level, c] * scale, net.w.shift[level, c]
        running = net.norm
        running.mean[level, c] += MOMENTUM * (middle - running.mean[level, c])
        spread = np.float32(variance / (size - 1.0))
        running.variance[level, c] += MOMENTUM * (spread - running.variance[level, c])


@kernel
def slope_sums(plan, g, u, c, mean):  # type: ignore[no-untyped-def]
    """Σ g and Σ g (u − mean) of one channel of one block."""
    reach = plan.taps // 2
    pitch, middle, one = plan.side + 2 * reach, full(mean), full(1)
    plain, centred = full(0), full(0)
    for y in range(plan.side):
        start = ((y + reach) * pitch + reach) * WIDTH
        for m in range(start, start + plan.side * WIDTH, WIDTH):
            v = load(g, c, m)
            plain = fma(v, one, plain)
            centred = fma(v, sub(load(u, c, m), middle), centred)
    return np.float64(total(plain)), np.float64(total(centred))


@kernel
def normalise_back(plan, net, s, g, level, blocks, count):  # type: ignore[no-untyped-def]
    """Turn the gradient of z in g into that of u, and leave those of gain and shift; see ..norm."""
    size, reach = np.float64(count) * np.float64(plan.side * plan.side), plan.taps // 2
    pitch = plan.side + 2 * reach
    for c in range(s.u.shape[2]):
        plain, centred, scale = 0.0, 0.0, s.scale[level, c]
        for b in range(blocks):
            first, second = slope_sums(plan, g[b], s.u[level, b], c, s.mean[level, c])
            plain += first
            centred += second
        net.g.gain[level, c], net.g.shift[level, c] = np.float32(centred) * scale, np.float32(plain)
        factor, mean = full(net.w.gain[level, c] * scale), full(s.mean[level, c])
        mean_g, tilt = full(np.float32(plain / size)), full(np.float32(-scale * scale * (centred / size)))
        for b in range(blocks):
            lanes, u, slopes = mul(factor, load(s.real, 0, b * WIDTH)), s.u[level, b], g[b]
            for y in range(plan.side):
                start = ((y + reach) * pitch + reach) * WIDTH
                for m in range(start, start + plan.side * WIDTH, WIDTH):
                    pulled = fma(sub(load(u, c, m), mean), tilt, sub(load(slopes, c, m), mean_g))
                    store(slopes, c, m, mul(lanes, pulled))
