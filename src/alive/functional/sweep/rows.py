"""The sweep over rows [N, P, C], units innermost."""

# mypy: disable-error-code="call-arg, arg-type, attr-defined"
from __future__ import annotations

import numpy as np
from numba import carray

from .compiled import entry_point, kernel
from .forms import MARKED, NOTHING
from .keys import has_room, inf, ints, least, listed, marked, room_for_ties, slacks, slope, start
from .vectors import (
    LANES,
    bottom,
    counted,
    full,
    keys_of,
    largest,
    load,
    lowest,
    places,
    put_marks,
    rectified,
    smallest,
    store,
    top,
    total,
)

WIDE = 64  # values that make a row long enough


@entry_point
def rows(z_at, y_at, units_at, points_at, N, P, C, numbers, single, needs_grad):  # type: ignore[no-untyped-def]
    """relu(z) to y, and the slacks of units and points, of rows [N, P, C]; the form of what is kept, and that.

    `numbers` are the margins of ξ⁺ and ξ⁻, and their shares. Single: the first of equal ends has all the slope.
    """
    z, wide, keys, units, points = first_pass(z_at, y_at, N, P, C, numbers)
    missed = slacks(units, units_at, numbers) + slacks(points, points_at, numbers)
    if not missed or not needs_grad:
        return NOTHING, np.empty(0, np.uint8)
    unfold(keys, units, C)
    shared = C if units_at else 0
    groups = shared + (N if points_at else 0)
    if has_room(missed, z, single):
        form, kept = _list(z, wide, C, keys, points, shared, groups, missed, numbers, single)
        if form:
            return form, kept
    return MARKED, _mark(z, wide, C, keys, points, shared, groups, numbers)


@kernel
def first_pass(z_at, y_at, N, P, C, numbers):  # type: ignore[no-untyped-def]
    """relu(z) to y; z in a row, how wide its rows are taken, and the keys of columns, units and points."""
    wide = width(P, C)
    size = N * P * C
    z = carray(ints(z_at, numbers), (size,))
    keys, points = _columns(wide, z), start(N, z)
    if y_at:
        _relu(z, carray(ints(y_at, numbers), (size,)), wide, keys, points)
    else:
        _read(z, wide, keys, points)
    return z, wide, keys, _fold(keys, wide, C), points


@kernel
def unfold(keys, units, C):  # type: ignore[no-untyped-def]
    """Write the keys of units to all columns."""
    for c in range(keys.shape[1]):
        keys[0, c], keys[1, c] = units[0, c % C], units[1, c % C]


