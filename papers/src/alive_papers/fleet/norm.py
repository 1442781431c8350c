"""Batch norm of rows. A channel is its rows at all positions, and only real points count, not the padding."""

from __future__ import annotations

import numpy as np

from alive.nn.rectangular import NORM_EPS, NORM_MOMENTUM

from .compiled import kernel
from .lanes import WIDTH, fma, full, load, mul, store, sub, total

EPS, MOMENTUM = np.float32(NORM_EPS), np.float32(NORM_MOMENTUM)
ONE = np.float32(1)


@kernel
def scale_shift(u, z, j, mean, factor, shift):  # type: ignore[no-untyped-def]
    """z[j] = (u[j] − mean) factor + shift."""
    m, f, s = full(mean), full(factor), full(shift)
    for n in range(0, u.shape[1], WIDTH):
        store(z, j, n, fma(sub(load(u, j, n), m), f, s))


@kernel
def moments_about(p, q, j, centre):  # type: ignore[no-untyped-def]
    """Σ p (q[j] − centre) and Σ p (q[j] − centre)², where p is a row that is zero in the padding."""
    first, second, c = full(0), full(0), full(centre)
    for n in range(0, q.shape[1], WIDTH):
        away = sub(load(q, j, n), c)
        part = mul(load(p, 0, n), away)
        first = fma(load(p, 0, n), away, first)
        second = fma(part, away, second)
    return total(first), total(second)


@kernel
def normalise(u, z, real, gain, shift, running_mean, running_variance, means, scales, count):  # type: ignore[no-untyped-def]
    """z = gain (u − mean)/sqrt(variance + eps) + shift by the batch; the running statistics follow."""
    width, rows = gain.size, u.shape[0]
    size = np.float32(count) * np.float32(rows // width)
    for c in range(width):
        mean, variance = np.float32(0), np.float32(0)
        for j in range(c, rows, width):
            mean += moments_about(real, u, j, np.float32(0))[0]
        mean /= size
        for j in range(c, rows, width):
            variance += moments_about(real, u, j, mean)[1]
        scale = ONE / np.sqrt(variance / size + EPS)
        for j in range(c, rows, width):
            scale_shift(u, z, j, mean, gain[c] * scale, shift[c])
        means[c], scales[c] = mean, scale
        running_mean[c] += MOMENTUM * (mean - running_mean[c])
        running_variance[c] += MOMENTUM * (variance / (size - ONE) - running_variance[c])


@kernel
def normalise_by_running(u, z, gain, shift, running_mean, running_variance):  # type: ignore[no-untyped-def]
    """z as in evaluation: by the running statistics."""
    width = gain.size
    for j in range(u.shape[0]):
        c = j % width
        scale_shift(u, z, j, running_mean[c], gain[c] / np.sqrt(running_variance[c] + EPS), shift[c])


@kernel
def sums_of_slopes(g, u, j, mean):  # type: ignore[no-untyped-def]
    """Σ g[j] and Σ g[j] (u[j] − mean)."""
    plain, centred, m, one = full(0), full(0), full(mean), full(1)
    for n in range(0, g.shape[1], WIDTH):
        v = load(g, j, n)
        plain = fma(v, one, plain)
        centred = fma(v, sub(load(u, j, n), m), centred)
    return total(plain), total(centred)


@kernel
def normalise_back(g, u, real, gain, means, scales, gain_slope, shift_slope, count):  # type: ignore[no-untyped-def]
    """Turn the gradient of z in g into that of u, and leave those of gain and shift.

    With x̂ = (u − mean) scale: g ← gain scale (g − mean g − x̂ mean(g x̂)).
    """
    width, rows = gain.size, u.shape[0]
    size = np.float32(count) * np.float32(rows // width)
    for c in range(width):
        plain, centred = np.float32(0), np.float32(0)
        for j in range(c, rows, width):
            a, b = sums_of_slopes(g, u, j, means[c])
            plain += a
            centred += b
        gain_slope[c], shift_slope[c] = centred * scales[c], plain
        factor, mean, mean_g = full(gain[c] * scales[c]), full(means[c]), full(plain / size)
        tilt = full(-scales[c] * scales[c] * centred / size)
        for j in range(c, rows, width):
            for n in range(0, g.shape[1], WIDTH):
                pulled = fma(sub(load(u, j, n), mean), tilt, sub(load(g, j, n), mean_g))
                store(g, j, n, mul(mul(factor, load(real, 0, n)), pulled))
