"""From the gradient of the logits to that of every connection, the pull of the penalty joining on the way."""

from __future__ import annotations

import numpy as np

from .algebra import affine_back, combine_back, dot
from .chance import drop, key_of
from .compiled import kernel
from .lanes import WIDTH, add, full, load, mul, store
from .norm import normalise_back
from .slacks import pull


@kernel
def skip_back(g, below, alpha, alpha_slope, skipped):  # type: ignore[no-untyped-def]
    """What flows down a skip, and the gradient of its gate."""
    for j in range(g.shape[0]):
        alpha_slope[j] = -dot(g, j, below, j)
        open_part = full(np.float32(1) - alpha[j])
        for n in range(0, g.shape[1], WIDTH):
            store(skipped, j, n, mul(open_part, load(g, j, n)))


@kernel
def add_rows(g, more):  # type: ignore[no-untyped-def]
    """g += more."""
    for j in range(g.shape[0]):
        for n in range(0, g.shape[1], WIDTH):
            store(g, j, n, add(load(g, j, n), load(more, j, n)))


@kernel
def backward(plan, net, s, count, weight, step, rate):  # type: ignore[no-untyped-def]
    """Fill net.g from s.logits, which holds the gradient of the logits by now."""
    w, slopes, g, below = net.w, net.g, s.g, s.g_below
    depth = s.u.shape[0]
    affine_back(s.logits, s.h[depth - 1], slopes.out, slopes.out_bias)
    combine_back(w.out, s.logits, s.z[depth - 1], g)
    for level in range(depth - 1, -1, -1):
        if rate > 0 and level + 1 < depth:
            drop(g, key_of(plan.seed, step, level + 1), rate, count)
        if weight > 0:
            pull(g, s, level, plan, net.prices.share[level], weight, count)
        if plan.norm:
            gain, shift = slopes.gain[level], slopes.shift[level]
            normalise_back(g, s.u[level], s.real, w.gain[level], s.mean[level], s.scale[level], gain, shift, count)
        if plan.skip and level + 1 < depth:
            add_rows(g, s.skipped)
        if plan.skip and level:
            skip_back(g, s.u[level - 1], net.gates.alpha[level], net.gates.gradient[level], s.skipped)
        affine_back(
            g, s.h[level - 1] if level else s.x, slopes.inner[level - 1] if level else slopes.first, slopes.bias[level]
        )
        if level:
            combine_back(w.inner[level - 1], g, s.z[level - 1], below)
            g, below = below, g
