"""From points to logits, with the extremes of every unit and point on the way."""

from __future__ import annotations

import numpy as np

from .algebra import affine
from .chance import drop, key_of
from .compiled import kernel
from .lanes import WIDTH, fma, full, largest, least, load, most, smallest, store, where_less
from .norm import normalise, normalise_by_running


@kernel
def load_points(plan, x, points, s):  # type: ignore[no-untyped-def]
    """Lay the chosen points into s.x, the last one over the padding too: an extreme does not see a copy."""
    for i in range(x.shape[0]):
        for n in range(s.x.shape[1]):
            s.x[i, n] = x[i, points[min(n, points.size - 1)]]
    for n in range(s.x.shape[1]):
        s.real[0, n] = np.float32(n < points.size)


@kernel
def load_rows(plan, x, points, moves, s):  # type: ignore[no-untyped-def]
    """The same in training; `moves` are for images, which rows are not."""
    load_points(plan, x, points, s)


@kernel
def relu(z, h):  # type: ignore[no-untyped-def]
    """h = max(z, 0); NaN stays NaN, so that the loss will see it."""
    zero = full(0)
    for j in range(z.shape[0]):
        for n in range(0, z.shape[1], WIDTH):
            v = load(z, j, n)
            store(h, j, n, where_less(v, zero, zero, v))


@kernel
def relu_and_point_ends(z, h, top, bottom):  # type: ignore[no-untyped-def]
    """The same, with the extremes of each point over the units of its position."""
    zero, width = full(0), z.shape[0] // top.shape[0]
    for p in range(top.shape[0]):
        for n in range(0, z.shape[1], WIDTH):
            t = load(z, p * width, n)
            b = t
            for j in range(p * width, (p + 1) * width):
                v = load(z, j, n)
                store(h, j, n, where_less(v, zero, zero, v))
                t = most(v, t)
                b = least(v, b)
            store(top, p, n, t)
            store(bottom, p, n, b)


@kernel
def unit_ends(z, top, bottom):  # type: ignore[no-untyped-def]
    """The extremes of each unit over all points."""
    for j in range(z.shape[0]):
        t = load(z, j, 0)
        b = t
        for n in range(WIDTH, z.shape[1], WIDTH):
            v = load(z, j, n)
            t = most(v, t)
            b = least(v, b)
        top[j], bottom[j] = largest(t), smallest(b)


@kernel
def add_skip(alpha, below, u):  # type: ignore[no-untyped-def]
    """u += (1 − α) u of the layer below."""
    for j in range(u.shape[0]):
        open_part = full(np.float32(1) - alpha[j])
        for n in range(0, u.shape[1], WIDTH):
            store(u, j, n, fma(open_part, load(below, j, n), load(u, j, n)))


@kernel
def forward(plan, net, s, count, training, measure, step, rate):  # type: ignore[no-untyped-def]
    """One pass over the batch in s.x; in training, batch norm and dropout do what they do then."""
    w, depth = net.w, s.u.shape[0]
    mean, variance = net.norm.mean, net.norm.variance
    dropping = training and rate > 0
    measure = measure or plan.units or plan.points or plan.layer
    for level in range(depth):
        u, z, h = s.u[level], s.z[level], s.h[level]
        below = s.h[level - 1] if level else s.x
        if dropping:
            drop(below, key_of(plan.seed, step, level), rate, count)
        affine(w.inner[level - 1] if level else w.first, w.bias[level], below, u)
        if plan.skip and level:
            add_skip(net.gates.alpha[level], s.u[level - 1], u)
        if plan.norm and training:
            normalise(
                u,
                z,
                s.real,
                w.gain[level],
                w.shift[level],
                mean[level],
                variance[level],
                s.mean[level],
                s.scale[level],
                count,
            )
        elif plan.norm:
            normalise_by_running(u, z, w.gain[level], w.shift[level], mean[level], variance[level])
        if measure:
            relu_and_point_ends(z, h, s.point_top[level], s.point_bottom[level])
            unit_ends(z, s.unit_top[level], s.unit_bottom[level])
        else:
            relu(z, h)
    affine(w.out, w.out_bias, s.h[depth - 1], s.logits)
