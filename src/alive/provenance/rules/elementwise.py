"""Element by element: operands are broadcast, and their owners joined."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from ..copies import COPIES
from ..families import Families
from ..op import Op, Results
from ..owners import INPUTS, LOST, Owners, aligned, has_names, is_lost, joined, nobody, refined, varying
from .rule import WEIGHTED, Rule, both

ADDS = {"add", "sub", "rsub"}
SPREADS = {"mul", "add", "sub", "div"}
COMPARES = {"gt", "ge", "lt", "le", "eq", "ne", "logical_and", "logical_or", "logical_not", "bitwise_not"}


def elementwise(op: Op, families: Families) -> Results:
    """Sums, products, functions of single entries: operands are broadcast, their owners joined."""
    operands = list(op.tensors())
    ndim = max((t.ndim for t in operands), default=0)
    return summed(op, operands, ndim, families)


def summed(op: Op, operands: Sequence[Tensor], ndim: int, families: Families) -> Owners:
    """Owners of a sum or product of tensors that broadcast to that rank."""
    owners = [op.of(t) for t in operands]
    data = [o for o in owners if o.data]
    if not data:
        return _plain_units(op, owners, ndim, families)
    if data and op.name.rstrip("_") in ADDS:
        if len(data) > 1 and any(not o.pure and o.behind >> INPUTS for o in data):  # one of them met targets
            _meet_targets(data, families)
        families.sums.add((data[0].behind, data[1].behind if len(data) > 1 else 0))
    point, unit = aligned(data[0].point, ndim), aligned(data[0].unit, ndim)
    for o in data[1:]:
        point, unit = joined(point, aligned(o.point, ndim)), families.refined(unit, aligned(o.unit, ndim))
    for o in owners:
        if not o.data:
            unit = families.refined(unit, aligned(o.unit, ndim))
    more: dict[str, Any] = {}
    unsure = is_lost(point) or any(o.is_outside for o in data)
    constants = [(t, op.of(t)) for t in operands if not op.of(t).data]
    few = unsure or any(o.moved for o in data)
    if any(_meets_each(t, own, point, unit, families.points, unsure=few) for t, own in constants):
        more["pure"] = False  # a number for each point that did not come with the batch, as targets
        _meet_targets(data, families)
    if op.name.rstrip("_") in ("rsub", *ADDS) and any(_is_number(op[name]) for name in ("self", "other")):
        more["pure"] = False  # a margin, as in 1 - u
    rows = families.points if unsure else None
    axis = None if is_lost(unit) or not unit.numel() else _spread_along(op, operands, point, unit, rows)
    contracts = op.name == "mul" and families.contracts and any(o.weight for o in owners)
    if contracts or axis is not None:
        alike = unsure and any(_varies(t, axis) for t in operands if op.of(t).data) if axis is not None else False
        own = None if alike else _own_units(op, operands, point, unit, families)  # alike may be by chance
        unit = nobody(ndim, LOST) if own is None else own
        if own is None and not alike:
            more["why"] = "copies of a value are changed by numbers of their own"
        elif own is not None:
            more |= WEIGHTED
    if is_lost(point):
        more.setdefault("why", next((o.why for o in data if o.why), "") or "values of different points meet in one sum")
    elif is_lost(unit):
        more.setdefault("why", next((o.why for o in data if o.why), "") or "values of different units meet in one sum")
    if op.name in COMPARES:  # a mask holds no units, so none were picked into it, and none can be lost
        more["picked"] = False
        unit = nobody(ndim) if is_lost(unit) else unit
    return op.made(point, unit, *data, **more)


def _meets_each(t: Tensor, own: Owners, point: Tensor, unit: Tensor, points: int | None, *, unsure: bool) -> bool:
    """Whether a constant has a number for each point; where none is known, for as many rows as there are points.

    Where there is one point, one number that the pass made may be its own; and where the rows may be any points, as of
    what came from outside, or are of those that were chosen, of which one may be left, all that it made.
    """
    made = not (own.weight or own.tables)
    if point.numel() > 1:
        return any(_varies(t, d) for d in range(-point.ndim, 0) if point.shape[d] > 1)
    if t.ndim and t.numel() == point.numel():
        return made
    rows = [t.shape[d] for d in range(-t.ndim, 0) if _varies(t, d) and unit.shape[d] == 1]
    known = point.numel() and 0 <= int(point) < LOST
    return bool(unsure and made and rows) or (not known and points in rows)


def _meet_targets(data: Sequence[Owners], families: Families) -> None:
    """Note which activations are behind these."""
    for o in data:
        families.targets |= o.behind


def _is_number(value: Any) -> bool:
    """Whether it is a number of Python's, and not 0."""
    return isinstance(value, int | float) and bool(value)


