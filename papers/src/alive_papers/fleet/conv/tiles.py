"""Tiles of a convolution in registers: some channels by some columns of a map, sixteen images each.

A tile is a tuple of vectors, channel by channel. Its sizes are constants where it is used, so that all that is done
to a tile is straight code: weights are read once for all columns, columns once for all channels and taps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils

from ..lanes import LANES, VECTOR, WIDTH, _address, _choose, _folded, _fused, _splat, intrinsic

ZERO = ir.Constant(VECTOR, [0.0] * WIDTH)
_total = _folded(lambda builder, low, high: builder.fadd(low, high))


class _Code:
    """Writes the code of one intrinsic: places in arrays, and tiles as lists of vectors."""

    def __init__(self, context: Any, builder: Any, signature: Any, args: Any) -> None:
        self.context, self.builder, self.signature, self.args = context, builder, signature, args

    def number(self, which: int) -> Any:
        """A whole number among the arguments."""
        return self.context.cast(self.builder, self.args[which], self.signature.args[which], types.intp)

    def where(self, array: int, row: int, column: int, *, down: int = 0, right: int = 0) -> Any:
        """Where array[row + down, column + right] lies; the three are numbers of arguments."""
        j, n = (
            self.builder.add(self.number(which), ir.Constant(ir.IntType(64), more))
            for which, more in ((row, down), (column, right))
        )
        return _address(self.context, self.builder, self.signature.args[array], self.args[array], j, n)

    def load(self, where: Any) -> Any:
        """Sixteen floats."""
        return self.builder.load(self.builder.bitcast(where, VECTOR.as_pointer()), align=4)

    def store(self, value: Any, where: Any) -> None:
        """Sixteen floats."""
        self.builder.store(value, self.builder.bitcast(where, VECTOR.as_pointer()), align=4)

    def splat(self, where: Any) -> Any:
        """One float in every lane."""
        return _splat(self.builder, self.builder.load(where))

    def tile(self, which: int) -> list[Any]:
        """The vectors of a tile among the arguments."""
        return list(cgutils.unpack_tuple(self.builder, self.args[which]))

    def packed(self, vectors: Sequence[Any]) -> Any:
        """Vectors as a tile."""
        return self.context.make_tuple(self.builder, self.signature.return_type, vectors)


def _writes(signature: Any, write: Callable[[_Code], Any]) -> tuple[Any, Callable[..., Any]]:
    """An intrinsic of this signature by what writes its code."""

    def code(context: Any, builder: Any, signed: Any, args: Any) -> Any:
        found = write(_Code(context, builder, signed, args))
        return context.get_dummy_value() if found is None else found

    return signature, code


def _tile(*sizes: Any) -> Any:
    count = 1
    for size in sizes:
        count *= size.literal_value
    return types.UniTuple(LANES, count)


@intrinsic(prefer_literal=True)
def begin(typing_context, bias, j, channels, columns):  # type: ignore[no-untyped-def]
    """A tile of bias[0, j], bias[0, j + 1] ... each in all its columns."""

    def write(code: _Code) -> Any:
        zero = ir.Constant(ir.IntType(64), 0)
        found = []
        for channel in range(channels.literal_value):
            number = code.builder.add(code.number(1), ir.Constant(ir.IntType(64), channel))
            where = _address(code.context, code.builder, code.signature.args[0], code.args[0], zero, number)
            found += [code.splat(where)] * columns.literal_value
        return code.packed(found)

    return _writes(_tile(channels, columns)(bias, j, channels, columns), write)


@intrinsic(prefer_literal=True)
def nothing(typing_context, channels, columns, taps):  # type: ignore[no-untyped-def]
    """A tile of zeros."""
    kind = _tile(channels, columns, taps)
    return _writes(kind(channels, columns, taps), lambda code: code.packed([ZERO] * kind.count))


@intrinsic(prefer_literal=True)
def add_taps(typing_context, tile, rows, c, n, weight, j, k, channels, columns, taps):  # type: ignore[no-untyped-def]
    """tile[i, x] += Σ_t weight[j + i, k + t] · rows[c, n + 16(x + t)]: one row of a kernel."""
    J, X, T = (each.literal_value for each in (channels, columns, taps))

    def write(code: _Code) -> Any:
        found = code.tile(0)
        seen = [code.load(code.where(1, 2, 3, right=WIDTH * x)) for x in range(X + T - 1)]
        for t in range(T):
            for i in range(J):
                w = code.splat(code.where(4, 5, 6, down=i, right=t))
                for x in range(X):
                    found[i * X + x] = _fused(code.builder, w, seen[x + t], found[i * X + x])
        return code.packed(found)

    return _writes(tile(tile, rows, c, n, weight, j, k, channels, columns, taps), write)


@intrinsic(prefer_literal=True)
def put(typing_context, tile, out, j, n, columns):  # type: ignore[no-untyped-def]
    """out[j + i, n + 16 x] = tile[i, x]."""

    def write(code: _Code) -> None:
        for number, value in enumerate(code.tile(0)):
            i, x = divmod(number, columns.literal_value)
            code.store(value, code.where(1, 2, 3, down=i, right=WIDTH * x))

    return _writes(types.void(tile, out, j, n, columns), write)


@intrinsic(prefer_literal=True)
def relu_of(typing_context, tile):  # type: ignore[no-untyped-def]
    """max(tile, 0); NaN stays NaN."""

    def write(code: _Code) -> Any:
        return code.packed([_choose("<")(code.builder, v, ZERO, ZERO, v) for v in code.tile(0)])

    return _writes(tile(tile), write)


@intrinsic(prefer_literal=True)
def where_on(typing_context, tile, h, j, n, columns):  # type: ignore[no-untyped-def]
    """The tile where h[j + i, n + 16 x] > 0, else 0: back through a ReLU."""

    def write(code: _Code) -> Any:
        found = []
        for number, value in enumerate(code.tile(0)):
            i, x = divmod(number, columns.literal_value)
            on = code.load(code.where(1, 2, 3, down=i, right=WIDTH * x))
            found.append(_choose("<")(code.builder, ZERO, on, value, ZERO))
        return code.packed(found)

    return _writes(tile(tile, h, j, n, columns), write)


@intrinsic(prefer_literal=True)
def no_ends(typing_context, channels):  # type: ignore[no-untyped-def]
    """Extremes of nothing yet: the highest of each channel, then the lowest."""
    J = channels.literal_value
    least, most = (ir.Constant(VECTOR, [value] * WIDTH) for value in (float("-inf"), float("inf")))
    kind = types.UniTuple(LANES, 2 * J)
    return _writes(kind(channels), lambda code: code.packed([least] * J + [most] * J))


@intrinsic(prefer_literal=True)
def widened(typing_context, ends, tile, columns):  # type: ignore[no-untyped-def]
    """Extremes joined with a tile."""
    X = columns.literal_value

    def write(code: _Code) -> Any:
        found, values = code.tile(0), code.tile(1)
        J = len(found) // 2
        for number, value in enumerate(values):
            for at, sign in ((number // X, ">"), (J + number // X, "<")):
                found[at] = _choose(sign)(code.builder, value, found[at], value, found[at])
        return code.packed(found)

    return _writes(ends(ends, tile, columns), write)


@intrinsic
def put_ends(typing_context, ends, top, bottom, row, pitch):  # type: ignore[no-untyped-def]
    """top[row + pitch i], bottom[row + pitch i] = the extremes of channel i in each image."""

    def write(code: _Code) -> None:
        found, zero = code.tile(0), ir.Constant(ir.IntType(64), 0)
        for number, value in enumerate(found):
            low, i = divmod(number, len(found) // 2)
            at = code.builder.add(code.number(3), code.builder.mul(code.number(4), ir.Constant(ir.IntType(64), i)))
            array = 2 if low else 1
            kind = code.signature.args[array]
            code.store(value, _address(code.context, code.builder, kind, code.args[array], at, zero))

    return _writes(types.void(ends, top, bottom, row, pitch), write)


@intrinsic(prefer_literal=True)
def add_products(typing_context, tile, g, j, n, rows, k, m, channels, sources, taps):  # type: ignore[no-untyped-def]
    """tile[i, s, t] += g[j + i, n] · rows[k + s, m + 16 t]: one position's part of the gradient of a kernel's row."""
    J, S, T = (each.literal_value for each in (channels, sources, taps))

    def write(code: _Code) -> Any:
        found = code.tile(0)
        slopes = [code.load(code.where(1, 2, 3, down=i)) for i in range(J)]
        for s in range(S):
            for t in range(T):
                seen = code.load(code.where(4, 5, 6, down=s, right=WIDTH * t))
                for i in range(J):
                    at = (i * S + s) * T + t
                    found[at] = _fused(code.builder, slopes[i], seen, found[at])
        return code.packed(found)

    return _writes(tile(tile, g, j, n, rows, k, m, channels, sources, taps), write)


@intrinsic(prefer_literal=True)
def add_totals(typing_context, tile, slope, j, k, sources, taps):  # type: ignore[no-untyped-def]
    """slope[j + i, k + taps²·s + t] += Σ over lanes of tile[i, s, t]."""
    S, T = sources.literal_value, taps.literal_value

    def write(code: _Code) -> None:
        for number, value in enumerate(code.tile(0)):
            rest, t = divmod(number, T)
            i, s = divmod(rest, S)
            where = code.where(1, 2, 3, down=i, right=T * T * s + t)
            total = _total(code.context, code.builder, None, [value])
            code.builder.store(code.builder.fadd(code.builder.load(where), total), where)

    return _writes(types.void(tile, slope, j, k, sources, taps), write)
