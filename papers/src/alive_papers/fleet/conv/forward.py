"""From images to logits, block by block, with the extremes of every channel in every image on the way."""

from __future__ import annotations

import numpy as np

from ..compiled import joined, kernel
from ..lanes import WIDTH, entry, fma, full, largest, least, load, most, smallest, store, sub, where_less
from ..norm import EPS
from ..task import right
from .head import head, head_of_block
from .images import load_images
from .norm import normalise
from .positions import position_ends
from .products import KEEP, MEASURE, RELU, convolve
from .slacks import fold_rows, note

ZERO, ONE = np.float32(0), np.float32(1)
INF = np.float32(np.inf)


@kernel
def add_skip(alpha, below, u):  # type: ignore[no-untyped-def]
    """u += (1 − α) u of the layer below; borders stay zero."""
    for c in range(u.shape[0]):
        open_part = full(ONE - alpha[c])
        for n in range(0, u.shape[1], WIDTH):
            store(u, c, n, fma(open_part, load(below, c, n), load(u, c, n)))


@kernel
def finish(plan, u, centre, factor, offset, h, top, bottom):  # type: ignore[no-untyped-def]
    """h = the ReLU of z = factor (u − centre) + offset, and the extremes of z in each image."""
    zero, reach = full(0), plan.taps // 2
    pitch = plan.side + 2 * reach
    for c in range(u.shape[0]):
        m, a, b = entry(centre, 0, c), entry(factor, 0, c), entry(offset, 0, c)
        t, e = full(-INF), full(INF)
        for y in range(plan.side):
            start = ((y + reach) * pitch + reach) * WIDTH
            for n in range(start, start + plan.side * WIDTH, WIDTH):
                v = fma(sub(load(u, c, n), m), a, b)
                t, e = most(v, t), least(v, e)
                store(h, c, n, where_less(v, zero, zero, v))
        store(top, c, 0, t)
        store(bottom, c, 0, e)


@kernel
def read_by_next(plan, s, level, b):  # type: ignore[no-untyped-def]
    """Where a training pass puts what the next layer of a block reads."""
    if level + 1 == s.lane_top.shape[0]:
        return s.last[b]
    return s.h[level & 1, 0] if plan.keep else s.h[level, b]


@joined
def weights_of(net, level):  # type: ignore[no-untyped-def]
    """The weights of a layer."""
    return net.w.inner[level - 1] if level else net.w.first


@kernel
def sums(plan, net, level, below, u_below, u):  # type: ignore[no-untyped-def]
    """What a layer of a network with skips or norms sums up, before its norm."""
    convolve(weights_of(net, level), net.w.bias[level], below, plan.side, plan.taps, u, u, u, u, 0)
    if plan.skip and level:
        add_skip(net.gates.alpha[level], u_below, u)


@kernel
def layer(plan, net, s, level, b, noting):  # type: ignore[no-untyped-def]
    """One layer of one block in training, its extremes noted if asked; with batch norm only what it sums up."""
    below = read_by_next(plan, s, level - 1, b) if level else s.x[b]
    h = read_by_next(plan, s, level, b)
    if plan.norm or plan.skip:
        u = s.u[level, b]
        sums(plan, net, level, below, s.u[level - 1, b] if level else u, u)
        if not plan.norm:
            finish(plan, u, s.none, s.one, s.none, h, s.lane_top[level], s.lane_bottom[level])
        return
    z = s.z[level, b] if plan.keep else s.z[0, 0] if noting else h
    mode = RELU + (KEEP if plan.keep or noting else 0) + (MEASURE if noting else 0)
    weight, bias = weights_of(net, level), net.w.bias[level]
    convolve(weight, bias, below, plan.side, plan.taps, h, z, s.row_top, s.row_bottom, mode)
    if noting:
        note(plan, s, level, b)


