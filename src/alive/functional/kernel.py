"""The separation slacks of one layer as one compiled CPU function: the twin of `separation.slacks` behind `fused`.

Arrays: z [N, C, P]; top and bottom [N, C, Q] hold the extremes over the positions with Q = 1 (a unit is a channel),
or are z itself with Q = P (each position on its own). Groups are numbered units first, then points, then the layer;
a group's end is its largest z on side 0, and its largest −z on side 1.
"""

from __future__ import annotations

import numpy as np

from .keeping import compiled

CHUNK = 128  # positions compared at once before looking closer: without a branch the comparison runs in vectors


@compiled
def measure(z, top, bottom, axes, margins, shares, single, needs_grad, few):  # type: ignore[no-untyped-def]
    """Slacks s, and their derivative as (index, group, slope): ∂s[group]/∂z.flat[index] = slope.

    axes = (units, points, layer): which are asked for. margins and shares are of ξ⁺ and ξ⁻, in the dtype of s. The
    fifth result says whether more values tie than are worth a list (so `few` are, in any layer), which is then empty.
    """
    N, C, Q = top.shape
    P = z.shape[2]
    pooled = Q < P
    starts = (0, C * Q if axes[0] else 0, (C * Q if axes[0] else 0) + (N * Q if axes[1] else 0))
    groups = starts[2] + (1 if axes[2] else 0)
    s = np.zeros(groups, shares.dtype)
    ties = np.zeros((2, groups), np.int64)
    index, group, side_of = (
        np.empty(4 * groups, np.int64),
        np.empty(4 * groups, np.int64),
        np.empty(4 * groups, np.int8),
    )
    found, most, many = 0, 4 * groups + max(few, z.size // 16), False
    for side in range(2):
        if shares[side] == 0:
            continue
        maps, sign = (top, 1) if side == 0 else (bottom, -1)
        ends = find_ends(maps, sign, axes, starts, groups)
        short = False
        for g in range(groups):
            xi = margins[side] - ends[g]
            if xi <= 0:
                xi = margins.dtype.type(0)
                ends[g] = np.nan  # satisfied: equal to nothing, so not looked for
            short |= xi > 0
            s[g] += shares[side] * xi
        if many or not (needs_grad and short):
            continue
        for n in range(N):
            for c in range(C):
                for q in range(Q):
                    value = maps[n, c, q]
                    for axis in range(3):
                        g = starts[axis] + (c * Q + q if axis == 0 else n * Q + q if axis == 1 else 0)
                        if many or not axes[axis] or sign * value != ends[g] or (single and ties[side, g]):
                            continue
                        start, stop = (0, P) if pooled else (q, q + 1)
                        for chunk in range(start, stop, CHUNK):
                            end = min(chunk + CHUNK, stop)
                            if pooled and not has(z, n, c, value, chunk, end):
                                continue
                            while index.size < found + CHUNK:
                                index, group, side_of = grow(index), grow(group), grow(side_of)
                            for p in range(chunk, end):
                                if z[n, c, p] == value and not (single and ties[side, g]):
                                    index[found], group[found], side_of[found] = (n * C + c) * P + p, g, side
                                    ties[side, g] += 1
                                    found += 1
                            if found > most or (single and ties[side, g]):
                                many = found > most
                                break
    if many:
        found = 0
    slope = np.empty(found, shares.dtype)
    for k in range(found):
        side = side_of[k]
        slope[k] = (shares[1] if side else -shares[0]) / ties[side, group[k]]
    return s, index[:found].copy(), group[:found].copy(), slope, many


@compiled
def find_ends(maps, sign, axes, starts, groups):  # type: ignore[no-untyped-def]
    """The largest sign·value of each group; NaN where one is NaN."""
    ends = np.full(groups, -np.inf, maps.dtype)
    N, C, Q = maps.shape
    for n in range(N):
        for c in range(C):
            for q in range(Q):
                value = sign * maps[n, c, q]
                for axis in range(3):
                    if axes[axis]:
                        g = starts[axis] + (c * Q + q if axis == 0 else n * Q + q if axis == 1 else 0)
                        end = ends[g]
                        if not (end >= value or end != end):
                            ends[g] = value
    return ends


@compiled
def has(z, n, c, value, start, stop):  # type: ignore[no-untyped-def]
    """Whether z[n, c, p] equals the value for some p in [start, stop)."""
    near = z[n, c, start:stop]
    equal = np.int32(0)
    for p in range(near.size):
        if near[p] == value:
            equal |= np.int32(1)
    return equal > 0


@compiled
def grow(array):  # type: ignore[no-untyped-def]
    """A copy with room for more."""
    more = np.empty(2 * array.size, array.dtype)
    more[: array.size] = array
    return more
