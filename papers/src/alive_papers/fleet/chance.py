"""Dropout masks from a counter: which entries are kept follows from seed, step, layer, row and point alone."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .compiled import entry_point, kernel

GOLDEN = 0x9E3779B97F4A7C15


@kernel
def stir(x):  # type: ignore[no-untyped-def]
    """The finaliser of splitmix64: every bit of x moves every bit of the answer."""
    x = np.uint64(x) + np.uint64(GOLDEN)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@entry_point
def key_of(seed, step, layer):  # type: ignore[no-untyped-def]
    """The key of one layer's mask in one step."""
    return stir(stir(stir(np.uint64(seed)) ^ np.uint64(step)) ^ np.uint64(layer))


@entry_point
def drop(rows, key, rate, count):  # type: ignore[no-untyped-def]
    """Zero each entry with probability `rate` and scale up the rest, in place; padding follows the last point."""
    scale = np.float32(1) / (np.float32(1) - rate)
    bound = np.uint32(np.float64(rate) * 4294967296.0)
    for j in range(rows.shape[0]):
        row = rows[j]
        first = np.uint32(stir(key ^ np.uint64(j)))
        for n in range(row.size):
            bits = np.uint32(first + np.uint32(min(n, count - 1)) * np.uint32(0x9E3779B9))
            bits = np.uint32((bits ^ (bits >> np.uint32(16))) * np.uint32(0x85EBCA6B))
            bits = np.uint32((bits ^ (bits >> np.uint32(13))) * np.uint32(0xC2B2AE35))
            bits = np.uint32(bits ^ (bits >> np.uint32(16)))
            row[n] = row[n] * scale if bits >= bound else np.float32(0)


def mask(seed: int, step: int, layer: int, *, rows: int, points: int, rate: float) -> NDArray[np.float32]:
    """What a member multiplies the input [rows, points] of a hidden layer with in one step, both counted from 0.

    >>> kept = mask(10, 3, 0, rows=100, points=100, rate=0.8) > 0
    >>> round(float(kept.mean()), 1)
    0.2
    """
    ones = np.ones((rows, points), np.float32)
    drop(ones, np.uint64(key_of(seed, step, layer)), np.float32(rate), points)
    return ones
