"""The sweep over maps [N, C, P], positions innermost."""

# mypy: disable-error-code="call-arg, arg-type, attr-defined"
from __future__ import annotations

import numpy as np
from numba import carray

from .compiled import entry_point, kernel
from .forms import MARKED, NOTHING
from .keys import has_room, inf, ints, key, least, listed, marked, room_for_ties, slacks, slope, start

CHUNK = 64  # values compared at once before looking closer


@entry_point
def maps(z_at, y_at, units_at, points_at, N, P, C, numbers, single, needs_grad):  # type: ignore[no-untyped-def]
    """As `rows`, of maps [N, C, P]."""
    z, cells, units, points = first_pass(z_at, y_at, N, P, C, numbers)
    missed = slacks(units, units_at, numbers) + slacks(points, points_at, numbers)
    if not missed or not needs_grad:
        return NOTHING, np.empty(0, np.uint8)
    shared = C if units_at else 0
    groups = shared + (N if points_at else 0)
    if has_room(missed, z, single):
        form, kept = _list(z, cells, units, points, shared, groups, missed, numbers, single)
        if form:
            return form, kept
    return MARKED, _mark(z, units, points, shared, groups, numbers)


@kernel
def first_pass(z_at, y_at, N, P, C, numbers):  # type: ignore[no-untyped-def]
    """relu(z) to y; z as cells of positions, and the keys of cells, units and points."""
    z = carray(ints(z_at, numbers), (N * C, P))
    y = carray(ints(y_at, numbers), (N * C if y_at else 0, P))
    cells = np.empty((2, N * C), z.dtype)
    units, points = start(C, z), start(N, z)
    for m in range(N * C):
        top, bottom = _relu(z[m], y[m]) if y_at else _read(z[m])
        cells[0, m], cells[1, m] = top, bottom
        n, c = m // C, m % C
        units[0, c], units[1, c] = max(units[0, c], top), min(units[1, c], bottom)
        points[0, n], points[1, n] = max(points[0, n], top), min(points[1, n], bottom)
    return z, cells, units, points


@kernel
def _relu(z, y):  # type: ignore[no-untyped-def]
    top, bottom, far = least(z), z.dtype.type(~least(z)), inf(z)
    for p in range(z.size):
        v = z[p]
        k = key(v, z)
        y[p] = v if (k > 0) | (k < -far) else 0
        top, bottom = max(top, k), min(bottom, k)
    return top, bottom


@kernel
def _read(z):  # type: ignore[no-untyped-def]
    top, bottom = least(z), z.dtype.type(~least(z))
    for p in range(z.size):
        k = key(z[p], z)
        top, bottom = max(top, k), min(bottom, k)
    return top, bottom


@kernel
def _list(z, cells, units, points, shared, groups, missed, numbers, single):  # type: ignore[no-untyped-def]
    """As `rows._list`."""
    most = room_for_ties(z, numbers)
    entries, ties = np.empty((2, missed), np.int32), np.zeros((2, groups), np.int32)
    found = find(z, cells, units, points, shared, entries, ties, missed, most, single)
    if missed < found <= most:
        entries, ties = np.empty((2, found), np.int32), np.zeros((2, groups), np.int32)
        find(z, cells, units, points, shared, entries, ties, missed, most, single)
    return listed(entries, found, ties, numbers, missed, most)


@kernel
def find(z, cells, units, points, shared, entries, ties, missed, most, single):  # type: ignore[no-untyped-def]
    """As `rows._find`; a map is looked into only where its own end is one of its unit's or its point's."""
    M, P = z.shape
    C, found, space = units.shape[1], 0, entries.shape[1]
    tied, spare = 0, max(most - missed, 0)
    for m in range(M):
        n, c = m // C, m % C
        for which in range(4):
            side, of_point = which & 1, which >= 2
            end = cells[side, m]
            if end != (points[side, n] if of_point else units[side, c]):
                continue
            g = shared + n if of_point else c
            for begin in range(0, P, CHUNK):
                stop = min(begin + CHUNK, P)
                if (single and ties[side, g]) or not _has(z[m, begin:stop], end):
                    continue
                for p in range(begin, stop):
                    if key(z[m, p], z) != end or (single and ties[side, g]):
                        continue
                    tied += ties[side, g] > 0
                    ties[side, g] += 1
                    if found < space:
                        entries[0, found], entries[1, found] = 4 * (m * P + p) + which, g
                    found += 1
        if tied > spare:
            return max(most, missed) + 1
    return found


@kernel
def _has(z, end):  # type: ignore[no-untyped-def]
    hits = np.int32(0)
    for p in range(z.size):
        hits = np.int32(hits + np.int32(key(z[p], z) == end))
    return hits > 0


@kernel
def _mark(z, units, points, shared, groups, numbers):  # type: ignore[no-untyped-def]
    """As `rows._mark`."""
    M, P = z.shape
    C, N = units.shape[1], points.shape[1]
    kept, slopes = marked(z.size, groups, numbers)
    bits = kept[: z.size].reshape(M, P)
    by_unit, by_point = np.zeros((2, C), np.int32), np.zeros((2, N), np.int32)
    for m in range(M):
        n, c = m // C, m % C
        a, b, p, q = _mark_map(z[m], bits[m], units[0, c], units[1, c], points[0, n], points[1, n])
        by_unit[0, c] += a
        by_unit[1, c] += b
        by_point[0, n] += p
        by_point[1, n] += q
    slope(slopes[:, :shared], by_unit, numbers)
    slope(slopes[:, shared:], by_point, numbers)
    return kept


@kernel
def _mark_map(z, bits, unit_top, unit_bottom, top, bottom):  # type: ignore[no-untyped-def]
    many_a = many_b = many_p = many_q = np.int32(0)
    for i in range(z.size):
        k = key(z[i], z)
        a, b = np.int32(k == unit_top), np.int32(k == unit_bottom)
        p, q = np.int32(k == top), np.int32(k == bottom)
        many_a, many_b = np.int32(many_a + a), np.int32(many_b + b)
        many_p, many_q = np.int32(many_p + p), np.int32(many_q + q)
        bits[i] = np.uint8(a | (b << 1) | (p << 2) | (q << 3))
    return many_a, many_b, many_p, many_q