@kernel
def map_forward(plan, net, s, count, step, rate):  # type: ignore[no-untyped-def]
    """One training pass over the batch in s.x: a block through all layers, or with batch norm a layer of all blocks.

    `step` and `rate` are for dropout, which maps do not have.
    """
    blocks = (count + WIDTH - 1) // WIDTH
    at_once = blocks if plan.norm else 1
    asked = plan.units or plan.points or plan.layer
    noting = asked and not plan.keep
    for first in range(0, blocks, at_once):
        for level in range(s.lane_top.shape[0]):
            for b in range(first, first + at_once):
                layer(plan, net, s, level, b, noting)
            if plan.norm:
                normalise(plan, net, s, level, blocks, count)
                for b in range(blocks):
                    top, bottom = s.lane_top[level], s.lane_bottom[level]
                    finish(plan, s.u[level, b], s.centre, s.factor, s.offset, s.h[level, b], top, bottom)
    head(plan, net.w, s, blocks)
    if plan.keep:
        position_ends(plan, s, blocks)


@kernel
def evaluated_layer(plan, net, s, level, measure):  # type: ignore[no-untyped-def]
    """One layer of one block in evaluation: two layers' room in turn, batch norm by its running statistics."""
    slot, under = level & 1, (level + 1) & 1
    below = s.h[under, 0] if level else s.x[0]
    h, top, bottom = s.h[slot, 0], s.lane_top[level], s.lane_bottom[level]
    if plan.norm or plan.skip:
        u = s.u[slot, 0]
        sums(plan, net, level, below, s.u[under, 0] if level else u, u)
        if plan.norm:
            for c in range(u.shape[0]):
                s.centre[0, c], s.offset[0, c] = net.norm.mean[level, c], net.w.shift[level, c]
                s.factor[0, c] = net.w.gain[level, c] / np.sqrt(net.norm.variance[level, c] + EPS)
            finish(plan, u, s.centre, s.factor, s.offset, h, top, bottom)
        else:
            finish(plan, u, s.none, s.one, s.none, h, top, bottom)
        return
    mode = RELU + (MEASURE if measure else 0)
    weight, bias = weights_of(net, level), net.w.bias[level]
    convolve(weight, bias, below, plan.side, plan.taps, h, h, s.row_top, s.row_bottom, mode)
    if measure:
        fold_rows(s.row_top, s.row_bottom, top, bottom)


@kernel
def widen(net, s, first):  # type: ignore[no-untyped-def]
    """Join the extremes of one block to those of the channels over all images."""
    for level in range(net.top.shape[0]):
        for c in range(net.top.shape[1]):
            high, low = largest(load(s.lane_top[level], c, 0)), smallest(load(s.lane_bottom[level], c, 0))
            net.top[level, c] = high if first else max(net.top[level, c], high)
            net.bottom[level, c] = low if first else min(net.bottom[level, c], low)


@kernel
def dead_images(s, count):  # type: ignore[no-untyped-def]
    """How many of the first images of a block no channel of some layer answers to, anywhere."""
    dead = 0
    for lane in range(count):
        silent = False
        for level in range(s.lane_top.shape[0]):
            top = -INF
            for c in range(s.lane_top.shape[1]):
                top = max(top, s.lane_top[level, c, lane])
            silent = silent or not top > ZERO
        dead += silent
    return dead


@kernel
def map_evaluate(plan, net, s, x, y, everyone, measure, signal):  # type: ignore[no-untyped-def]
    """Images classified correctly (-1: some logit is not finite) and dead images, block by block until a stop."""
    hits, dead, depth = 0, ZERO, s.lane_top.shape[0]
    for begun in range(0, y.size, WIDTH):
        if signal[0]:
            break
        chosen = everyone[begun : min(begun + WIDTH, y.size)]
        load_images(plan, x, chosen, s.x[0])
        for level in range(depth):
            evaluated_layer(plan, net, s, level, measure)
        head_of_block(plan, net.w, s.h[(depth - 1) & 1, 0], s.few, s.answer, 0)
        found = right(s.answer, y, chosen)
        if found < 0:
            return -1, ZERO
        hits += found
        if measure:
            widen(net, s, begun == 0)
            dead += np.float32(dead_images(s, chosen.size))
    return hits, dead
