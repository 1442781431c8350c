"""The ends of a layer's groups and their places, by the sweeps that make slacks."""

# mypy: disable-error-code="call-arg, arg-type, attr-defined"
from __future__ import annotations

import numpy as np
from numba import carray

from . import maps as by_maps
from . import rows as by_rows
from .compiled import entry_point, kernel
from .keys import floats, inf, key, least, longs


@entry_point
def rows_ends(z_at, y_at, ends_at, places_at, N, P, C, shared, own, numbers):  # type: ignore[no-untyped-def]
    """relu(z) to y; the ends [2, shared + own] of units and points of rows [N, P, C], and a place [N, C, P] of each.

    `numbers` are the margins. Where an end reaches its own it needs no place, and has 0.
    """
    z, wide, keys, units, points = by_rows.first_pass(z_at, y_at, N, P, C, numbers)
    places = carray(longs(places_at), (2, shared + own))
    missed = _tell_all(units, points, ends_at, places, shared, own, numbers)
    if missed:
        by_rows.unfold(keys, units, C)
        entries, ties = np.empty((2, missed), np.int32), np.zeros((2, shared + own), np.int32)
        by_rows.find(z, wide, C, keys, points, shared, entries, ties, missed, missed, True)
        for k in range(missed):
            place = np.int64(entries[0, k] >> 2)
            n, p, c = place // (P * C), place // C % P, place % C
            places[entries[0, k] & 1, entries[1, k]] = (n * C + c) * P + p


@entry_point
def maps_ends(z_at, y_at, ends_at, places_at, N, P, C, shared, own, numbers):  # type: ignore[no-untyped-def]
    """As `rows_ends`, of maps [N, C, P]."""
    z, cells, units, points = by_maps.first_pass(z_at, y_at, N, P, C, numbers)
    places = carray(longs(places_at), (2, shared + own))
    missed = _tell_all(units, points, ends_at, places, shared, own, numbers)
    if missed:
        entries, ties = np.empty((2, missed), np.int32), np.zeros((2, shared + own), np.int32)
        by_maps.find(z, cells, units, points, shared, entries, ties, missed, missed, True)
        for k in range(missed):
            places[entries[0, k] & 1, entries[1, k]] = entries[0, k] >> 2


@kernel
def _tell_all(units, points, ends_at, places, shared, own, numbers):  # type: ignore[no-untyped-def]
    """Write the values of all ends; keep the keys of those that miss their margins only, and count them."""
    ends = carray(floats(ends_at, numbers), places.shape)
    missed = _tell(units, ends[:, :shared], numbers) + _tell(points, ends[:, shared:], numbers)
    places[:] = 0
    return missed


@kernel
def _tell(keys, ends, numbers):  # type: ignore[no-untyped-def]
    low, far, missed = least(keys), inf(keys), 0
    bits = np.empty(keys.shape, keys.dtype)
    values = bits.view(numbers.dtype)
    for g in range(keys.shape[1]):
        bits[0, g], bits[1, g] = key(keys[0, g], keys), key(keys[1, g], keys)
        broken = (keys[0, g] > far) | (keys[1, g] < -far)
        for side in range(2):
            short = (g < ends.shape[1]) & (not broken)
            short &= (numbers[0] - values[0, g] if side == 0 else numbers[1] + values[1, g]) > 0
            if g < ends.shape[1]:
                ends[side, g] = np.nan if broken else values[side, g]
            if not short:
                keys[side, g] = low
            missed += 1 if short else 0
    return missed
