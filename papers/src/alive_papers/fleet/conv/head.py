"""From the last maps to logits, and back: all positions to the output, or their mean."""

from __future__ import annotations

import numpy as np

from ..algebra import affine, affine_back
from ..compiled import kernel
from ..lanes import WIDTH, add, entry, fma, full, load, mul, store, store_totals, total, where_less

ONE = np.float32(1)


@kernel
def all_positions(plan, weight, bias, h, out, n):  # type: ignore[no-untyped-def]
    """out[o, n:] = Σ_k weight[o, k] h_k + bias[0, o], k over channels, rows and columns."""
    reach, o, outputs = plan.taps // 2, 0, weight.shape[0]
    pitch = plan.side + 2 * reach
    while o < outputs:
        four = outputs - o >= 4
        a, b, c, d = entry(bias, 0, o), full(0), full(0), full(0)
        if four:
            b, c, d = entry(bias, 0, o + 1), entry(bias, 0, o + 2), entry(bias, 0, o + 3)
        k = 0
        for channel in range(h.shape[0]):
            for y in range(plan.side):
                start = ((y + reach) * pitch + reach) * WIDTH
                for m in range(start, start + plan.side * WIDTH, WIDTH):
                    v = load(h, channel, m)
                    a = fma(entry(weight, o, k), v, a)
                    if four:
                        b = fma(entry(weight, o + 1, k), v, b)
                        c = fma(entry(weight, o + 2, k), v, c)
                        d = fma(entry(weight, o + 3, k), v, d)
                    k += 1
        store(out, o, n, a)
        if four:
            store(out, o + 1, n, b)
            store(out, o + 2, n, c)
            store(out, o + 3, n, d)
        o += 4 if four else 1


@kernel
def mean_of_maps(plan, h, pooled, n):  # type: ignore[no-untyped-def]
    """pooled[c, n:] = the mean of each map; borders are zero."""
    share = full(ONE / np.float32(plan.side * plan.side))
    for c in range(h.shape[0]):
        a, b = full(0), full(0)
        for m in range(0, h.shape[1] - WIDTH, 2 * WIDTH):
            a, b = add(a, load(h, c, m)), add(b, load(h, c, m + WIDTH))
        if h.shape[1] // WIDTH % 2:
            a = add(a, load(h, c, h.shape[1] - WIDTH))
        store(pooled, c, n, mul(share, add(a, b)))


@kernel
def head_of_block(plan, w, h, pooled, out, n):  # type: ignore[no-untyped-def]
    """The logits of one block of an evaluation, into out[:, n:]."""
    if plan.mean_head:
        mean_of_maps(plan, h, pooled, n)
        affine(w.out, w.out_bias, pooled, out)
    else:
        all_positions(plan, w.out, w.out_bias, h, out, n)


@kernel
def head(plan, w, s, blocks):  # type: ignore[no-untyped-def]
    """The logits of a batch."""
    h = s.last
    for b in range(blocks):
        if plan.mean_head:
            mean_of_maps(plan, h[b], s.pooled, b * WIDTH)
        else:
            all_positions(plan, w.out, w.out_bias, h[b], s.logits, b * WIDTH)
    if plan.mean_head:
        affine(w.out, w.out_bias, s.pooled, s.logits)


@kernel
def products_of_positions(plan, g, h, blocks, slope):  # type: ignore[no-untyped-def]
    """slope[o, k] = Σ over images of g[o] h_k, four positions of a row at once."""
    reach, side = plan.taps // 2, plan.side
    pitch = side + 2 * reach
    for channel in range(h.shape[1]):
        for y in range(side):
            k, start = (channel * side + y) * side, ((y + reach) * pitch + reach) * WIDTH
            x = 0
            while x < side:
                m, four = start + x * WIDTH, side - x >= 4
                for o in range(g.shape[0]):
                    a, b, c, d = full(0), full(0), full(0), full(0)
                    for block in range(blocks):
                        p, rows = load(g, o, block * WIDTH), h[block]
                        a = fma(p, load(rows, channel, m), a)
                        if four:
                            b = fma(p, load(rows, channel, m + WIDTH), b)
                            c = fma(p, load(rows, channel, m + 2 * WIDTH), c)
                            d = fma(p, load(rows, channel, m + 3 * WIDTH), d)
                    if four:
                        store_totals(slope, o, k + x, a, b, c, d)
                    else:
                        slope[o, k + x] = total(a)
                x += 4 if four else 1


@kernel
def sums_of_rows(rows, out):  # type: ignore[no-untyped-def]
    """out[0, j] = Σ over rows[j]."""
    for j in range(rows.shape[0]):
        a = full(0)
        for n in range(0, rows.shape[1], WIDTH):
            a = add(a, load(rows, j, n))
        out[0, j] = total(a)


@kernel
def head_slopes(plan, w, slopes, s, blocks):  # type: ignore[no-untyped-def]
    """Gradients of the head's weights; s.logits holds that of the logits."""
    if plan.mean_head:
        affine_back(s.logits, s.pooled, slopes.out, slopes.out_bias)
        share = full(ONE / np.float32(plan.side * plan.side))
        for c in range(s.pooled.shape[0]):
            for n in range(0, s.pooled.shape[1], WIDTH):
                a = full(0)
                for o in range(s.logits.shape[0]):
                    a = fma(entry(w.out, o, c), load(s.logits, o, n), a)
                store(s.pooled_slope, c, n, mul(share, a))
    else:
        products_of_positions(plan, s.logits, s.last, blocks, slopes.out)
        sums_of_rows(s.logits, slopes.out_bias)


@kernel
def head_back(plan, w, s, b, g):  # type: ignore[no-untyped-def]
    """The gradient of the last pre-activations of one block."""
    h, zero, side, reach = s.last[b], full(0), plan.side, plan.taps // 2
    pitch, outputs = side + 2 * reach, s.logits.shape[0]
    k = 0
    for c in range(h.shape[0]):
        pooled = load(s.pooled_slope, c, b * WIDTH) if plan.mean_head else zero
        for y in range(side):
            start = ((y + reach) * pitch + reach) * WIDTH
            for m in range(start, start + side * WIDTH, WIDTH):
                a = pooled
                if not plan.mean_head:
                    for o in range(outputs):
                        a = fma(entry(w.out, o, k), load(s.logits, o, b * WIDTH), a)
                store(g, c, m, where_less(zero, load(h, c, m), a, zero))
                k += 1
