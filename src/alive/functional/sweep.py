"""ReLU, extremes and slacks of one layer on a CPU, in one sweep over its memory; the way back in another.

A layer lies in memory as rows [N, P, C], the units innermost (dense layers, sequences, channels_last), or as maps
[N, C, P], the positions innermost. Groups are units, and points; a layer as a whole (mode L) is one point. Tensors
come as addresses, because turning each into an array costs more than a small layer takes; 0 is "none".

Floats are compared as whole numbers in the same order (`_key`), which runs in vectors where floats do not, makes −0
and 0 equal, and lets NaN lie beyond the infinities.

What backward needs is kept in one row of bytes. LISTED: for each place of a missed end, ∂s/∂z (in z's dtype), its
place in memory, and its group (int32 each). MARKED, where very many tie: a byte a value that says which ends it is
(bit 0 and 1: the largest and smallest of its unit, 2 and 3: of its point), and ∂s/∂z [2, groups] of each end.
"""

# mypy: disable-error-code="call-arg, arg-type, attr-defined"
# (an intrinsic is called without its first argument, and arrays have any number of dimensions)
from __future__ import annotations

from typing import Any

import numpy as np
from numba import carray, types
from numba.extending import intrinsic

from .keeping import compiled

NOTHING, LISTED, MARKED = 0, 1, 2
CHUNK, SHORT = 64, 16  # values compared at once before looking closer; the fewer, the more ends there are
WIDE = 64  # values that make a row long enough for a fast loop


@intrinsic
def _floats(typing: Any, address: Any, numbers: Any) -> Any:
    """An address as a pointer to floats of the kind of `numbers`."""
    return _pointer(numbers.dtype, address, numbers)


@intrinsic
def _ints(typing: Any, address: Any, numbers: Any) -> Any:
    """An address as a pointer to whole numbers of the size of `numbers`."""
    return _pointer(types.int32 if numbers.dtype is types.float32 else types.int64, address, numbers)


@intrinsic
def _small_ints(typing: Any, address: Any) -> Any:
    return _pointer(types.int32, address)


@intrinsic
def _bytes(typing: Any, address: Any) -> Any:
    return _pointer(types.uint8, address)


def _pointer(kind: Any, *given: Any) -> Any:
    pointer = types.CPointer(kind)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.inttoptr(args[0], context.get_value_type(pointer))

    return pointer(*given), generate


@compiled
def _key(v, z):  # type: ignore[no-untyped-def]
    """The bits of a float as a whole number in the order of the floats, and back; z holds such numbers."""
    return v if v >= 0 else z.dtype.type((-(2**31) if z.itemsize == 4 else -(2**63)) - v)


@compiled
def _least(z):  # type: ignore[no-untyped-def]
    """The least whole number there is: no float's key, so that what is to be found nowhere has it."""
    return z.dtype.type(-(2**31) if z.itemsize == 4 else -(2**63))


@compiled
def _inf(z):  # type: ignore[no-untyped-def]
    """The key of infinity; those beyond are of NaN."""
    return z.dtype.type(0x7F800000 if z.itemsize == 4 else 0x7FF0000000000000)


