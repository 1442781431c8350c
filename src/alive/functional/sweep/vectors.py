"""Sixteen whole numbers at once: the bits of floats, and their keys, as one value of compiled code.

Left to itself the compiler tests before every short row that no two arrays overlap, which takes longer than the row,
and it asks of sixteen comparisons one by one what they said. Here a sweep says what it means; where a machine has
shorter vectors, or none, the compiler takes several.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import extending, types
from numba.core import cgutils
from numba.extending import models, register_model

intrinsic: Any = extending.intrinsic  # its own types describe the function that writes the code, not the call

LANES = 16
INT8, INT16, INT64 = ir.IntType(8), ir.IntType(LANES), ir.IntType(64)


class Sixteen(types.Type):
    """The type of sixteen whole numbers of one kind."""

    def __init__(self, dtype: Any) -> None:
        self.dtype = dtype
        super().__init__(name=f"Sixteen({dtype})")


@register_model(Sixteen)
class _Model(models.PrimitiveModel):
    def __init__(self, dmm: Any, fe_type: Any) -> None:
        super().__init__(dmm, fe_type, _vector(fe_type.dtype))


def _vector(dtype: Any) -> Any:
    return ir.VectorType(ir.IntType(dtype.bitwidth), LANES)


def _full(vector: Any, number: int) -> Any:
    return ir.Constant(vector, [ir.Constant(vector.element, number)] * LANES)


def _splat(builder: Any, vector: Any, x: Any) -> Any:
    one = builder.insert_element(ir.Constant(vector, ir.Undefined), x, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(one, one, ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES))


def _at(context: Any, builder: Any, signature: Any, args: Any, vector: Any) -> Any:
    """Where the sixteen entries from args[1] on lie, of the 1-D array args[0]; no index counts from the end."""
    kind = signature.args[0]
    data = context.make_array(kind)(context, builder, args[0]).data
    index = context.cast(builder, args[1], signature.args[1], types.intp)
    return builder.bitcast(builder.gep(data, [index]), vector.as_pointer())


def _first(context: Any, builder: Any, kind: Any, count: Any) -> Any:
    """A mask of the first `count` lanes."""
    vector = ir.VectorType(ir.IntType(32), LANES)
    lanes = ir.Constant(vector, list(range(LANES)))
    return builder.icmp_signed("<", lanes, _splat(builder, vector, context.cast(builder, count, kind, types.int32)))


def _called(builder: Any, name: str, result: Any, args: Any) -> Any:
    kind = ir.FunctionType(result, [arg.type for arg in args])
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), args)


@intrinsic
def load(typing_context, numbers, i, count):  # type: ignore[no-untyped-def]
    """numbers[i : i + 16]; where only `count` are left, the first of them in the other lanes."""
    vector = _vector(numbers.dtype)
    bits = numbers.dtype.bitwidth

    def code(context, builder, signature, args):  # type: ignore[no-untyped-def]
        where = _at(context, builder, signature, args, vector)
        left = context.cast(builder, args[2], signature.args[2], types.int64)
        with builder.if_else(builder.icmp_signed(">=", left, INT64(LANES))) as (whole, part):
            with whole:
                all_of_them, from_whole = builder.load(where, align=bits // 8), builder.block
            with part:
                first = builder.load(builder.bitcast(where, vector.element.as_pointer()))
                mask = _first(context, builder, types.int64, left)
                given = [where, ir.IntType(32)(bits // 8), mask, _splat(builder, vector, first)]
                some = _called(builder, f"llvm.masked.load.v{LANES}i{bits}.p0", vector, given)
                from_part = builder.block
        found = builder.phi(vector)
        found.add_incoming(all_of_them, from_whole)
        found.add_incoming(some, from_part)
        return found

    return Sixteen(numbers.dtype)(numbers, i, count), code


@intrinsic
def store(typing_context, numbers, i, count, value):  # type: ignore[no-untyped-def]
    """numbers[i : i + 16] = value, or the first `count` of them where no more are left."""
    vector = _vector(numbers.dtype)
    bits = numbers.dtype.bitwidth

    def code(context, builder, signature, args):  # type: ignore[no-untyped-def]
        where = _at(context, builder, signature, args, vector)
        left = context.cast(builder, args[2], signature.args[2], types.int64)
        with builder.if_else(builder.icmp_signed(">=", left, INT64(LANES))) as (whole, part):
            with whole:
                builder.store(args[3], where, align=bits // 8)
            with part:
                given = [args[3], where, ir.IntType(32)(bits // 8), _first(context, builder, types.int64, left)]
                _called(builder, f"llvm.masked.store.v{LANES}i{bits}.p0", ir.VoidType(), given)
        return context.get_dummy_value()

    return types.void(numbers, i, count, value), code


@intrinsic
def full(typing_context, x):  # type: ignore[no-untyped-def]
    """The number x in every lane."""

    def code(context, builder, signature, args):  # type: ignore[no-untyped-def]
        return _splat(builder, _vector(signature.args[0]), args[0])

    return Sixteen(x)(x), code


def _lanewise(build: Callable[..., Any]) -> Callable[..., Any]:
    """Code of a function of vectors."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return build(builder, *args)

    return code


