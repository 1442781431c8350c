"""The way back: the gradient of z, by what the sweep kept."""

# mypy: disable-error-code="call-arg, arg-type, attr-defined"
from __future__ import annotations

import numpy as np
from numba import carray

from .compiled import entry_point, kernel
from .forms import LISTED, MARKED, TIED
from .keys import floats, marks, small_ints
from .rows import width


@entry_point
def rows_back(grad_y_at, y_at, units_at, points_at, out_at, kept_at, form, found, N, P, C, shared, own, numbers):  # type: ignore[no-untyped-def]
    """The gradient of z, from those of y, of the units' and of the points' slacks; y is relu(z), or z itself (y_at: 0).

    `found` places are listed; there are slacks of `shared` units and of `own` points.
    """
    out = carray(floats(out_at, numbers), (N * P * C,))
    _relu_back(grad_y_at, y_at, out, numbers)
    if form in (LISTED, TIED):
        _add_listed(out, units_at, points_at, kept_at, form, found, N, P, C, True, numbers)
    if form == MARKED:
        units, points = _steps(units_at, points_at, kept_at, N, P, C, shared, own, numbers)
        wide = width(P, C)
        steps = np.empty((2, wide), numbers.dtype)
        for c in range(wide):
            steps[0, c], steps[1, c] = units[0, c % C], units[1, c % C]
        each = out.reshape(N, P * C // wide, wide)
        _add_marked_rows(carray(marks(kept_at), each.shape), each, steps, points)


@kernel
def _add_marked_rows(bits, out, units, points):  # type: ignore[no-untyped-def]
    N, P, C = out.shape
    zero = out.dtype.type(0)
    tops, bottoms = units[0], units[1]
    for n in range(N):
        top, bottom = points[0, n], points[1, n]
        for p in range(P):
            for c in range(C):
                b = np.int32(bits[n, p, c])
                x = out[n, p, c]
                x += tops[c] if b & 1 else zero
                x += bottoms[c] if b & 2 else zero
                x += top if b & 4 else zero
                x += bottom if b & 8 else zero
                out[n, p, c] = x


@entry_point
def maps_back(grad_y_at, y_at, units_at, points_at, out_at, kept_at, form, found, N, P, C, shared, own, numbers):  # type: ignore[no-untyped-def]
    """As `rows_back`, of maps [N, C, P]."""
    out = carray(floats(out_at, numbers), (N * C, P))
    _relu_back(grad_y_at, y_at, out.reshape(-1), numbers)
    if form in (LISTED, TIED):
        _add_listed(out.reshape(-1), units_at, points_at, kept_at, form, found, N, P, C, False, numbers)
    if form == MARKED:
        units, points = _steps(units_at, points_at, kept_at, N, P, C, shared, own, numbers)
        bits = carray(marks(kept_at), (N * C, P))
        for m in range(N * C):
            n, c = m // C, m % C
            _add_marked_map(bits[m], out[m], units[0, c], units[1, c], points[0, n], points[1, n])


@kernel
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


@kernel
def _relu_back(grad_y_at, y_at, out, numbers):  # type: ignore[no-untyped-def]
    if not grad_y_at:
        out[:] = 0
        return
    grad_y, y = carray(floats(grad_y_at, numbers), (out.size,)), carray(floats(y_at, numbers), (out.size,))
    if not y_at:
        out[:] = grad_y
        return
    zero = numbers.dtype.type(0)
    for i in range(out.size):
        out[i] = zero if y[i] <= 0 else grad_y[i]


@kernel
def _add_listed(out, units_at, points_at, kept_at, form, found, N, P, C, by_rows, numbers):  # type: ignore[no-untyped-def]
    """Add what the listed places get; they come point by point."""
    size = numbers.itemsize if form == TIED else 0
    codes = carray(small_ints(kept_at + found * size), (found,))
    slopes = carray(floats(kept_at, numbers), (found,))
    units, points = carray(floats(units_at, numbers), (C,)), carray(floats(points_at, numbers), (N,))
    n, behind = 0, P * C  # a point, and the place behind it
    for k in range(found):
        place, which = codes[k] >> 2, codes[k] & 3
        while place >= behind:
            n, behind = n + 1, behind + P * C
        if not (points_at if which >= 2 else units_at):
            continue
        step = slopes[k] if form == TIED else (numbers[3] if which & 1 else -numbers[2])
        out[place] += step * (points[n] if which >= 2 else units[place % C if by_rows else place // P % C])


@kernel
def _steps(units_at, points_at, kept_at, N, P, C, shared, own, numbers):  # type: ignore[no-untyped-def]
    """What each end of a unit [2, C] and of a point [2, N] gets; 0 where nothing comes back."""
    units, points = np.zeros((2, C), numbers.dtype), np.zeros((2, N), numbers.dtype)
    slopes = carray(floats(kept_at + -(-N * P * C // 8) * 8, numbers), (2, shared + own))
    if shared and units_at:
        grad = carray(floats(units_at, numbers), (C,))
        for c in range(C):
            units[0, c], units[1, c] = slopes[0, c] * grad[c], slopes[1, c] * grad[c]
    if own and points_at:
        grad = carray(floats(points_at, numbers), (N,))
        for n in range(N):
            points[0, n], points[1, n] = slopes[0, shared + n] * grad[n], slopes[1, shared + n] * grad[n]
    return units, points
