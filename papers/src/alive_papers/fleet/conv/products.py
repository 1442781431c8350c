"""Convolutions of one block of sixteen images, [channel][row][column][16], with a border of zeros kept in memory.

Tiles at the right edge reach back over columns that were done already: doing them twice changes nothing.
"""

from __future__ import annotations

from typing import Any

from numba import carray  # type: ignore[attr-defined]

from ..compiled import kernel
from ..lanes import WIDTH
from ..native import FLOATS, WHOLE, floats, native
from .tiles import (
    add_products,
    add_taps,
    add_totals,
    begin,
    no_ends,
    nothing,
    put,
    put_ends,
    relu_of,
    where_on,
    widened,
)

RELU, KEEP, MEASURE = 1, 2, 4  # what a forward convolution does beside its sums


def _forward(channels: int, columns: int, taps: int) -> Any:
    """A convolution from so many sources to some channels from j on; sizes are constants of the code."""

    @native(f"forward_{channels}_{taps}", *[FLOATS] * 7, *[WHOLE] * 5)
    def over_map(weight, bias, rows, out, z, top, bottom, sources, j, last, side, mode):  # type: ignore[no-untyped-def]
        reach = taps // 2
        pitch = side + 2 * reach
        size = pitch * pitch * WIDTH
        weights, source = carray(weight, (last, sources * taps * taps)), carray(rows, (sources, size))
        biases, sums, kept = carray(bias, (1, last)), carray(out, (last, size)), carray(z, (last, size))
        high, low = carray(top, (last * side, WIDTH)), carray(bottom, (last * side, WIDTH))
        for y in range(side):
            ends = no_ends(channels)
            for start in range(0, side, columns):
                x = min(start, side - columns)
                tile = begin(biases, j, channels, columns)
                for k in range(sources):
                    for t in range(taps):
                        n = ((y + t) * pitch + x) * WIDTH
                        tile = add_taps(tile, source, k, n, weights, j, (k * taps + t) * taps, channels, columns, taps)
                at = ((y + reach) * pitch + x + reach) * WIDTH
                if mode & KEEP:
                    put(tile, kept, j, at, columns)
                if mode & MEASURE:
                    ends = widened(ends, tile, columns)
                put(relu_of(tile) if mode & RELU else tile, sums, j, at, columns)
            if mode & MEASURE:
                put_ends(ends, high, low, j * side + y, side)

    return over_map


def _back(channels: int, columns: int, taps: int) -> Any:
    """The same with turned weights, back through the ReLU below."""

    @native(f"back_{channels}_{taps}", *[FLOATS] * 5, *[WHOLE] * 4)
    def over_map(weight, none, g, h, out, sources, j, last, side):  # type: ignore[no-untyped-def]
        reach = taps // 2
        pitch = side + 2 * reach
        size = pitch * pitch * WIDTH
        weights, source = carray(weight, (last, sources * taps * taps)), carray(g, (sources, size))
        zeros, on, sums = carray(none, (1, last)), carray(h, (last, size)), carray(out, (last, size))
        for y in range(side):
            for start in range(0, side, columns):
                x = min(start, side - columns)
                tile = begin(zeros, j, channels, columns)
                for k in range(sources):
                    for t in range(taps):
                        n = ((y + t) * pitch + x) * WIDTH
                        tile = add_taps(tile, source, k, n, weights, j, (k * taps + t) * taps, channels, columns, taps)
                at = ((y + reach) * pitch + x + reach) * WIDTH
                put(where_on(tile, on, j, at, columns), sums, j, at, columns)

    return over_map


def _slopes(channels: int, sources: int, taps: int) -> Any:
    """The gradient of the weights from some sources, from k on, to some channels, from j on."""

    @native(f"slopes_{channels}_{sources}_{taps}", *[FLOATS] * 3, *[WHOLE] * 5)
    def over_map(g, rows, slope, j, k, last, final, side):  # type: ignore[no-untyped-def]
        reach = taps // 2
        pitch = side + 2 * reach
        size = pitch * pitch * WIDTH
        slopes, source = carray(g, (last, size)), carray(rows, (final, size))
        out = carray(slope, (last, final * taps * taps))
        for t in range(taps):
            tile = nothing(channels, sources, taps)
            for y in range(side):
                n = ((y + reach) * pitch + reach) * WIDTH
                m = (y + t) * pitch * WIDTH
                for x in range(side):
                    at = x * WIDTH
                    tile = add_products(tile, slopes, j, n + at, source, k, m + at, channels, sources, taps)
            add_totals(tile, out, j, (k * taps + t) * taps, sources, taps)

    return over_map


