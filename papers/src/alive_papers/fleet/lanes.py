"""Sixteen points at once: a vector of floats as a value of compiled code.

Left to itself the compiler vectorises a loop only after it has proved, or tests at run time, that no two rows
overlap, and it keeps no tile of a matrix in registers. Here a kernel says what it means. All lanes take the same
instructions, so that equal points stay equal to the bit. Rows are 2-D C arrays of float32, whole vectors long.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import extending, types
from numba.core import cgutils
from numba.extending import models, register_model

intrinsic: Any = extending.intrinsic  # its own types describe the function that writes the code, not the call

WIDTH = 16
FLOAT = ir.FloatType()
VECTOR = ir.VectorType(FLOAT, WIDTH)


class Lanes(types.Type):
    """The type of sixteen floats."""

    def __init__(self) -> None:
        super().__init__(name="Lanes")


LANES = Lanes()


@register_model(Lanes)
class _Model(models.PrimitiveModel):
    def __init__(self, dmm: Any, fe_type: Any) -> None:
        super().__init__(dmm, fe_type, VECTOR)


def _splat(builder: Any, x: Any) -> Any:
    one = builder.insert_element(ir.Constant(VECTOR, ir.Undefined), x, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(one, one, ir.Constant(ir.VectorType(ir.IntType(32), WIDTH), [0] * WIDTH))


def _address(context: Any, builder: Any, kind: Any, array: Any, j: Any, n: Any) -> Any:
    """Where rows[j, n] lies; no index counts from the end here."""
    view = context.make_array(kind)(context, builder, array)
    _, columns = cgutils.unpack_tuple(builder, view.shape, 2)
    at = builder.add(builder.mul(j, columns), n)
    return builder.gep(view.data, [at])


def _indices(context: Any, builder: Any, signature: Any, args: Any) -> tuple[Any, Any]:
    pair = zip(args[1:3], signature.args[1:3], strict=True)
    j, n = (context.cast(builder, value, kind, types.intp) for value, kind in pair)
    return j, n


@intrinsic
def load(typing_context, rows, j, n):  # type: ignore[no-untyped-def]
    """rows[j, n : n + 16]."""

    def code(context, builder, signature, args):  # type: ignore[no-untyped-def]
        where = _address(context, builder, signature.args[0], args[0], *_indices(context, builder, signature, args))
        return builder.load(builder.bitcast(where, VECTOR.as_pointer()), align=4)

    return LANES(rows, j, n), code


@intrinsic
def store(typing_context, rows, j, n, value):  # type: ignore[no-untyped-def]
    """rows[j, n : n + 16] = value."""

    def code(context, builder, signature, args):  # type: ignore[no-untyped-def]
        where = _address(context, builder, signature.args[0], args[0], *_indices(context, builder, signature, args))
        builder.store(args[3], builder.bitcast(where, VECTOR.as_pointer()), align=4)
        return context.get_dummy_value()

    return types.void(rows, j, n, value), code


@intrinsic
def entry(typing_context, rows, j, n):  # type: ignore[no-untyped-def]
    """rows[j, n] in every lane."""

    def code(context, builder, signature, args):  # type: ignore[no-untyped-def]
        where = _address(context, builder, signature.args[0], args[0], *_indices(context, builder, signature, args))
        return _splat(builder, builder.load(where))

    return LANES(rows, j, n), code


@intrinsic
def full(typing_context, x):  # type: ignore[no-untyped-def]
    """The number x in every lane."""

    def code(context, builder, signature, args):  # type: ignore[no-untyped-def]
        return _splat(builder, context.cast(builder, args[0], signature.args[0], types.float32))

    return LANES(x), code


def _lanewise(build: Callable[..., Any], count: int) -> Callable[..., Any]:
    """Code of a function of `count` vectors that gives one."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return build(builder, *args)

    assert count == build.__code__.co_argcount - 1
    return code


def _choose(sign: str) -> Callable[..., Any]:
    return lambda builder, a, b, x, y: builder.select(builder.fcmp_ordered(sign, a, b), x, y)


def _fused(builder: Any, a: Any, b: Any, c: Any) -> Any:
    kind = ir.FunctionType(VECTOR, [VECTOR] * 3)
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, f"llvm.fmuladd.v{WIDTH}f32"), [a, b, c])


@intrinsic
def fma(typing_context, a, b, c):  # type: ignore[no-untyped-def]
    """a·b + c, rounded once where the machine can."""
    return LANES(a, b, c), _lanewise(_fused, 3)


@intrinsic
def add(typing_context, a, b):  # type: ignore[no-untyped-def]
    """a + b."""
    return LANES(a, b), _lanewise(lambda builder, a, b: builder.fadd(a, b), 2)