@compiled
def rows(z_at, y_at, units_at, points_at, N, P, C, numbers, single, needs_grad):  # type: ignore[no-untyped-def]
    """relu(z) to y, and the slacks of units and points, of rows [N, P, C]; the form of what is kept, and that.

    `numbers` are the margins of ξ⁺ and ξ⁻, and their shares. Single: the first of equal ends has all the slope.
    """
    wide = _wide(P, C)
    z = carray(_ints(z_at, numbers), (N, P * C // wide, wide))
    keys, points = _start(wide, z), _start(N, z)
    if y_at:
        _relu_rows(z, carray(_ints(y_at, numbers), z.shape), keys, points)
    else:
        _read_rows(z, keys, points)
    units = _folded(keys, C)
    missed = _slacks(units, units_at, numbers) + _slacks(points, points_at, numbers)
    if not missed or not needs_grad:
        return NOTHING, np.empty(0, np.uint8)
    for c in range(wide):
        keys[0, c], keys[1, c] = units[0, c % C], units[1, c % C]
    shared = C if units_at else 0
    groups = shared + (N if points_at else 0)
    room = _room(missed, z, single)
    if room:
        entries, ties = np.empty((2, room), np.int32), np.zeros((2, groups), np.int32)
        found = _list_rows(z, C, keys, points, shared, entries, ties, single)
        if found <= room:
            return LISTED, _listed(entries, found, ties, numbers)
    return MARKED, _mark_rows(z, C, keys, points, shared, groups, numbers)


@compiled
def _wide(P, C):  # type: ignore[no-untyped-def]
    """Values taken as one row: those of several positions where units are few."""
    wide = C
    while wide < WIDE and P % (2 * (wide // C)) == 0:
        wide *= 2
    return wide


@compiled
def _folded(keys, C):  # type: ignore[no-untyped-def]
    """The ends [2, C] of units, of which each stands in several columns."""
    units = keys[:, :C].copy()
    for c in range(C, keys.shape[1]):
        units[0, c % C], units[1, c % C] = max(units[0, c % C], keys[0, c]), min(units[1, c % C], keys[1, c])
    return units


@compiled
def _start(count, z):  # type: ignore[no-untyped-def]
    """Keys [2, count] of the largest and smallest values, before any was seen."""
    keys = np.empty((2, count), z.dtype)
    least = _least(z)
    for g in range(count):
        keys[0, g], keys[1, g] = least, ~least
    return keys


@compiled
def _relu_rows(z, y, units, points):  # type: ignore[no-untyped-def]
    N, P, C = z.shape
    tops, bottoms, inf = units[0], units[1], _inf(z)
    for n in range(N):
        top, bottom = points[0, n], points[1, n]
        for p in range(P):
            for c in range(C):
                v = z[n, p, c]
                k = _key(v, z)
                y[n, p, c] = v if (k > 0) | (k < -inf) else 0
                tops[c], bottoms[c] = max(tops[c], k), min(bottoms[c], k)
                top, bottom = max(top, k), min(bottom, k)
        points[0, n], points[1, n] = top, bottom


@compiled
def _read_rows(z, units, points):  # type: ignore[no-untyped-def]
    N, P, C = z.shape
    tops, bottoms = units[0], units[1]
    for n in range(N):
        top, bottom = points[0, n], points[1, n]
        for p in range(P):
            for c in range(C):
                k = _key(z[n, p, c], z)
                tops[c], bottoms[c] = max(tops[c], k), min(bottoms[c], k)
                top, bottom = max(top, k), min(bottom, k)
        points[0, n], points[1, n] = top, bottom


@compiled
def _slacks(keys, s_at, numbers):  # type: ignore[no-untyped-def]
    """Write the slacks of groups from the keys of their ends; keep the keys of missed ends only, and count them."""
    least, inf = _least(keys), _inf(keys)
    G = keys.shape[1]
    if not s_at:
        keys[:] = least
        return 0
    s = carray(_floats(s_at, numbers), (G,))
    margin_up, margin_down, share_up, share_down = numbers[0], numbers[1], numbers[2], numbers[3]
    zero = numbers.dtype.type(0)
    bits = np.empty((2, G), keys.dtype)
    for g in range(G):
        bits[0, g], bits[1, g] = _key(keys[0, g], keys), _key(keys[1, g], keys)
    values = bits.view(numbers.dtype)
    missed = 0
    for g in range(G):
        top, bottom = keys[0, g], keys[1, g]
        broken = (top > inf) | (bottom < -inf)
        up, down = margin_up - values[0, g], margin_down + values[1, g]
        is_up = (up > 0) & (share_up != 0) & (not broken)
        is_down = (down > 0) & (share_down != 0) & (not broken)
        total = (share_up * up if is_up else zero) + (share_down * down if is_down else zero)
        s[g] = numbers.dtype.type(np.nan) if broken else total
        keys[0, g], keys[1, g] = top if is_up else least, bottom if is_down else least
        missed += np.int32(is_up) + np.int32(is_down)
    return missed


@compiled
def _room(missed, z, single):  # type: ignore[no-untyped-def]
    """How many places may be listed: as many as take no more memory than a byte a value; 0 where that is too few."""
    if single:
        return missed
    room = z.size // (8 + z.itemsize)
    return room if missed <= room else 0


@compiled
def _list_rows(z, C, units, points, shared, entries, ties, single):  # type: ignore[no-untyped-def]
    """Places and groups (2g, and 2g + 1 for the smallest) of missed ends; more than fit in, if there are more."""
    N, P, wide = z.shape
    room, found = entries.shape[1], 0
    chunk = SHORT if P == 1 else CHUNK
    for n in range(N):
        top, bottom = points[0, n], points[1, n]
        for p in range(P):
            for start in range(0, wide, chunk):
                stop = min(start + chunk, wide)
                if not _has_end(z[n, p, start:stop], units[0, start:stop], units[1, start:stop], top, bottom):
                    continue
                for c in range(start, stop):
                    k = _key(z[n, p, c], z)
                    if (k != top) & (k != bottom) & (k != units[0, c]) & (k != units[1, c]):
                        continue
                    for e in range(4):
                        if k != (units[e, c] if e < 2 else points[e - 2, n]):
                            continue
                        g, side = (c % C, e) if e < 2 else (shared + n, e - 2)
                        if single and ties[side, g]:
                            continue
                        if found == room:
                            return room + 1
                        entries[0, found], entries[1, found] = (n * P + p) * wide + c, 2 * g + side
                        ties[side, g] += 1
                        found += 1
    return found


@compiled
def _has_end(z, tops, bottoms, top, bottom):  # type: ignore[no-untyped-def]
    hits = np.int32(0)
    for c in range(z.size):
        k = _key(z[c], z)
        hits = np.int32(hits + np.int32((k == tops[c]) | (k == bottoms[c]) | (k == top) | (k == bottom)))
    return hits > 0


@compiled
def _listed(entries, found, ties, numbers):  # type: ignore[no-untyped-def]
    """What is kept of places and groups."""
    size = numbers.itemsize
    kept = np.empty(found * (8 + size), np.uint8)
    slopes = kept[: found * size].view(numbers.dtype)
    places = kept[found * size :].view(np.int32)
    for k in range(found):
        owner = entries[1, k]
        g, side = owner >> 1, owner & 1
        slopes[k] = (numbers[3] if side else -numbers[2]) / ties[side, g]
        places[k], places[found + k] = entries[0, k], g
    return kept


@compiled
def _mark_rows(z, C, units, points, shared, groups, numbers):  # type: ignore[no-untyped-def]
    """A byte a value, and the slopes [2, groups] behind them."""
    N, P, wide = z.shape
    kept, slopes = _marked(z.size, groups, numbers)
    bits = kept[: z.size].reshape(z.shape)
    by_unit, by_point = np.zeros((2, wide), np.int32), np.zeros((2, N), np.int32)
    tops, bottoms, many_tops, many_bottoms = units[0], units[1], by_unit[0], by_unit[1]
    for n in range(N):
        top, bottom = points[0, n], points[1, n]
        up = down = np.int32(0)
        for r in range(P):
            for c in range(wide):
                k = _key(z[n, r, c], z)
                a, b = np.int32(k == tops[c]), np.int32(k == bottoms[c])
                p, q = np.int32(k == top), np.int32(k == bottom)
                many_tops[c] += a
                many_bottoms[c] += b
                up, down = np.int32(up + p), np.int32(down + q)
                bits[n, r, c] = np.uint8(a | (b << 1) | (p << 2) | (q << 3))
        by_point[0, n], by_point[1, n] = up, down
    for c in range(C, wide):
        by_unit[0, c % C] += by_unit[0, c]
        by_unit[1, c % C] += by_unit[1, c]
    _slope(slopes[:, :shared], by_unit, numbers)
    _slope(slopes[:, shared:], by_point, numbers)
    return kept


@compiled
def _marked(size, groups, numbers):  # type: ignore[no-untyped-def]
    """Room for a byte a value, and behind them for the slopes [2, groups]."""
    start = -(-size // 8) * 8
    kept = np.empty(start + 2 * groups * numbers.itemsize, np.uint8)
    return kept, kept[start:].view(numbers.dtype).reshape(2, groups)


@compiled
def _slope(slopes, ties, numbers):  # type: ignore[no-untyped-def]
    """∂s/∂z of each end of a group: the share of its side, by how many there are."""
    for g in range(slopes.shape[1]):
        slopes[0, g] = -numbers[2] / max(ties[0, g], 1)
        slopes[1, g] = numbers[3] / max(ties[1, g], 1)


@compiled
def maps(z_at, y_at, units_at, points_at, N, P, C, numbers, single, needs_grad):  # type: ignore[no-untyped-def]
    """As `rows`, of maps [N, C, P]."""
    z = carray(_ints(z_at, numbers), (N * C, P))
    y = carray(_ints(y_at, numbers), (N * C if y_at else 0, P))
    cells = np.empty((2, N * C), z.dtype)
    units, points = _start(C, z), _start(N, z)
    for m in range(N * C):
        top, bottom = _relu_map(z[m], y[m]) if y_at else _read_map(z[m])
        cells[0, m], cells[1, m] = top, bottom
        n, c = m // C, m % C
        units[0, c], units[1, c] = max(units[0, c], top), min(units[1, c], bottom)
        points[0, n], points[1, n] = max(points[0, n], top), min(points[1, n], bottom)
    missed = _slacks(units, units_at, numbers) + _slacks(points, points_at, numbers)
    if not missed or not needs_grad:
        return NOTHING, np.empty(0, np.uint8)
    shared = C if units_at else 0
    groups = shared + (N if points_at else 0)
    room = _room(missed, z, single)
    if room:
        entries, ties = np.empty((2, room), np.int32), np.zeros((2, groups), np.int32)
        found = _list_maps(z, cells, units, points, shared, entries, ties, single)
        if found <= room:
            return LISTED, _listed(entries, found, ties, numbers)
    return MARKED, _mark_maps(z, units, points, shared, groups, numbers)


@compiled
def _relu_map(z, y):  # type: ignore[no-untyped-def]
    top, bottom, inf = _least(z), z.dtype.type(~_least(z)), _inf(z)
    for p in range(z.size):
        v = z[p]
        k = _key(v, z)
        y[p] = v if (k > 0) | (k < -inf) else 0
        top, bottom = max(top, k), min(bottom, k)
    return top, bottom


@compiled
def _read_map(z):  # type: ignore[no-untyped-def]
    top, bottom = _least(z), z.dtype.type(~_least(z))
    for p in range(z.size):
        k = _key(z[p], z)
        top, bottom = max(top, k), min(bottom, k)
    return top, bottom


@compiled
def _list_maps(z, cells, units, points, shared, entries, ties, single):  # type: ignore[no-untyped-def]
    """As `_list_rows`; a map is looked into only where its own end is one of its unit's or its point's."""
    M, P = z.shape
    C = units.shape[1]
    room, found = entries.shape[1], 0
    for m in range(M):
        n, c = m // C, m % C
        for side in range(2):
            end = cells[side, m]
            for axis in range(2):
                if end != (points[side, n] if axis else units[side, c]):
                    continue
                g = shared + n if axis else c
                for start in range(0, P, CHUNK):
                    stop = min(start + CHUNK, P)
                    if (single and ties[side, g]) or not _has(z[m, start:stop], end):
                        continue
                    for p in range(start, stop):
                        if _key(z[m, p], z) != end or (single and ties[side, g]):
                            continue
                        if found == room:
                            return room + 1
                        entries[0, found], entries[1, found] = m * P + p, 2 * g + side
                        ties[side, g] += 1
                        found += 1
    return found


@compiled
def _has(z, end):  # type: ignore[no-untyped-def]
    hits = np.int32(0)
    for p in range(z.size):
        hits = np.int32(hits + np.int32(_key(z[p], z) == end))
    return hits > 0


@compiled
def _mark_maps(z, units, points, shared, groups, numbers):  # type: ignore[no-untyped-def]
    """As `_mark_rows`."""
    M, P = z.shape
    C, N = units.shape[1], points.shape[1]
    kept, slopes = _marked(z.size, groups, numbers)
    bits = kept[: z.size].reshape(M, P)
    by_unit, by_point = np.zeros((2, C), np.int32), np.zeros((2, N), np.int32)
    for m in range(M):
        n, c = m // C, m % C
        a, b, p, q = _mark_map(z[m], bits[m], units[0, c], units[1, c], points[0, n], points[1, n])
        by_unit[0, c] += a
        by_unit[1, c] += b
        by_point[0, n] += p
        by_point[1, n] += q
    _slope(slopes[:, :shared], by_unit, numbers)
    _slope(slopes[:, shared:], by_point, numbers)
    return kept


@compiled
def _mark_map(z, bits, unit_top, unit_bottom, top, bottom):  # type: ignore[no-untyped-def]
    many_a = many_b = many_p = many_q = np.int32(0)
    for i in range(z.size):
        k = _key(z[i], z)
        a, b = np.int32(k == unit_top), np.int32(k == unit_bottom)
        p, q = np.int32(k == top), np.int32(k == bottom)
        many_a, many_b = np.int32(many_a + a), np.int32(many_b + b)
        many_p, many_q = np.int32(many_p + p), np.int32(many_q + q)
        bits[i] = np.uint8(a | (b << 1) | (p << 2) | (q << 3))
    return many_a, many_b, many_p, many_q


@compiled
def rows_back(grad_y_at, y_at, units_at, points_at, out_at, kept_at, form, found, N, P, C, shared, own, numbers):  # type: ignore[no-untyped-def]
    """The gradient of z, from those of relu(z), of the units' and of the points' slacks.

    `found` places are listed; there are slacks of `shared` units and of `own` points.
    """
    size = N * P * C
    if form != MARKED:
        out = carray(_floats(out_at, numbers), (size,))
        _relu_back(grad_y_at, y_at, out, numbers)
        if form == LISTED:
            _add_listed(out, units_at, points_at, kept_at, found, shared, numbers)
        return
    units, points = _steps(units_at, points_at, kept_at, N, P, C, shared, own, numbers)
    wide = _wide(P, C)
    steps = np.empty((2, wide), numbers.dtype)
    for c in range(wide):
        steps[0, c], steps[1, c] = units[0, c % C], units[1, c % C]
    out = carray(_floats(out_at, numbers), (N, P * C // wide, wide))
    bits = carray(_bytes(kept_at), out.shape)
    if grad_y_at:
        grad_y, y = carray(_floats(grad_y_at, numbers), out.shape), carray(_floats(y_at, numbers), out.shape)
        _relu_marked_rows(grad_y, y, bits, out, steps, points)
    else:
        _marked_rows(bits, out, steps, points)


@compiled
def _relu_marked_rows(grad_y, y, bits, out, units, points):  # type: ignore[no-untyped-def]
    N, P, C = out.shape
    zero = out.dtype.type(0)
    tops, bottoms = units[0], units[1]
    for n in range(N):
        top, bottom = points[0, n], points[1, n]
        for p in range(P):
            for c in range(C):
                b = np.int32(bits[n, p, c])
                x = zero if y[n, p, c] <= 0 else grad_y[n, p, c]
                x += tops[c] if b & 1 else zero
                x += bottoms[c] if b & 2 else zero
                x += top if b & 4 else zero
                x += bottom if b & 8 else zero
                out[n, p, c] = x


@compiled
def _marked_rows(bits, out, units, points):  # type: ignore[no-untyped-def]
    N, P, C = out.shape
    zero = out.dtype.type(0)
    tops, bottoms = units[0], units[1]
    for n in range(N):
        top, bottom = points[0, n], points[1, n]
        for p in range(P):
            for c in range(C):
                b = np.int32(bits[n, p, c])
                x = tops[c] if b & 1 else zero
                x += bottoms[c] if b & 2 else zero
                x += top if b & 4 else zero
                x += bottom if b & 8 else zero
                out[n, p, c] = x


@compiled
def maps_back(grad_y_at, y_at, units_at, points_at, out_at, kept_at, form, found, N, P, C, shared, own, numbers):  # type: ignore[no-untyped-def]
    """As `rows_back`, of maps [N, C, P]."""
    out = carray(_floats(out_at, numbers), (N * C, P))
    _relu_back(grad_y_at, y_at, out.reshape(-1), numbers)
    if form == LISTED:
        _add_listed(out.reshape(-1), units_at, points_at, kept_at, found, shared, numbers)
    if form == MARKED:
        units, points = _steps(units_at, points_at, kept_at, N, P, C, shared, own, numbers)
        bits = carray(_bytes(kept_at), (N * C, P))
        for m in range(N * C):
            n, c = m // C, m % C
            _add_marked_map(bits[m], out[m], units[0, c], units[1, c], points[0, n], points[1, n])


@compiled
def _add_marked_map(bits, out, unit_top, unit_bottom, top, bottom):  # type: ignore[no-untyped-def]
    zero = out.dtype.type(0)
    for p in range(out.size):
        b = np.int32(bits[p])
        x = out[p]
        x += unit_top if b & 1 else zero
        x += unit_bottom if b & 2 else zero
        x += top if b & 4 else zero
        x += bottom if b & 8 else zero
        out[p] = x


@compiled
def _relu_back(grad_y_at, y_at, out, numbers):  # type: ignore[no-untyped-def]
    if not grad_y_at:
        out[:] = 0
        return
    grad_y, y = carray(_floats(grad_y_at, numbers), (out.size,)), carray(_floats(y_at, numbers), (out.size,))
    zero = numbers.dtype.type(0)
    for i in range(out.size):
        out[i] = zero if y[i] <= 0 else grad_y[i]


@compiled
def _add_listed(out, units_at, points_at, kept_at, found, shared, numbers):  # type: ignore[no-untyped-def]
    slopes = carray(_floats(kept_at, numbers), (found,))
    places = carray(_small_ints(kept_at + found * numbers.itemsize), (2, found))
    units, points = carray(_floats(units_at, numbers), (out.size,)), carray(_floats(points_at, numbers), (out.size,))
    for k in range(found):
        g = places[1, k]
        if g < shared:
            if units_at:
                out[places[0, k]] += slopes[k] * units[g]
        elif points_at:
            out[places[0, k]] += slopes[k] * points[g - shared]


@compiled
def _steps(units_at, points_at, kept_at, N, P, C, shared, own, numbers):  # type: ignore[no-untyped-def]
    """What each end of a unit [2, C] and of a point [2, N] gets; 0 where nothing comes back."""
    units, points = np.zeros((2, C), numbers.dtype), np.zeros((2, N), numbers.dtype)
    slopes = carray(_floats(kept_at + -(-N * P * C // 8) * 8, numbers), (2, shared + own))
    if shared and units_at:
        grad = carray(_floats(units_at, numbers), (C,))
        for c in range(C):
            units[0, c], units[1, c] = slopes[0, c] * grad[c], slopes[1, c] * grad[c]
    if own and points_at:
        grad = carray(_floats(points_at, numbers), (N,))
        for n in range(N):
            points[0, n], points[1, n] = slopes[0, shared + n] * grad[n], slopes[1, shared + n] * grad[n]
    return units, points
