"""Entries chosen by indices and masks, and written where these say."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from ..families import Families
from ..op import Op, Results
from ..owners import (
    LOST,
    MANY,
    NONE,
    OUTSIDE,
    Owners,
    aligned,
    compact,
    has_points,
    joined,
    nobody,
    reduced,
    spread,
    together,
    varies,
    varying,
)
from .moves import told_apart
from .rule import both, here


def indexed(op: Op, families: Families) -> Results:
    """x[i, j]: the rows keep their owners; what is of several points belongs to the point of its index."""
    x = op["self"]
    o = op.of(x)
    indices = [i if i is None else here(i) for i in op["indices"]]
    asked = [op.asked(i) for i in op["indices"] if i is not None]
    out = op.outputs()[0]
    if not o.data and not any(a.data for a in asked):
        return op.plain(out.ndim)
    if not o.data:
        return _look_up(op, x, indices, out)
    moved = both(o, lambda owner: _take(op, owner, x, indices, out))
    by_data = any(a.data for a in asked)
    if by_data and not any(i.dtype in (torch.bool, torch.uint8) for i in indices if i is not None):
        moved = _give(moved, _who_asks(op, indices, out), asked)
    at = [d for d, i in enumerate(indices) if i is not None]
    chosen = set(_index_axes(op["indices"], lambda i: op.asked(i).data))
    picked, placed = (bool(chosen & set(varying(owner))) for owner in (o.unit, o.point))
    along = bool(set(spread(o.point)) & set(_index_axes(indices, lambda i: True))) and not _is_whole(indices, x)
    result = moved._replace(placed=o.placed or placed or picked, picked=o.picked or picked, moved=o.moved or along)
    return told_apart(op, result, families) if len(at) == 1 and not by_data else result


def _is_whole(indices: Sequence[Tensor | None], x: Tensor) -> bool:
    """Whether several axes are read from end to end, as in mask[i[:, None], j[None]] with two ranges."""
    given = [(d, i) for d, i in enumerate(indices) if i is not None]
    ends = (torch.equal(i.flatten(), torch.arange(x.shape[d])) for d, i in given if i.dtype == torch.long)
    return len(given) > 1 and all(i.dtype == torch.long for _, i in given) and all(ends)


def _take(op: Op, owner: Tensor, x: Tensor, indices: Sequence[Tensor | None], out: Tensor) -> Tensor:
    """The owner of x[i]; where rows of one axis are taken, unfolded along no axis on which it does not vary."""
    given = [(d, i) for d, i in enumerate(indices) if i is not None]
    if len(given) == 1 and given[0][1].ndim == 1 and out.numel():
        axis = given[0][0]
        return owner if owner.shape[axis] == 1 and x.shape[axis] > 1 else op.func(owner, indices)
    moved: Tensor = op.func(owner.expand(x.shape), indices)
    return moved


def _index_axes(indices: Sequence[Tensor | None], counts: Callable[[Tensor], bool]) -> list[int]:
    """The axes of x that some of the indices take; a mask takes as many as it has."""
    axes, d = [], 0
    for i in indices:
        width = i.ndim if i is not None and i.dtype in (torch.bool, torch.uint8) else 1
        axes += list(range(d, d + width)) if i is not None and counts(i) else []
        d += width
    return axes


def _look_up(op: Op, x: Tensor, indices: Sequence[Tensor | None], out: Tensor) -> Owners:
    if any(i.dtype in (torch.bool, torch.uint8) for i in indices if i is not None):
        return op.lost(out.ndim, "a mask made of the data chooses among weights")
    owners = [op.of(i) for i in op["indices"] if i is not None]
    return op.made(_who_asks(op, indices, out), nobody(out.ndim), *(o for o in owners if o.data))


def _who_asks(op: Op, indices: Sequence[Tensor | None], out: Tensor) -> Tensor:
    """The points whose indices tell which rows are taken, where the rows lie in the result."""
    given = [(d, i) for d, i in enumerate(indices) if i is not None]
    width = max(i.ndim for _, i in given)
    places = [d for d, _ in given]
    first = places[0] if places == list(range(places[0], places[0] + len(places))) else 0
    after = out.ndim - first - width
    point = nobody(out.ndim)
    for i in op["indices"]:
        if i is not None:
            own = aligned(op.of(i).point, width)
            point = joined(point, own.view((1,) * first + tuple(own.shape) + (1,) * after))
    return point


def _give(o: Owners, point: Tensor, asking: Sequence[Owners]) -> Owners:
    """What several points made, as the rows of all values there are, belongs to the point that takes it."""
    if not bool((o.point == MANY).any()):
        return o
    inputs = together([o, *(a for a in asking if a.data)])["inputs"]
    return o._replace(
        point=compact(torch.where(o.point == MANY, torch.maximum(o.point, point), o.point)), inputs=inputs
    )


def gathered(op: Op, families: Families) -> Results:
    """gather, index_select, take: as x[i]."""
    x, index = op["self"], op["index"]
    o, asked = op.of(x), op.asked(index)
    out = op.outputs()[0]
    if not o.data and not asked.data:
        return op.plain(out.ndim)
    dim = op["dim"]
    if not o.data:
        if op.name == "gather":
            return op.made(asked.point, nobody(out.ndim), asked)
        at = dim % out.ndim
        own = asked.point.view((1,) * at + (-1,) + (1,) * (out.ndim - at - 1)) if index.ndim else nobody(out.ndim)
        return op.made(own, nobody(out.ndim), asked)
    moved = both(o, lambda owner: op.func(owner.expand(x.shape), dim, here(index)))
    if asked.data and index.ndim:
        at = dim % out.ndim
        own = asked.point if op.name == "gather" else asked.point.view((1,) * at + (-1,) + (1,) * (out.ndim - at - 1))
        moved = _give(moved, own, [asked])
    picked, placed = (asked.data and x.ndim > 0 and varies(owner, dim % x.ndim) for owner in (o.unit, o.point))
    along = dim % max(x.ndim, 1) in spread(o.point)
    result = moved._replace(placed=o.placed or placed or picked, picked=o.picked or picked, moved=o.moved or along)
    return result if asked.data or op.name == "gather" else told_apart(op, result, families)


def embedded(op: Op, families: Families) -> Results:
    """Rows of a table: each belongs to the point of its id; the columns are the units."""
    weight, ids = op["weight"], op["indices"]
    asked, table = op.of(ids), op.of(weight)
    out = op.outputs()[0]
    if table.data:
        return op.lost(out.ndim)
    unit = families.fresh(op, weight, out.shape[-1], out.ndim, out.ndim - 1) if table.weight else nobody(out.ndim)
    if not asked.data:
        return op.plain(out.ndim)._replace(unit=unit)
    return op.made(asked.point.unsqueeze(-1), unit, asked)


def bagged(op: Op, families: Families) -> Results:
    """Sums of rows of a table, a bag each."""
    weight, ids, offsets = op["weight"], op["indices"], op["offsets"]
    asked = op.of(ids)
    out = op.outputs()[0]
    rest: list[Owners | None] = [None] * (len(op.outputs()) - 1)
    if not op.of(weight).weight or ids.ndim != 1 or not out.numel():
        return [op.lost(out.ndim), *rest]
    bag = torch.searchsorted(here(offsets)[: out.shape[0]].contiguous(), torch.arange(len(ids)), right=True) - 1
    point = _gather_sum(
        torch.full((out.shape[0],), NONE, dtype=torch.int32), bag, asked.point.expand(ids.shape)
    ).unsqueeze(1)
    unit = families.fresh(op, weight, out.shape[-1], out.ndim, 1)
    return [op.made(point, unit, asked), *rest]


def _gather_sum(base: Tensor, index: Tensor, owner: Tensor) -> Tensor:
    """Owner of a sum over the entries that fall into one place, the base among them."""
    high = base.scatter_reduce(0, index, owner, "amax")
    named = torch.where(owner < 0, high[index], owner)
    start = torch.where(base < 0, high, base)
    low = start.scatter_reduce(0, index, named, "amin")
    return torch.where((low == high) | (high == LOST), high, MANY)


def scattered(op: Op, families: Families) -> Results:
    """scatter and its kin: what is written keeps its owners; sums of several are statistics."""
    x, index, dim = op["self"], op["index"], op["dim"]
    o, asked = op.of(x), op.of(index)
    src = op["src"] if "src" in op else op["source"]
    wrote = op.of(src) if isinstance(src, Tensor) else None
    operands = [q for q in (o, wrote, asked) if q is not None and q.data]
    if not operands:
        return op.plain(x.ndim)
    dim = dim % max(x.ndim, 1)
    where = here(index)
    adds = op.name in ("scatter_add", "index_add", "scatter_reduce", "index_reduce")

    def into(own: Tensor, given: Tensor) -> Tensor:
        if x.ndim and op.name.startswith("index_"):
            return _into_rows(own, given, dim, where.reshape(-1), x.shape[dim], adds)
        base = own.expand(x.shape).clone()
        given = given.expand(src.shape if isinstance(src, Tensor) and src.ndim else where.shape)
        given = (
            given[tuple(slice(0, n) for n in where.shape)] if given.ndim == where.ndim else given.expand(where.shape)
        )
        return _added(base, given, dim, where) if adds else base.scatter(dim, where, given)

    written = wrote or Owners(nobody(x.ndim), nobody(x.ndim), data=False)
    point = into(o.point, aligned(written.point, x.ndim)) if (o.data or written.data) else o.point
    unit = into(o.unit, aligned(written.unit, x.ndim))
    if not (o.data or written.data) and asked.data:  # one-hot: the row belongs to the point of the index
        point = reduced(asked.point, [dim]) if index.ndim == x.ndim else nobody(x.ndim, LOST)
    if adds and x.ndim and (rows := _rows(asked, o, written, dim, x.shape[dim], families.points)) is not None:
        point = rows.view([-1 if d == dim else 1 for d in range(x.ndim)])
    by_data = asked.data
    axis = x.ndim > 0 and (varies(o.unit, dim) or (written.unit.ndim == x.ndim and varies(written.unit, dim)))
    result = op.made(compact(point), compact(unit), *operands)
    picked = result.picked or (by_data and axis)
    if not (wrote is not None and wrote.data):  # constants are written: no unit moves
        picked = o.picked
    return result._replace(placed=result.placed or by_data, picked=picked)


def _rows(asked: Owners, base: Owners, sent: Owners, dim: int, size: int, points: int | None) -> Tensor | None:
    """The points of rows that get a sum of what was sent to them: those that were chosen from, or each point's own.

    Its own where edges say who sends to whom, which the model holds or which come beside the first input; places that
    are made in the pass may be buckets, of which there are as many by chance.
    """
    axes = spread(sent.point)
    if not (sent.data and sent.moved) or not {*axes, *(spread(base.point) if has_points(base) else ())} <= {dim}:
        return None
    if asked.among is not None and len(asked.among) == size:
        return asked.among
    beside = asked.behind and not asked.behind & 1 and asked.behind < OUTSIDE
    are_edges = asked.is_foreign or (beside if asked.data else asked.tables)
    return torch.arange(size, dtype=torch.int32) if axes and size == points and are_edges else None


def _into_rows(own: Tensor, given: Tensor, dim: int, index: Tensor, size: int, adds: bool) -> Tensor:
    """Owner after rows were written, or added, where an index says; unfolded along no axis on which neither varies."""
    if own.shape[dim] == given.shape[dim] == 1 and torch.equal(own, given):
        return own
    shape = [max(n, m) for n, m in zip(own.shape, given.shape, strict=True)]
    base = own.expand([*shape[:dim], size, *shape[dim + 1 :]]).clone()
    given = given.expand([*shape[:dim], len(index), *shape[dim + 1 :]])
    if adds and int(index.bincount(minlength=size).max()) > 1:
        return _added(
            base, given, dim, index.view([-1 if d == dim else 1 for d in range(own.ndim)]).expand(given.shape)
        )
    if adds:
        given = _met(base.index_select(dim, index), given)
    return base.index_copy_(dim, index, given)


def _met(a: Tensor, b: Tensor) -> Tensor:
    """Owner of sums of two, entry by entry: constants give way, and two different owners make a statistic."""
    high = torch.maximum(a, b)
    clash = (torch.minimum(a, b) >= 0) & (a != b) & (high != LOST)
    return high.masked_fill_(clash, MANY)


def _added(base: Tensor, given: Tensor, dim: int, where: Tensor) -> Tensor:
    """Owner of sums of entries that fall into one place, what lay there among them."""
    high = base.scatter_reduce(dim, where, given, "amax")
    named = torch.where(given < 0, high.gather(dim, where), given)
    low = torch.where(base < 0, high, base).scatter_reduce(dim, where, named, "amin")
    return torch.where((low == high) | (high == LOST), high, MANY)


def put(op: Op, families: Families) -> Results:
    """x[i] = v: writing constants does not change the owners of the rows."""
    x, v = op["self"], op["values"]
    o, wrote = op.of(x), op.of(v)
    indices = [i if i is None else here(i) for i in op["indices"]]
    asked = [op.of(i) for i in op["indices"] if i is not None]
    by_data = any(a.data for a in asked)
    if not wrote.data:
        if not o.data and by_data:
            return op.lost(x.ndim, "the data choose where constants are written")
        return o._replace(source=None) if o.data else op.plain(x.ndim)

    def into(own: Tensor, given: Tensor) -> Tensor:
        base = own.expand(x.shape).clone()
        shape = base[tuple(slice(None) if i is None else i for i in indices)].shape
        if op["accumulate"]:
            flat = torch.arange(x.numel()).view(x.shape)[tuple(slice(None) if i is None else i for i in indices)]
            return _gather_sum(base.flatten(), flat.flatten(), given.expand(v.shape).expand(shape).flatten()).view(
                x.shape
            )
        return base.index_put(indices, given.expand(v.shape).expand(shape))

    result = op.made(
        compact(into(o.point, wrote.point)), compact(into(o.unit, wrote.unit)), *(q for q in (o, wrote) if q.data)
    )
    return result._replace(placed=result.placed or by_data)


def sorted_(op: Op, families: Families) -> Results:
    """sort and topk: owners move with the values."""
    x = op["self"]
    o = op.of(x)
    values, index = op.outputs()[:2]
    if not o.data:
        return [op.plain(values.ndim), op.plain(index.ndim)]
    if not x.ndim:
        return [o, o]
    dim = (-1 if op["dim"] is None else op["dim"]) % x.ndim
    moved = both(o, lambda owner: owner.expand(x.shape).gather(dim, here(index)))
    units, points = varies(o.unit, dim), varies(o.point, dim)
    found = moved._replace(
        point=compact(moved.point), unit=compact(moved.unit), placed=o.placed or points, picked=o.picked or units
    )
    alone = not units and has_points(o) and set(varying(o.point)) <= {dim}
    among = compact(o.point).flatten().expand(x.shape[dim]) if alone else None
    return [found, found._replace(unit=nobody(index.ndim), among=among)]


def masked(op: Op, families: Families) -> Results:
    """masked_select: the chosen entries, in a row."""
    x, mask = op["self"], op["mask"]
    o = op.of(x)
    if not o.data:
        return op.lost(1) if op.of(mask).data else op.plain(1)
    shape = torch.broadcast_shapes(x.shape, mask.shape)
    moved = both(o, lambda owner: torch.masked_select(aligned(owner, len(shape)).expand(shape), here(mask)))
    by_data = op.of(mask).data
    return moved._replace(placed=o.placed or by_data, picked=o.picked or (by_data and bool(varying(o.unit))))


def drawn(op: Op, families: Families) -> Results:
    """multinomial: what is drawn belongs to the point of its row."""
    o = op.of(op["self"])
    ndim = op.outputs()[0].ndim
    return op.made(reduced(o.point, [-1]), nobody(ndim), o, picked=False) if o.data else op.plain(ndim)


def bucketed(op: Op, families: Families) -> Results:
    """bucketize and searchsorted: each place belongs to the value that it is the place of, and to its own row."""
    x, edges = op["self"], op["boundaries"] if "boundaries" in op else op["sorted_sequence"]
    if not isinstance(x, Tensor):
        return op.lost(op.outputs()[0].ndim)
    o, row = op.of(x), op.of(edges)
    if not (o.data or row.data):
        return op.plain(x.ndim)
    point = joined(o.point, reduced(row.point, [-1])) if edges.ndim == x.ndim else o.point
    return op.made(point, nobody(x.ndim), *(each for each in (o, row) if each.data), picked=False)


def told_once(op: Op, families: Families) -> Results:
    """unique: its values are of several points; the place of each entry among them belongs to that entry's own."""
    x = op["self"]
    o = op.of(x)
    if not o.data:
        return [op.plain(t.ndim) for t in op.outputs()]
    found = [op.made(nobody(t.ndim, MANY), nobody(t.ndim), o, placed=True, picked=False) for t in op.outputs()]
    place = op.outputs()[1]
    if op["dim"] is not None:
        found[1] = op.made(reduced(o.point, _others(op["dim"], x.ndim)).reshape(-1), nobody(place.ndim), o)
    elif place.shape == x.shape:
        found[1] = op.made(o.point, nobody(x.ndim), o, picked=False)
    return found


def _others(dim: int, ndim: int) -> list[int]:
    return [d for d in range(ndim) if d != dim % ndim]


def filled(op: Op, families: Families) -> Results:
    """masked_scatter: entries of another tensor, in order, where a mask holds."""
    x, mask, src = op["self"], op["mask"], op["source"]
    o, wrote, asked = op.of(x), op.of(src), op.of(mask)
    mask = here(mask).expand(x.shape)

    def into(own: Tensor, given: Tensor) -> Tensor:
        return compact(own.expand(x.shape).clone().masked_scatter(mask, given.expand(src.shape).reshape(-1)))

    result = op.made(into(o.point, wrote.point), into(o.unit, wrote.unit), *(q for q in (o, wrote) if q.data))
    return result._replace(placed=result.placed or asked.data)