@intrinsic
def sub(typing_context, a, b):  # type: ignore[no-untyped-def]
    """a − b."""
    return LANES(a, b), _lanewise(lambda builder, a, b: builder.fsub(a, b), 2)


@intrinsic
def mul(typing_context, a, b):  # type: ignore[no-untyped-def]
    """a·b."""
    return LANES(a, b), _lanewise(lambda builder, a, b: builder.fmul(a, b), 2)


@intrinsic
def div(typing_context, a, b):  # type: ignore[no-untyped-def]
    """a/b."""
    return LANES(a, b), _lanewise(lambda builder, a, b: builder.fdiv(a, b), 2)


@intrinsic
def where_less(typing_context, a, b, x, y):  # type: ignore[no-untyped-def]
    """x where a < b, else y; also where one is NaN."""
    return LANES(a, b, x, y), _lanewise(_choose("<"), 4)


@intrinsic
def where_equal(typing_context, a, b, x, y):  # type: ignore[no-untyped-def]
    """x where a = b, else y."""
    return LANES(a, b, x, y), _lanewise(_choose("=="), 4)


@intrinsic
def most(typing_context, a, b):  # type: ignore[no-untyped-def]
    """The larger of a and b; b where one is NaN."""
    return LANES(a, b), _lanewise(lambda builder, a, b: _choose(">")(builder, a, b, a, b), 2)


@intrinsic
def least(typing_context, a, b):  # type: ignore[no-untyped-def]
    """The smaller of a and b; b where one is NaN."""
    return LANES(a, b), _lanewise(lambda builder, a, b: _choose("<")(builder, a, b, a, b), 2)


def _folded(join: Callable[..., Any]) -> Callable[..., Any]:
    """Code that joins the two halves of a vector until one float is left."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        value, width = args[0], WIDTH
        while width > 1:
            width //= 2
            kind = ir.VectorType(ir.IntType(32), width)
            low, high = (
                builder.shuffle_vector(value, value, ir.Constant(kind, list(range(begin, begin + width))))
                for begin in (0, width)
            )
            value = join(builder, low, high)
        return builder.extract_element(value, ir.Constant(ir.IntType(32), 0))

    return code


@intrinsic
def total(typing_context, a):  # type: ignore[no-untyped-def]
    """The sum of all lanes."""
    return types.float32(a), _folded(lambda builder, low, high: builder.fadd(low, high))


@intrinsic
def largest(typing_context, a):  # type: ignore[no-untyped-def]
    """The largest lane."""
    return types.float32(a), _folded(lambda builder, low, high: _choose(">")(builder, low, high, low, high))


@intrinsic
def smallest(typing_context, a):  # type: ignore[no-untyped-def]
    """The smallest lane."""
    return types.float32(a), _folded(lambda builder, low, high: _choose("<")(builder, low, high, low, high))


@intrinsic
def any_set(typing_context, a):  # type: ignore[no-untyped-def]
    """Whether any lane is something else than zero, NaN among it."""

    def code(context, builder, signature, args):  # type: ignore[no-untyped-def]
        other = builder.fcmp_unordered("!=", args[0], ir.Constant(VECTOR, [0.0] * WIDTH))
        bits = builder.bitcast(other, ir.IntType(WIDTH))
        return builder.icmp_unsigned("!=", bits, ir.Constant(ir.IntType(WIDTH), 0))

    return types.boolean(a), code


@intrinsic
def store_totals(typing_context, rows, j, k, a, b, c, d):  # type: ignore[no-untyped-def]
    """rows[j, k : k + 4] = the sums of four vectors, added side by side: cheaper than four times `total`."""

    def code(context, builder, signature, args):  # type: ignore[no-untyped-def]
        def pick(x: Any, y: Any, lanes: list[int]) -> Any:
            return builder.shuffle_vector(x, y, ir.Constant(ir.VectorType(ir.IntType(32), len(lanes)), lanes))

        def fold(x: Any, width: int) -> Any:
            return builder.fadd(pick(x, x, list(range(width))), pick(x, x, list(range(width, 2 * width))))

        def pair(x: Any, y: Any, low: list[int], high: list[int]) -> Any:
            return builder.fadd(pick(x, y, low), pick(x, y, high))

        fours = [fold(fold(x, 8), 4) for x in args[3:]]
        left, right = (pair(x, y, [0, 4, 1, 5], [2, 6, 3, 7]) for x, y in (fours[:2], fours[2:]))
        sums = pair(left, right, [0, 1, 4, 5], [2, 3, 6, 7])
        where = _address(context, builder, signature.args[0], args[0], *_indices(context, builder, signature, args))
        builder.store(sums, builder.bitcast(where, sums.type.as_pointer()), align=4)
        return context.get_dummy_value()

    return types.void(rows, j, k, a, b, c, d), code
