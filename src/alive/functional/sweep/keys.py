"""What all sweeps share: memory by its address, the order of floats, slacks from ends, and what is kept of them."""

# mypy: disable-error-code="call-arg, arg-type, attr-defined"
# (an intrinsic is called without its first argument, and arrays have any number of dimensions)
from __future__ import annotations

from typing import Any

import numpy as np
from numba import carray, types
from numba.extending import intrinsic

from .compiled import kernel
from .forms import LISTED, NOTHING, TIED


@intrinsic
def floats(typing: Any, address: Any, numbers: Any) -> Any:
    """An address as a pointer to floats of the kind of `numbers`."""
    return _pointer(numbers.dtype, address, numbers)


@intrinsic
def ints(typing: Any, address: Any, numbers: Any) -> Any:
    """An address as a pointer to whole numbers of the size of `numbers`."""
    return _pointer(types.int32 if numbers.dtype is types.float32 else types.int64, address, numbers)


@intrinsic
def longs(typing: Any, address: Any) -> Any:
    """An address as a pointer to int64."""
    return _pointer(types.int64, address)


@intrinsic
def small_ints(typing: Any, address: Any) -> Any:
    """An address as a pointer to int32."""
    return _pointer(types.int32, address)


@intrinsic
def marks(typing: Any, address: Any) -> Any:
    """An address as a pointer to bytes."""
    return _pointer(types.uint8, address)


def _pointer(kind: Any, *given: Any) -> Any:
    pointer = types.CPointer(kind)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.inttoptr(args[0], context.get_value_type(pointer))

    return pointer(*given), generate


@kernel
def key(v, z):  # type: ignore[no-untyped-def]
    """The bits of a float as a whole number in the order of the floats, and back; z holds such numbers."""
    return v if v >= 0 else z.dtype.type((-(2**31) if z.itemsize == 4 else -(2**63)) - v)


@kernel
def least(z):  # type: ignore[no-untyped-def]
    """The least whole number there is: no float's key, so that what is to be found nowhere has it."""
    return z.dtype.type(-(2**31) if z.itemsize == 4 else -(2**63))


@kernel
def inf(z):  # type: ignore[no-untyped-def]
    """The key of infinity; those beyond are of NaN."""
    return z.dtype.type(0x7F800000 if z.itemsize == 4 else 0x7FF0000000000000)


@kernel
def start(count, z):  # type: ignore[no-untyped-def]
    """Keys [2, count] of the largest and smallest values, before any was seen."""
    keys = np.empty((2, count), z.dtype)
    low = least(z)
    for g in range(count):
        keys[0, g], keys[1, g] = low, ~low
    return keys


@kernel
def slacks(keys, s_at, numbers):  # type: ignore[no-untyped-def]
    """Write the slacks of groups from the keys of their ends; keep the keys of missed ends only, and count them."""
    low, far = least(keys), inf(keys)
    G = keys.shape[1]
    if not s_at:
        keys[:] = low
        return 0
    s = carray(floats(s_at, numbers), (G,))
    margin_up, margin_down, share_up, share_down = numbers[0], numbers[1], numbers[2], numbers[3]
    zero = numbers.dtype.type(0)
    bits = np.empty((2, G), keys.dtype)
    for g in range(G):
        bits[0, g], bits[1, g] = key(keys[0, g], keys), key(keys[1, g], keys)
    values = bits.view(numbers.dtype)
    missed = 0
    for g in range(G):
        top, bottom = keys[0, g], keys[1, g]
        broken = (top > far) | (bottom < -far)
        up, down = margin_up - values[0, g], margin_down + values[1, g]
        is_up = (up > 0) & (share_up != 0) & (not broken)
        is_down = (down > 0) & (share_down != 0) & (not broken)
        total = (share_up * up if is_up else zero) + (share_down * down if is_down else zero)
        s[g] = numbers.dtype.type(np.nan) if broken else total
        keys[0, g], keys[1, g] = top if is_up else low, bottom if is_down else low
        missed += np.int32(is_up) + np.int32(is_down)
    return missed


@kernel
def has_room(missed, z, single):  # type: ignore[no-untyped-def]
    """Whether places may be listed, if none tie: where they take no more memory than a byte a value."""
    return single or 4 * missed <= z.size


@kernel
def room_for_ties(z, numbers):  # type: ignore[no-untyped-def]
    """How many places may be listed, if some tie."""
    return z.size // (4 + numbers.itemsize)


@kernel
def listed(entries, found, ties, numbers, missed, most):  # type: ignore[no-untyped-def]
    """What is kept of `found` codes and their groups: a form and bytes; NOTHING where they take too much memory."""
    if found == missed:
        return LISTED, entries[0].copy().view(np.uint8)
    size = numbers.itemsize
    if found > most:
        return NOTHING, np.empty(0, np.uint8)
    kept = np.empty(found * (4 + size), np.uint8)
    slopes = kept[: found * size].view(numbers.dtype)
    for k in range(found):
        side = entries[0, k] & 1
        slopes[k] = (numbers[3] if side else -numbers[2]) / ties[side, entries[1, k]]
    kept[found * size :].view(np.int32)[:] = entries[0]
    return TIED, kept


@kernel
def marked(size, groups, numbers):  # type: ignore[no-untyped-def]
    """Room for a byte a value, and behind them for the slopes [2, groups]."""
    begin = -(-size // 8) * 8
    kept = np.empty(begin + 2 * groups * numbers.itemsize, np.uint8)
    return kept, kept[begin:].view(numbers.dtype).reshape(2, groups)


@kernel
def slope(slopes, ties, numbers):  # type: ignore[no-untyped-def]
    """∂s/∂z of each end of a group: the share of its side, by how many there are."""
    for g in range(slopes.shape[1]):
        slopes[0, g] = -numbers[2] / max(ties[0, g], 1)
        slopes[1, g] = numbers[3] / max(ties[1, g], 1)