def _plain_units(op: Op, owners: Sequence[Owners], ndim: int, families: Families) -> Owners:
    """Of weights and constants: no points; units, where an embedding gave them some."""
    result = op.plain(ndim)
    if op.name in COPIES and (place := families.place(next(op.tensors()))) is not None:
        # Of a parameter's numbers it does not matter by which views they were reached.
        result = result._replace(source=hash((op.signature.called, str(op["dtype"]), place)))
    unit = result.unit
    for o in owners:
        unit = refined(unit, aligned(o.unit, ndim))
    return result._replace(unit=unit)


def _spread_along(op: Op, operands: Sequence[Tensor], point: Tensor, unit: Tensor, rows: int | None) -> int | None:
    """An axis along which copies of a value meet numbers of their own, as in x[:, None] * w: new units, by no rule.

    Where points are unknown, an axis with so many rows may be theirs, whatever the values.
    """
    ndim = point.ndim
    free = [t for t in operands if t.ndim and not op.of(t).data and (t.is_floating_point() or t.is_complex())]
    data = [t for t in operands if op.of(t).data]
    for d in range(-ndim, 0):
        if point.shape[d] > 1 or unit.shape[d] > 1 or not any(_varies(t, d) for t in free):
            continue
        if not any(_varies(t, d) and (t.shape[d] == rows or not _repeats(t, d)) for t in data):
            return d
    return None


def _own_units(op: Op, operands: Sequence[Tensor], point: Tensor, unit: Tensor, families: Families) -> Tensor | None:
    """A unit for each number of a weight that copies are multiplied with, or moved by; None where that is not all."""
    weights = [t for t in operands if op.of(t).weight]
    if op.name.rstrip("_") not in SPREADS or len(weights) != 1 or len(operands) > 2:
        return None
    own = families.one_by_one(op, weights[0])
    if own is None:
        return None
    own, rows = aligned(own, point.ndim), varying(point)  # in which the units may change, as experts do
    left_out = [d for d in varying(unit) if own.shape[d] == 1 and d not in rows]
    if any(own.shape[d] > 1 for d in rows) or (left_out and not families.contracts):
        return None
    return own


def _varies(t: Tensor, axis: int) -> bool:
    return t.ndim >= -axis and t.shape[axis] > 1 and t.stride(axis) != 0


def _repeats(t: Tensor, axis: int) -> bool:
    if t.is_meta:
        return False
    t = t.detach()
    return bool((t == t.narrow(axis, 0, 1)).all())


def same(op: Op, families: Families) -> Results:
    """The first argument's owners stay: copies, softmax, running sums, dropout."""
    o = op.of(next(op.tensors()))
    return [o._replace(source=None if o.data else op.source())] + [None] * (len(op.outputs()) - 1)


def normalised(axis: int) -> Rule:
    """Norms keep the owners; their own weights tell the units where nothing else did."""

    def rule(op: Op, families: Families) -> Results:
        x = next(op.tensors())
        o = op.of(x)
        weight = op["weight"]
        if o.data and weight is not None and x.ndim > 1 and not has_names(o.unit):
            at = axis % x.ndim
            if weight.numel() == x.shape[at] and axis not in varying(o.point):
                o = o._replace(unit=families.fresh(op, weight, x.shape[at], x.ndim, at))
        rest = [op.lost(t.ndim, "a statistic") for t in op.outputs()[1:]]
        return [o, *rest]

    return rule


def gated(op: Op, families: Families) -> Results:
    """glu: the first half along an axis, each entry gated by its partner in the second."""
    x = op["self"]
    o, dim = op.of(x), op["dim"] % x.ndim
    first = both(o, lambda owner: _half(owner, dim, x.shape[dim], 0))
    second = both(o, lambda owner: _half(owner, dim, x.shape[dim], 1))
    unit = refined(second.unit, first.unit)
    return first._replace(point=joined(first.point, second.point), unit=unit if is_lost(unit) else first.unit)


def _half(owner: Tensor, dim: int, size: int, which: int) -> Tensor:
    return owner if owner.shape[dim] == 1 else owner.narrow(dim, which * (size // 2), size // 2)


def kept(op: Op, families: Families) -> Results:
    """Writing constants over a tensor does not change its owners."""
    return op.of(op["self"])


def fresh(op: Op, families: Families) -> Results:
    """New tensors, whatever they are shaped like."""
    return [op.plain(t.ndim)._replace(weight=False) for t in op.outputs()]


def noise(op: Op, families: Families) -> Results:
    """Numbers drawn in the pass."""
    return [op.plain(t.ndim)._replace(weight=False, noise=t.is_floating_point()) for t in op.outputs()]


def copied(op: Op, families: Families) -> Results:
    """x.copy_(y): y's owners."""
    src = op.of(op["src"])
    ndim = op["self"].ndim
    return src._replace(point=aligned(src.point, ndim), unit=aligned(src.unit, ndim))
