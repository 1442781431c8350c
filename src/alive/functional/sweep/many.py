"""Many small layers by one call: a call from Python takes longer than a small layer."""

# mypy: disable-error-code="call-arg, arg-type, attr-defined"
from __future__ import annotations

import numpy as np

from .back import maps_back, rows_back
from .compiled import entry_point, kernel
from .forms import MARKED, TIED
from .maps import maps
from .rows import rows

# Of a layer, in a row of `layers`: which of the axes its units and its points are (-1: none) and where in the slacks
# of that axis they begin, how it lies (`Way.lies`), how many units and points have slacks, whether in rows, and ties.
UNITS, UNITS_FROM, POINTS, POINTS_FROM, N, P, C, SHARED, OWN, BY_ROWS, SINGLE = range(11)


@entry_point
def many(layers, numbers, at, slacks_at, needs_grad):  # type: ignore[no-untyped-def]
    """`rows` or `maps` of layers at their addresses `at`, with slacks to the addresses of all axes.

    Gives their forms, and where in the last result the bytes of each end.
    """
    L = layers.shape[0]
    forms, ends = np.empty(L, np.int64), np.empty(L, np.int64)
    kept, used = np.empty(0, np.uint8), 0
    for number in range(L):
        of = layers[number]
        units_at, points_at = _slacks_of(of, slacks_at, numbers.itemsize)
        layer = at[number], 0, units_at, points_at, of[N], of[P], of[C]
        how = numbers[number], of[SINGLE] != 0, needs_grad[number]
        form, mine = rows(*layer, *how) if of[BY_ROWS] else maps(*layer, *how)
        begin = used
        used += mine.size
        if -(-used // 8) * 8 > kept.size:
            larger = np.empty(-(-used // 8) * 8 + (L - 1 - number) * (mine.size + 8), np.uint8)
            larger[:begin] = kept[:begin]
            kept = larger
        kept[begin:used] = mine
        forms[number], ends[number] = form, used
        used = -(-used // 8) * 8  # floats lie at multiples of their size
    return forms, ends, kept[:used] if used > 0.8 * kept.size else kept[:used].copy()


@kernel
def _slacks_of(of, slacks_at, size):  # type: ignore[no-untyped-def]
    """Where the slacks of the units and of the points of a layer begin, or their gradients; 0: nowhere."""
    units_at, points_at = np.int64(0), np.int64(0)
    if of[UNITS] >= 0 and slacks_at[of[UNITS]]:
        units_at = slacks_at[of[UNITS]] + of[UNITS_FROM] * size
    if of[POINTS] >= 0 and slacks_at[of[POINTS]]:
        points_at = slacks_at[of[POINTS]] + of[POINTS_FROM] * size
    return units_at, points_at


@entry_point
def many_back(layers, numbers, outs, grads_at, kept_at, forms, ends):  # type: ignore[no-untyped-def]
    """`rows_back` or `maps_back` of the slacks alone, to the addresses `outs`; 0: not asked for."""
    begin = 0
    for number in range(layers.shape[0]):
        of, form = layers[number], forms[number]
        entry = 4 + (numbers.itemsize if form == TIED else 0)
        found = 0 if form == MARKED else (ends[number] - begin) // entry
        if outs[number]:
            units_at, points_at = _slacks_of(of, grads_at, numbers.itemsize)
            lies = of[N], of[P], of[C], of[SHARED], of[OWN]
            args = 0, 0, units_at, points_at, outs[number], kept_at + begin, form, found
            if of[BY_ROWS]:
                rows_back(*args, *lies, numbers[number])
            else:
                maps_back(*args, *lies, numbers[number])
        begin = -(-ends[number] // 8) * 8