@kernel
def _columns(wide, z):  # type: ignore[no-untyped-def]
    """As `start`, for whole vectors that each lie in one line of the cache."""
    count, line = -(-wide // LANES) * LANES, 64 // z.itemsize
    keys = np.empty(2 * count + line, z.dtype)
    begin = -(keys.ctypes.data // z.itemsize) % line
    keys = keys[begin : begin + 2 * count].reshape(2, count)
    keys[0], keys[1] = least(z), ~least(z)
    return keys


@kernel
def width(P, C):  # type: ignore[no-untyped-def]
    """Values taken as one row: those of several positions where units are few."""
    wide = C
    while wide < WIDE and P % (2 * (wide // C)) == 0:
        wide *= 2
    return wide


@kernel
def _fold(keys, wide, C):  # type: ignore[no-untyped-def]
    """The ends [2, C] of units, of which each stands in several columns."""
    units = keys[:, :C].copy()
    for c in range(C, wide):
        units[0, c % C], units[1, c % C] = max(units[0, c % C], keys[0, c]), min(units[1, c % C], keys[1, c])
    return units


@kernel
def _relu(z, y, wide, units, points):  # type: ignore[no-untyped-def]
    N = points.shape[1]
    P, far = z.size // (N * wide), inf(z)
    tops, bottoms = units[0], units[1]
    for n in range(N):
        up, down = full(least(z)), full(z.dtype.type(~least(z)))
        for p in range(P):
            row = (n * P + p) * wide
            for c in range(0, wide, LANES):
                v = load(z, row + c, wide - c)
                k = keys_of(v)
                store(y, row + c, wide - c, rectified(v, k, far))
                store(tops, c, LANES, largest(load(tops, c, LANES), k))
                store(bottoms, c, LANES, smallest(load(bottoms, c, LANES), k))
                up, down = largest(up, k), smallest(down, k)
        points[0, n], points[1, n] = top(up), bottom(down)


@kernel
def _read(z, wide, units, points):  # type: ignore[no-untyped-def]
    """As `_relu`, of extremes alone."""
    N = points.shape[1]
    P = z.size // (N * wide)
    tops, bottoms = units[0], units[1]
    for n in range(N):
        up, down = full(least(z)), full(z.dtype.type(~least(z)))
        for p in range(P):
            row = (n * P + p) * wide
            for c in range(0, wide, LANES):
                k = keys_of(load(z, row + c, wide - c))
                store(tops, c, LANES, largest(load(tops, c, LANES), k))
                store(bottoms, c, LANES, smallest(load(bottoms, c, LANES), k))
                up, down = largest(up, k), smallest(down, k)
        points[0, n], points[1, n] = top(up), bottom(down)


@kernel
def _list(z, wide, C, units, points, shared, groups, missed, numbers, single):  # type: ignore[no-untyped-def]
    """The places of missed ends; NOTHING, if there are too many."""
    most = room_for_ties(z, numbers)
    entries, ties = np.empty((2, missed), np.int32), np.zeros((2, groups), np.int32)
    found = find(z, wide, C, units, points, shared, entries, ties, missed, most, single)
    if missed < found <= most:  # some tie
        entries, ties = np.empty((2, found), np.int32), np.zeros((2, groups), np.int32)
        find(z, wide, C, units, points, shared, entries, ties, missed, most, single)
    return listed(entries, found, ties, numbers, missed, most)


@kernel
def find(z, wide, C, units, points, shared, entries, ties, missed, most, single):  # type: ignore[no-untyped-def]
    """Write codes and groups of missed ends, as many as there is room for; how many there are, or more than `most`.

    `most`: how many there may be, if some tie.
    """
    N = points.shape[1]
    P, found, space = z.size // (N * wide), 0, entries.shape[1]
    tied, spare = 0, max(most - missed, 0)  # ends that are not the first of their group: how many, and at most
    tops, bottoms, codes, owners = units[0], units[1], entries[0], entries[1]
    for n in range(N):
        up, down = full(points[0, n]), full(points[1, n])
        for p in range(P):
            row = (n * P + p) * wide
            for c in range(0, wide, LANES):
                k = keys_of(load(z, row + c, wide - c))
                ends = places(k, load(tops, c, LANES), load(bottoms, c, LANES), up, down, wide - c)
                while ends:
                    bit = lowest(ends)
                    ends &= ends - np.uint64(1)
                    which, lane = bit >> 4, bit & (LANES - 1)
                    g = shared + n
                    if which < 2:
                        g = c + lane if wide == C else (c + lane) % C
                    if single and ties[which & 1, g]:
                        continue
                    tied += ties[which & 1, g] > 0
                    ties[which & 1, g] += 1
                    if found < space:
                        codes[found], owners[found] = 4 * (row + c + lane) + which, g
                    found += 1
            if tied > spare:
                return max(most, missed) + 1
    return found


@kernel
def _mark(z, wide, C, units, points, shared, groups, numbers):  # type: ignore[no-untyped-def]
    """A byte a value, and the slopes [2, groups] behind them."""
    N = points.shape[1]
    P = z.size // (N * wide)
    kept, slopes = marked(z.size, groups, numbers)
    by_unit, by_point = np.zeros(units.shape, z.dtype), np.zeros((2, N), z.dtype)
    tops, bottoms, many_tops, many_bottoms = units[0], units[1], by_unit[0], by_unit[1]
    zero = full(z.dtype.type(0))
    for n in range(N):
        up, down = full(points[0, n]), full(points[1, n])
        many_up, many_down = zero, zero
        for p in range(P):
            row = (n * P + p) * wide
            for c in range(0, wide, LANES):
                k, a, b = keys_of(load(z, row + c, wide - c)), load(tops, c, LANES), load(bottoms, c, LANES)
                store(many_tops, c, LANES, counted(load(many_tops, c, LANES), k, a, wide - c))
                store(many_bottoms, c, LANES, counted(load(many_bottoms, c, LANES), k, b, wide - c))
                many_up = counted(many_up, k, up, wide - c)
                many_down = counted(many_down, k, down, wide - c)
                put_marks(kept, row + c, wide - c, k, a, b, up, down)
        by_point[0, n], by_point[1, n] = total(many_up), total(many_down)
    for c in range(C, wide):
        by_unit[0, c % C] += by_unit[0, c]
        by_unit[1, c % C] += by_unit[1, c]
    slope(slopes[:, :shared], by_unit, numbers)
    slope(slopes[:, shared:], by_point, numbers)
    return kept
