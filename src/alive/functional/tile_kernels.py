"""The kernels of `tiles`; a file of its own, that only who has Triton can read."""

# mypy: disable-error-code="no-untyped-def, import-untyped, import-not-found, untyped-decorator"
from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def order(v):
    """A float32 as a whole number in the order of the floats; -0 is 0, and NaN above all."""
    bits = v.to(tl.int32, bitcast=True)
    return tl.where(v != v, 2147483647, tl.where(bits >= 0, bits, -2147483648 - bits))


@triton.jit
def lie(long, wide, C, P, ROWS: tl.constexpr, HEIGHT: tl.constexpr, BLOCK: tl.constexpr):
    """Of a tile: where its values lie, which are there, and the point, unit and place of each."""
    row = tl.program_id(0) * HEIGHT + tl.arange(0, HEIGHT)
    col = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    at = row[:, None] * wide + col[None, :]
    there = (row < long)[:, None] & (col < wide)[None, :]
    if ROWS:
        n, c = row // P, col
        place = (n * C * P + row % P)[:, None] + (c * P)[None, :]
    else:
        n, c, place = row // C, row % C, at
    return row, col, at, there, n, c, place


@triton.jit
def find(
    z, y, keys, units, points, long, wide, N, C, P,
    ROWS: tl.constexpr, HEIGHT: tl.constexpr, BLOCK: tl.constexpr,
    RELU: tl.constexpr, UNITS: tl.constexpr, POINTS: tl.constexpr, WHOLE: tl.constexpr,
    LARGEST: tl.constexpr, SIDES: tl.constexpr,
):  # fmt: skip
    """relu(z) to y, and to keys [sides, units + points] the packed ends of the groups."""
    row, col, at, there, n, c, place = lie(long, wide, C, P, ROWS, HEIGHT, BLOCK)
    raw = tl.load(z + at, mask=there, other=0.0)
    v = raw.to(tl.float32)
    if RELU:
        tl.store(y + at, tl.where(v <= 0, 0.0, v).to(raw.dtype), mask=there)
    for side in tl.static_range(SIDES):
        own = keys + side * (units + points)
        key = order(v) if LARGEST and side == 0 else order(-v)
        packed = (key.to(tl.int64) << 32) | (2147483647 - place).to(tl.int64)
        packed = tl.where(there, packed, -9223372036854775808)
        by_row = tl.max(packed, 1)
        if WHOLE:
            tl.atomic_max(own, tl.max(by_row, 0))
        if UNITS and ROWS:
            tl.atomic_max(own + c, tl.max(packed, 0), mask=col < wide)
        if UNITS and not ROWS:
            tl.atomic_max(own + c, by_row, mask=row < long)
        if POINTS:
            tl.atomic_max(own + units + n, by_row, mask=row < long)


@triton.jit
def unpack(keys, ends, places, count, groups, LARGEST: tl.constexpr, BLOCK: tl.constexpr):
    """Values and places of packed ends [sides, groups]."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    packed = tl.load(keys + i, mask=i < count, other=0)
    key = (packed >> 32).to(tl.int32)
    value = tl.where(key >= 0, key, -2147483648 - key).to(tl.float32, bitcast=True)
    largest = (i < groups) & LARGEST
    tl.store(ends + i, tl.where(largest, value, -value).to(ends.dtype.element_ty), mask=i < count)
    tl.store(places + i, 2147483647 - (packed & 4294967295), mask=i < count)


@triton.jit
def add(
    grad_y, y, grad_ends, places, out, stride, units, points, long, wide, N, C, P,
    ROWS: tl.constexpr, HEIGHT: tl.constexpr, BLOCK: tl.constexpr,
    RELU: tl.constexpr, UNITS: tl.constexpr, POINTS: tl.constexpr, WHOLE: tl.constexpr,
    SIDES: tl.constexpr,
):  # fmt: skip
    """The gradient of z: that of relu(z), and at its places that of the ends."""
    row, col, at, there, n, c, place = lie(long, wide, C, P, ROWS, HEIGHT, BLOCK)
    grad = tl.zeros([HEIGHT, BLOCK], tl.float32)
    if RELU:
        on = tl.load(y + at, mask=there, other=0.0).to(tl.float32)
        grad = tl.where(on <= 0, 0.0, tl.load(grad_y + at, mask=there, other=0.0).to(tl.float32))
    for side in tl.static_range(SIDES):
        first, own = side * (units + points), grad_ends + side * stride
        if UNITS and ROWS:
            here = tl.load(places + first + c, mask=col < wide, other=-1)
            amount = tl.load(own + c, mask=col < wide, other=0.0).to(tl.float32)
            grad += tl.where(here[None, :] == place, amount[None, :], 0.0)
        if UNITS and not ROWS:
            here = tl.load(places + first + c, mask=row < long, other=-1)
            amount = tl.load(own + c, mask=row < long, other=0.0).to(tl.float32)
            grad += tl.where(here[:, None] == place, amount[:, None], 0.0)
        if POINTS:
            here = tl.load(places + first + units + n, mask=row < long, other=-1)
            amount = tl.load(own + units + n, mask=row < long, other=0.0).to(tl.float32)
            grad += tl.where(here[:, None] == place, amount[:, None], 0.0)
        if WHOLE:
            grad += tl.where(tl.load(places + first) == place, tl.load(own).to(tl.float32), 0.0)
    tl.store(out + at, grad.to(out.dtype.element_ty), mask=there)
