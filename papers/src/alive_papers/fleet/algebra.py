"""Sums of rows, a row being one unit over all points of a batch: tiles of four rows by sixteen points in registers."""

from __future__ import annotations

from .compiled import kernel
from .lanes import WIDTH, add, entry, fma, full, load, store, store_totals, total, where_less


@kernel
def affine(weight, bias, rows, out):  # type: ignore[no-untyped-def]
    """out[j] = Σ_k weight[j, k] rows[k] + bias[0, j]."""
    J, K = out.shape[0], rows.shape[0]
    j = 0
    while j + 4 <= J:
        for n in range(0, out.shape[1], WIDTH):
            a, b, c, d = entry(bias, 0, j), entry(bias, 0, j + 1), entry(bias, 0, j + 2), entry(bias, 0, j + 3)
            for k in range(K):
                row = load(rows, k, n)
                a = fma(entry(weight, j, k), row, a)
                b = fma(entry(weight, j + 1, k), row, b)
                c = fma(entry(weight, j + 2, k), row, c)
                d = fma(entry(weight, j + 3, k), row, d)
            store(out, j, n, a)
            store(out, j + 1, n, b)
            store(out, j + 2, n, c)
            store(out, j + 3, n, d)
        j += 4
    while j < J:
        for n in range(0, out.shape[1], WIDTH):
            a = entry(bias, 0, j)
            for k in range(K):
                a = fma(entry(weight, j, k), load(rows, k, n), a)
            store(out, j, n, a)
        j += 1


@kernel
def combine_back(weight, rows, z, out):  # type: ignore[no-untyped-def]
    """out[k] = Σ_j weight[j, k] rows[j] where z[k] > 0, else 0: back through a matrix and the ReLU below it.

    Joined, since a ReLU undone in place becomes a masked store, which some machines are slow at.
    """
    J, K, zero = rows.shape[0], out.shape[0], full(0)
    k = 0
    while k + 4 <= K:
        for n in range(0, out.shape[1], WIDTH):
            a, b, c, d = full(0), full(0), full(0), full(0)
            for j in range(J):
                row = load(rows, j, n)
                a = fma(entry(weight, j, k), row, a)
                b = fma(entry(weight, j, k + 1), row, b)
                c = fma(entry(weight, j, k + 2), row, c)
                d = fma(entry(weight, j, k + 3), row, d)
            store(out, k, n, where_less(zero, load(z, k, n), a, zero))
            store(out, k + 1, n, where_less(zero, load(z, k + 1, n), b, zero))
            store(out, k + 2, n, where_less(zero, load(z, k + 2, n), c, zero))
            store(out, k + 3, n, where_less(zero, load(z, k + 3, n), d, zero))
        k += 4
    while k < K:
        for n in range(0, out.shape[1], WIDTH):
            a = full(0)
            for j in range(J):
                a = fma(entry(weight, j, k), load(rows, j, n), a)
            store(out, k, n, where_less(zero, load(z, k, n), a, zero))
        k += 1


@kernel
def dot(p, j, q, k):  # type: ignore[no-untyped-def]
    """Σ_n p[j, n] q[k, n]."""
    a = full(0)
    for n in range(0, p.shape[1], WIDTH):
        a = fma(load(p, j, n), load(q, k, n), a)
    return total(a)


@kernel
def affine_back(g, rows, weight_slope, bias_slope):  # type: ignore[no-untyped-def]
    """Gradients of a matrix and its bias from that of what they gave: Σ_n g[j, n] rows[k, n] and Σ_n g[j, n]."""
    J, K, B = g.shape[0], rows.shape[0], g.shape[1]
    for j in range(J):
        k = 0
        s = full(0)
        for n in range(0, B, WIDTH):
            s = add(s, load(g, j, n))
        bias_slope[0, j] = total(s)
        while k + 4 <= K:
            a, b, c, d = full(0), full(0), full(0), full(0)
            for n in range(0, B, WIDTH):
                p = load(g, j, n)
                a = fma(p, load(rows, k, n), a)
                b = fma(p, load(rows, k + 1, n), b)
                c = fma(p, load(rows, k + 2, n), c)
                d = fma(p, load(rows, k + 3, n), d)
            store_totals(weight_slope, j, k, a, b, c, d)
            k += 4
        while k < K:
            weight_slope[j, k] = dot(g, j, rows, k)
            k += 1