forward_4_3, forward_2_3, forward_1_3 = _forward(4, 2, 3), _forward(2, 4, 3), _forward(1, 4, 3)
forward_4_1, forward_1_1 = _forward(4, 2, 1), _forward(1, 4, 1)
back_4_3, back_2_3, back_1_3 = _back(4, 2, 3), _back(2, 4, 3), _back(1, 4, 3)
back_4_1, back_1_1 = _back(4, 2, 1), _back(1, 4, 1)
slopes_4_2_3, slopes_4_1_3, slopes_2_2_3, slopes_1_1_3 = (
    _slopes(4, 2, 3),
    _slopes(4, 1, 3),
    _slopes(2, 2, 3),
    _slopes(1, 1, 3),
)
slopes_4_1_1, slopes_1_1_1 = _slopes(4, 1, 1), _slopes(1, 1, 1)


@kernel
def convolve(weight, bias, rows, side, taps, out, z, top, bottom, mode):  # type: ignore[no-untyped-def]
    """out = weight * rows + bias, or its ReLU; by mode, what comes before the ReLU to z, and extremes of rows."""
    j, channels, sources = 0, weight.shape[0], rows.shape[0]
    w, b, r, o = floats(weight), floats(bias), floats(rows), floats(out)
    kept, high, low = floats(z), floats(top), floats(bottom)
    while j < channels:
        left = channels - j
        if taps == 3 and left >= 4:
            forward_4_3(w, b, r, o, kept, high, low, sources, j, channels, side, mode)
            j += 4
        elif taps == 3 and left >= 2:
            forward_2_3(w, b, r, o, kept, high, low, sources, j, channels, side, mode)
            j += 2
        elif taps == 3:
            forward_1_3(w, b, r, o, kept, high, low, sources, j, channels, side, mode)
            j += 1
        elif left >= 4:
            forward_4_1(w, b, r, o, kept, high, low, sources, j, channels, side, mode)
            j += 4
        else:
            forward_1_1(w, b, r, o, kept, high, low, sources, j, channels, side, mode)
            j += 1


@kernel
def turn(weight, taps, turned):  # type: ignore[no-untyped-def]
    """turned[k, j] = weight[j, k] with its kernel turned by half: what carries a gradient back."""
    area = taps * taps
    for j in range(weight.shape[0]):
        for k in range(turned.shape[0]):
            for t in range(area):
                turned[k, j * area + t] = weight[j, k * area + area - 1 - t]


@kernel
def convolve_back(turned, none, g, side, taps, h, out):  # type: ignore[no-untyped-def]
    """The gradient of the pre-activations below, whose ReLU is h, from that of a layer's sums."""
    j, channels, sources = 0, turned.shape[0], g.shape[0]
    w, n, r, on, o = floats(turned), floats(none), floats(g), floats(h), floats(out)
    while j < channels:
        left = channels - j
        if taps == 3 and left >= 4:
            back_4_3(w, n, r, on, o, sources, j, channels, side)
            j += 4
        elif taps == 3 and left >= 2:
            back_2_3(w, n, r, on, o, sources, j, channels, side)
            j += 2
        elif taps == 3:
            back_1_3(w, n, r, on, o, sources, j, channels, side)
            j += 1
        elif left >= 4:
            back_4_1(w, n, r, on, o, sources, j, channels, side)
            j += 4
        else:
            back_1_1(w, n, r, on, o, sources, j, channels, side)
            j += 1


@kernel
def add_slopes(g, rows, side, taps, slope):  # type: ignore[no-untyped-def]
    """slope += the gradient of a layer's weights, from that of its sums and what it read."""
    j, channels, sources = 0, g.shape[0], rows.shape[0]
    p, r, o = floats(g), floats(rows), floats(slope)
    while j < channels:
        high = 4 if channels - j >= 4 else 2 if channels - j >= 2 and taps == 3 else 1
        k = 0
        while k < sources:
            pair = sources - k >= 2
            if taps == 3 and high == 4 and pair:
                slopes_4_2_3(p, r, o, j, k, channels, sources, side)
                k += 2
            elif taps == 3 and high == 4:
                slopes_4_1_3(p, r, o, j, k, channels, sources, side)
                k += 1
            elif taps == 3 and high == 2 and pair:
                slopes_2_2_3(p, r, o, j, k, channels, sources, side)
                k += 2
            elif taps == 3:
                for i in range(high):
                    slopes_1_1_3(p, r, o, j + i, k, channels, sources, side)
                k += 1
            elif high == 4:
                slopes_4_1_1(p, r, o, j, k, channels, sources, side)
                k += 1
            else:
                slopes_1_1_1(p, r, o, j, k, channels, sources, side)
                k += 1
        j += high
