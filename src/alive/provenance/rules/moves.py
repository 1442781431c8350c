"""Views and movements: entries go elsewhere, and take their owners along."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ...torch_private import pack_rows, pad_rows, storage_id
from ..families import Families, Runs
from ..op import Op, Results
from ..owners import (
    LOST,
    NONE,
    Owners,
    compact,
    is_lost,
    names_of,
    nobody,
    reduced,
    regrouped,
    squeezed,
    together,
    varying,
)
from .rule import both
from .sums import counted


def viewed(op: Op, families: Families) -> Results:
    """Views: the same view of the owners."""
    x = next(op.tensors())
    o = op.of(x)
    if op.name in ("view", "_unsafe_view", "_reshape_alias", "reshape", "view_copy"):
        new = op.outputs()[0].shape
        found = both(o, lambda owner: squeezed(regrouped(owner, x.shape, new)))
        return found if o.data else found._replace(source=op.source())
    args = [v for k, v in op.given.items() if k != "self"]
    outs = op.outputs()

    def replay(owner: Tensor) -> list[Tensor]:
        if outs and owner.numel() == 1:
            return [nobody(t.ndim, int(owner)) for t in outs]
        if op.name == "select" and owner.shape[op["dim"]] == 1:  # whichever it is, so that steps of a loop are alike
            return [families.memo(("select", op["dim"]), (owner,), lambda: owner.squeeze(op["dim"]))]
        seen = op.func(owner.expand(x.shape), *args)
        return [squeezed(t) for t in (seen if isinstance(seen, list | tuple) else [seen])]

    points, units = replay(o.point), replay(o.unit)
    source = None if o.data else op.source()
    return [
        o._replace(point=p, unit=u, source=None if o.data else hash((source, k)))
        for k, (p, u) in enumerate(zip(points, units, strict=True))
    ]


def complex_view(op: Op, families: Families) -> Results:
    """Complex numbers as pairs, and back: an axis of two more or less."""
    x = next(op.tensors())
    o = op.of(x)
    if op.name == "view_as_real":
        return both(o, lambda owner: owner.unsqueeze(-1))
    if op.name == "view_as_complex":
        return both(o, lambda owner: reduced(owner, [-1]).squeeze(-1))
    return o


def replayed(op: Op, families: Families) -> Results:
    """Movements of entries: the same movement of the owners; padding belongs to nobody."""
    x = next(op.tensors())
    o = op.of(x)
    if not o.data:
        return op.plain(op.outputs()[0].ndim)
    args = [v for k, v in op.given.items() if k != "self"]
    return both(o, lambda owner: op.func(owner.expand(x.shape), *args))


def padded(op: Op, families: Families) -> Results:
    """Constant padding has no owner along an axis of points or units; elsewhere it counts with the row it lies in."""
    x, pad = op["self"], list(op["pad"])
    o = op.of(x)
    if not o.data:
        return op.plain(x.ndim)

    def pads(owner: Tensor) -> Tensor:
        own = [
            p if owner.shape[d] > 1 or x.shape[d] == 1 else 0 for k, p in enumerate(pad) for d in [x.ndim - 1 - k // 2]
        ]
        return torch.constant_pad_nd(owner, own, NONE) if any(own) else owner

    return both(o, pads)


def repeated(op: Op, families: Families) -> Results:
    """Copies along an axis of units are units of their own; along other axes they are positions, or the same points."""
    if "self" not in op:  # only how often each is to be repeated
        return counted(op, families)
    result = replayed(op, families)
    assert isinstance(result, Owners)
    return told_apart(op, result, families)


def told_apart(op: Op, result: Owners, families: Families) -> Owners:
    """New names where an axis of units now holds a unit twice, which it did not before."""
    before = op.of(next(op.tensors())).unit
    unit = compact(result.unit)
    axes = varying(unit)
    if not axes or is_lost(unit) or bool((unit < 0).any()):
        return result._replace(unit=unit)
    if unit.numel() == len(unit.unique()) or before.numel() != len(before.unique()):
        return result._replace(unit=unit)
    names = torch.arange(unit.numel(), dtype=torch.int32).view(unit.shape)
    return result._replace(unit=names + families.claim(op.name, unit.numel(), key=(op.name, families.runs(unit))))


def concatenated(op: Op, families: Families) -> Results:
    """cat and stack: owners side by side. Along an axis of units, equal units of two parts become two."""
    parts = [t for t in op["tensors"] if not (t.ndim == 1 and not t.numel() and op.name == "cat")]
    out = op.outputs()[0]
    if not parts:
        return op.plain(out.ndim)
    dim = (op["dim"] or 0) % out.ndim
    if op.name == "stack":
        owners = [both(op.of(t), lambda owner: owner.unsqueeze(dim)) for t in parts]
        sizes = [(*t.shape[:dim], 1, *t.shape[dim:]) for t in parts]
    else:
        owners, sizes = [op.of(t) for t in parts], [tuple(t.shape) for t in parts]
    data = [o for o in owners if o.data]
    if not data:
        return op.plain(out.ndim)._replace(unit=_side_by_side([o.unit for o in owners], sizes, dim))
    units = _units_of(parts, owners, dim, families)
    why = {} if units else {"why": "the same units lie there several times"}
    unit = _side_by_side(units, sizes, dim) if units else nobody(out.ndim, LOST)
    point = _side_by_side([o.point for o in owners], sizes, dim)
    op.tie(reduced(point, [dim]), data)
    return Owners(point, unit, **{**together(data), **why})


def _units_of(parts: Sequence[Tensor], owners: Sequence[Owners], dim: int, families: Families) -> list[Tensor] | None:
    """The units of parts that are put side by side; None where it cannot be said which they are.

    Other units stay apart. The same ones, along an axis of units, are new units if they are of the same points once
    more, as in cat([z, -z]); of other points, or parts of one tensor, they are the same.
    """
    units, points = [o.unit for o in owners], [o.point for o in owners]
    named = [names_of(unit) for unit in units]
    if len(parts) > 2 and not any(dim in varying(unit) for unit in units) and families.is_recurrence(units):
        return [units[-1]] * len(units)
    if not _overlap(named):
        kin = {families.of(int(names.max())).start for names in named if len(names)}
        return _rename(units, named, families) if len(kin) > 1 else units
    if not any(dim in varying(unit) for unit in units) or len(set(map(storage_id, parts))) == 1:
        return units
    rows = [names_of(point) for point in points]
    if all(map(len, rows)) and not _overlap(rows):
        return units
    if all(torch.equal(x, own[0]) for own in (named, rows) for x in own):
        return _rename(units, named, families)
    return None


def _overlap(named: Sequence[Tensor]) -> bool:
    """Whether two parts have an owner in common."""
    every = torch.cat(list(named))
    return len(every) != len(every.unique())


def _rename(units: Sequence[Tensor], named: Sequence[Tensor], families: Families) -> list[Tensor]:
    """New names for the units of each part, told by all that lie there, as one of them may be left empty."""
    runs = [families.runs(names) for names in named]
    beside = frozenset(runs)
    return [_claim(unit, own, beside, families) for unit, own in zip(units, runs, strict=True)]


def _claim(unit: Tensor, runs: Runs | None, beside: frozenset[Runs | None], families: Families) -> Tensor:
    real = (unit >= 0) & (unit != LOST)
    names, inverse = unit[real].unique(return_inverse=True)
    new = unit.clone()
    new[real] = (inverse + families.claim("cat", len(names), key=("cat", runs, beside))).to(unit.dtype)
    return new


def _side_by_side(owners: Sequence[Tensor], sizes: Sequence[Sequence[int]], dim: int) -> Tensor:
    first = owners[0]
    if all(o.shape == first.shape and o.shape[dim] == 1 and torch.equal(o, first) for o in owners):
        return first
    shape = torch.broadcast_shapes(*(tuple(1 if d == dim else n for d, n in enumerate(o.shape)) for o in owners))
    wide = [
        o.expand([size[d] if d == dim else n for d, n in enumerate(shape)])
        for o, size in zip(owners, sizes, strict=True)
    ]
    return torch.cat(wide, dim)


def packed(op: Op, families: Families) -> Results:
    """Padded sequences packed into rows: the same packing of the owners."""
    x = op["input"]
    o = op.of(x)

    def rows(owner: Tensor) -> Tensor:
        return pack_rows(owner.expand(x.shape), op["lengths"], op["batch_first"])

    return [both(o, lambda owner: compact(rows(owner))), None]


def unpacked(op: Op, families: Families) -> Results:
    """And back: padding belongs to nobody."""
    x = op["data"]
    o = op.of(x)

    def maps(owner: Tensor) -> Tensor:
        return pad_rows(owner.expand(x.shape), op["batch_sizes"], op["batch_first"], NONE, op["total_length"])

    return [both(o, lambda owner: compact(maps(owner))), None]
