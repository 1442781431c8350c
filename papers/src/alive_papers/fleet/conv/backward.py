"""From the gradient of the logits to that of every weight, block by block, the penalty's pull joining on the way."""

from __future__ import annotations

import numpy as np

from ..compiled import kernel
from ..lanes import WIDTH, add, any_set, fma, full, load, mul, store, total, where_less
from .head import head_back, head_slopes
from .norm import normalise_back
from .products import add_slopes, convolve_back, turn
from .slacks import aim, pull

ZERO, ONE = np.float32(0), np.float32(1)


@kernel
def add_bias(g, slope):  # type: ignore[no-untyped-def]
    """slope[0, c] += Σ g[c]; borders are zero."""
    for c in range(g.shape[0]):
        a, b = full(0), full(0)
        for n in range(0, g.shape[1] - WIDTH, 2 * WIDTH):
            a, b = add(a, load(g, c, n)), add(b, load(g, c, n + WIDTH))
        if g.shape[1] // WIDTH % 2:
            a = add(a, load(g, c, g.shape[1] - WIDTH))
        slope[0, c] += total(add(a, b))


@kernel
def add_map(g, more):  # type: ignore[no-untyped-def]
    """g += more."""
    for c in range(g.shape[0]):
        for n in range(0, g.shape[1], WIDTH):
            store(g, c, n, add(load(g, c, n), load(more, c, n)))


@kernel
def rectify(plan, z, h):  # type: ignore[no-untyped-def]
    """h = the ReLU of z, whose borders stay zero."""
    zero, reach = full(0), plan.taps // 2
    pitch = plan.side + 2 * reach
    for c in range(z.shape[0]):
        for y in range(plan.side):
            start = ((y + reach) * pitch + reach) * WIDTH
            for n in range(start, start + plan.side * WIDTH, WIDTH):
                v = load(z, c, n)
                store(h, c, n, where_less(v, zero, zero, v))


@kernel
def skip_back(g, below, alpha, slope, skipped):  # type: ignore[no-untyped-def]
    """What flows down a skip, and the gradient of its gate."""
    for c in range(g.shape[0]):
        open_part, a = full(ONE - alpha[c]), full(0)
        for n in range(0, g.shape[1], WIDTH):
            v = load(g, c, n)
            a = fma(v, load(below, c, n), a)
            store(skipped, c, n, mul(open_part, v))
        slope[c] -= total(a)


@kernel
def silent(g):  # type: ignore[no-untyped-def]
    """Whether all entries are zero; where a signal flows it is found at once."""
    for c in range(g.shape[0]):
        for n in range(0, g.shape[1], WIDTH):
            if any_set(load(g, c, n)):
                return False
    return True


@kernel
def layer_back(plan, net, s, level, b, g, below, skipped):  # type: ignore[no-untyped-def]
    """From the gradient g of a block's pre-activations, or of its sums with batch norm, to that of the layer below."""
    if plan.skip and level + 1 < s.lane_top.shape[0]:
        add_map(g, skipped)
    if plan.skip and level:
        skip_back(g, s.u[level - 1, b], net.gates.alpha[level], net.gates.gradient[level], skipped)
    read = s.x[b] if level == 0 else s.h[0, 0] if plan.keep else s.h[level - 1, b]
    if plan.keep and level:
        rectify(plan, s.z[level - 1, b], read)
    add_slopes(g, read, plan.side, plan.taps, net.g.inner[level - 1] if level else net.g.first)
    add_bias(g, net.g.bias[level])
    if level:
        turn(net.w.inner[level - 1], plan.taps, s.turned)
        convolve_back(s.turned, s.none, g, plan.side, plan.taps, read, below)


@kernel
def map_backward(plan, net, s, count, weight, step, rate):  # type: ignore[no-untyped-def]
    """Fill net.g from s.logits, which holds the gradient of the logits by now."""
    blocks, depth = (count + WIDTH - 1) // WIDTH, s.lane_top.shape[0]
    at_once = blocks if plan.norm else 1
    alone = not (plan.norm or plan.skip or weight > 0)  # all that reaches a layer comes through the one above
    net.flat_slope[:] = ZERO
    net.gates.gradient[:] = ZERO
    if weight > 0:
        aim(plan, net.prices.share, s, weight, blocks, count)
    head_slopes(plan, net.w, net.g, s, blocks)
    for first in range(0, blocks, at_once):
        g, below = s.g, s.g_below
        for i in range(at_once):
            head_back(plan, net.w, s, first + i, g[i])
        for level in range(depth - 1, -1, -1):
            if weight > 0:
                for i in range(at_once):
                    pull(plan, s, level, first + i, g[i], np.float32(weight * net.prices.share[level, 1]))
            if plan.norm:
                normalise_back(plan, net, s, g, level, blocks, count)
            for i in range(at_once):
                skipped = s.skipped[i] if plan.skip else g[i]
                layer_back(plan, net, s, level, first + i, g[i], below[i], skipped)
            if alone and level and silent(below[0]):
                break  # all sixteen images are dead here: nothing reaches the layers below
            g, below = below, g