def _choose(sign: str) -> Callable[..., Any]:
    return _lanewise(lambda builder, a, b: builder.select(builder.icmp_signed(sign, a, b), a, b))


@intrinsic
def largest(typing_context, a, b):  # type: ignore[no-untyped-def]
    """The larger of each two."""
    return a(a, b), _choose(">")


@intrinsic
def smallest(typing_context, a, b):  # type: ignore[no-untyped-def]
    """The smaller of each two."""
    return a(a, b), _choose("<")


@intrinsic
def top(typing_context, a):  # type: ignore[no-untyped-def]
    """The largest of all lanes."""
    return a.dtype(a), _lanewise(lambda builder, a: _reduced(builder, "smax", a))


@intrinsic
def bottom(typing_context, a):  # type: ignore[no-untyped-def]
    """The smallest of all lanes."""
    return a.dtype(a), _lanewise(lambda builder, a: _reduced(builder, "smin", a))


def _reduced(builder: Any, how: str, a: Any) -> Any:
    kind = a.type.element
    return _called(builder, f"llvm.vector.reduce.{how}.v{LANES}i{kind.width}", kind, [a])


@intrinsic
def keys_of(typing_context, bits):  # type: ignore[no-untyped-def]
    """As `keys.key`, of each lane."""

    def build(builder: Any, v: Any) -> Any:
        least = _full(v.type, -(1 << (v.type.element.width - 1)))
        return builder.select(builder.icmp_signed(">=", v, _full(v.type, 0)), v, builder.sub(least, v))

    return bits(bits), _lanewise(build)


@intrinsic
def rectified(typing_context, bits, keys, inf):  # type: ignore[no-untyped-def]
    """The bits of relu: of what is above 0, or is NaN; 0 elsewhere. `inf` is the key of infinity."""

    def build(builder: Any, v: Any, k: Any, inf: Any) -> Any:
        zero = _full(v.type, 0)
        edge = _splat(builder, v.type, builder.neg(inf))
        stays = builder.or_(builder.icmp_signed(">", k, zero), builder.icmp_signed("<", k, edge))
        return builder.select(stays, v, zero)

    return bits(bits, keys, inf), _lanewise(build)


@intrinsic
def places(typing_context, keys, a, b, c, d, count):  # type: ignore[no-untyped-def]
    """Which of the first `count` keys equal those in a, b, c and d: sixteen bits each, those of a lowest."""

    def code(context, builder, signature, args):  # type: ignore[no-untyped-def]
        keys, *ends = args[:5]
        left = context.cast(builder, args[5], signature.args[5], types.int64)
        some = _first(context, builder, types.int64, left)
        found = INT64(0)
        for number, end in enumerate(ends):
            equal = builder.bitcast(builder.and_(builder.icmp_signed("==", keys, end), some), INT16)
            found = builder.or_(found, builder.shl(builder.zext(equal, INT64), INT64(LANES * number)))
        return found

    return types.uint64(keys, a, b, c, d, count), code


@intrinsic
def lowest(typing_context, bits):  # type: ignore[no-untyped-def]
    """The number of the lowest bit that is set."""

    def code(context, builder, signature, args):  # type: ignore[no-untyped-def]
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.uint64), code


@intrinsic
def counted(typing_context, counts, keys, ends, count):  # type: ignore[no-untyped-def]
    """The counts, one more where one of the first `count` keys equals an end."""

    def code(context, builder, signature, args):  # type: ignore[no-untyped-def]
        counts, keys, ends = args[:3]
        some = _first(context, builder, signature.args[3], args[3])
        equal = builder.and_(builder.icmp_signed("==", keys, ends), some)
        return builder.add(counts, builder.zext(equal, counts.type))

    return counts(counts, keys, ends, count), code


@intrinsic
def total(typing_context, a):  # type: ignore[no-untyped-def]
    """The sum of all lanes."""
    return a.dtype(a), _lanewise(lambda builder, a: _reduced(builder, "add", a))


@intrinsic
def put_marks(typing_context, marks, i, count, keys, a, b, c, d):  # type: ignore[no-untyped-def]
    """marks[i : i + 16], bytes whose bits 0 to 3 say which of a, b, c and d the keys equal; or the first `count`."""
    vector = ir.VectorType(INT8, LANES)

    def code(context, builder, signature, args):  # type: ignore[no-untyped-def]
        keys, *ends = args[3:]
        found = _full(vector, 0)
        for number, end in enumerate(ends):
            equal = builder.icmp_signed("==", keys, end)
            found = builder.or_(found, builder.select(equal, _full(vector, 1 << number), _full(vector, 0)))
        where = _at(context, builder, signature, args, vector)
        left = context.cast(builder, args[2], signature.args[2], types.int64)
        with builder.if_else(builder.icmp_signed(">=", left, INT64(LANES))) as (whole, part):
            with whole:
                builder.store(found, where, align=1)
            with part:
                given = [found, where, ir.IntType(32)(1), _first(context, builder, types.int64, left)]
                _called(builder, f"llvm.masked.store.v{LANES}i8.p0", ir.VoidType(), given)
        return context.get_dummy_value()

    return types.void(marks, i, count, keys, a, b, c, d), code
