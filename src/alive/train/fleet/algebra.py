"""Sums of rows: a row is one unit over all points of a batch, so that every innermost loop runs over points in vectors.

Rows are padded to whole vectors (see `arena`). No flag here lets the compiler forget infinities or NaN, except in
`largest` and `smallest`, whose NaN the loss has seen as well: "contract" joins a product and a sum into one rounding,
"reassoc" lets a sum over points run in lanes, "nnan" and "nsz" let an extreme do so.
"""

from __future__ import annotations

import numpy as np
from numba import njit

LANES = {"contract", "reassoc"}
ENDS = {"nnan", "nsz"}


@njit(cache=True, nogil=True, fastmath={"contract"})
def add_four(out, a, b, c, d, p, q, r, s):  # type: ignore[no-untyped-def]
    """out += a·p + b·q + c·r + d·s: four products for one read and one write of out."""
    for n in range(out.size):
        out[n] += a * p[n] + b * q[n] + c * r[n] + d * s[n]


@njit(cache=True, nogil=True, fastmath={"contract"})
def add_two(out, a, b, p, q):  # type: ignore[no-untyped-def]
    """out += a·p + b·q."""
    for n in range(out.size):
        out[n] += a * p[n] + b * q[n]


@njit(cache=True, nogil=True, fastmath={"contract"})
def add_one(out, a, p):  # type: ignore[no-untyped-def]
    """out += a·p."""
    for n in range(out.size):
        out[n] += a * p[n]


@njit(cache=True, nogil=True)
def combine(weight, rows, out):  # type: ignore[no-untyped-def]
    """out[j] += Σ_k weight[j, k] rows[k]."""
    K = rows.shape[0]
    for j in range(out.shape[0]):
        k = 0
        w, o = weight[j], out[j]
        while k + 4 <= K:
            add_four(o, w[k], w[k + 1], w[k + 2], w[k + 3], rows[k], rows[k + 1], rows[k + 2], rows[k + 3])
            k += 4
        if k + 2 <= K:
            add_two(o, w[k], w[k + 1], rows[k], rows[k + 1])
            k += 2
        if k < K:
            add_one(o, w[k], rows[k])


@njit(cache=True, nogil=True)
def combine_back(weight, rows, out):  # type: ignore[no-untyped-def]
    """out[k] = Σ_j weight[j, k] rows[j]."""
    J = rows.shape[0]
    for k in range(out.shape[0]):
        j = 0
        o = out[k]
        o[:] = np.float32(0)
        while j + 4 <= J:
            a, b, c, d = weight[j, k], weight[j + 1, k], weight[j + 2, k], weight[j + 3, k]
            add_four(o, a, b, c, d, rows[j], rows[j + 1], rows[j + 2], rows[j + 3])
            j += 4
        if j + 2 <= J:
            add_two(o, weight[j, k], weight[j + 1, k], rows[j], rows[j + 1])
            j += 2
        if j < J:
            add_one(o, weight[j, k], rows[j])


@njit(cache=True, nogil=True, fastmath=LANES)
def dot(p, q):  # type: ignore[no-untyped-def]
    """Σ p q."""
    total = np.float32(0)
    for n in range(p.size):
        total += p[n] * q[n]
    return total


@njit(cache=True, nogil=True, fastmath=LANES)
def dot_four(p, a, b, c, d):  # type: ignore[no-untyped-def]
    """Σ p a, Σ p b, Σ p c, Σ p d: p is read once."""
    ta, tb, tc, td = np.float32(0), np.float32(0), np.float32(0), np.float32(0)
    for n in range(p.size):
        ta += p[n] * a[n]
        tb += p[n] * b[n]
        tc += p[n] * c[n]
        td += p[n] * d[n]
    return ta, tb, tc, td


@njit(cache=True, nogil=True, fastmath=LANES)
def total(p):  # type: ignore[no-untyped-def]
    """Σ p."""
    t = np.float32(0)
    for n in range(p.size):
        t += p[n]
    return t


@njit(cache=True, nogil=True)
def outer(left, right, weight):  # type: ignore[no-untyped-def]
    """weight[j, k] = Σ_n left[j, n] right[k, n]: the gradient of a matrix."""
    K = right.shape[0]
    for j in range(left.shape[0]):
        p, w = left[j], weight[j]
        k = 0
        while k + 4 <= K:
            w[k], w[k + 1], w[k + 2], w[k + 3] = dot_four(p, right[k], right[k + 1], right[k + 2], right[k + 3])
            k += 4
        while k < K:
            w[k] = dot(p, right[k])
            k += 1


@njit(cache=True, nogil=True, fastmath=ENDS)
def largest(p):  # type: ignore[no-untyped-def]
    """The largest entry; any number if one is NaN."""
    top = p[0]
    for n in range(p.size):
        top = p[n] if p[n] > top else top
    return top


@njit(cache=True, nogil=True, fastmath=ENDS)
def smallest(p):  # type: ignore[no-untyped-def]
    """The smallest entry; any number if one is NaN."""
    bottom = p[0]
    for n in range(p.size):
        bottom = p[n] if p[n] < bottom else bottom
    return bottom


@njit(cache=True, nogil=True)
def equals(p, value):  # type: ignore[no-untyped-def]
    """How many entries equal the value."""
    count = np.int32(0)
    for n in range(p.size):
        count += np.int32(p[n] == value)
    return count
