"""Weighted sums: their weights make units."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from ...torch_private import tree_leaves
from ..families import Families
from ..op import Op, Results
from ..owners import (
    LOST,
    MANY,
    NONE,
    Owners,
    aligned,
    compact,
    joined,
    nobody,
    reduced,
    refined,
    spread,
    together,
    varying,
)
from .rule import WEIGHTED, here
from .sums import one_along

MOST = 1 << 24  # products of a sum, up to which it is seen which of its terms were chosen


def multiplied(op: Op, families: Families) -> Results:
    """mm, bmm, and with a bias addmm, baddbmm."""
    a = next(op[name] for name in ("mat1", "batch1", "self") if name in op)
    b = op["batch2"] if "batch2" in op else op["mat2"]
    product = product_of(op, a, b, families)
    if op.name not in ("addmm", "baddbmm"):
        return product
    return _with(op, product, op["self"], families)


def _with(op: Op, product: Owners, bias: Tensor | None, families: Families) -> Owners:
    """The same plus a bias."""
    if bias is None or not op.of(bias).data:
        return product
    o, ndim = op.of(bias), product.point.ndim
    return op.made(
        joined(product.point, aligned(o.point, ndim)),
        refined(product.unit, aligned(o.unit, ndim), families.summed),
        product,
        o,
    )


def product_of(op: Op, a: Tensor, b: Tensor, families: Families) -> Owners:
    """a [..., i, k] times b [..., k, j]: a sum over k, whose weights make units."""
    A, B = op.of(a), op.of(b)
    ndim = a.ndim
    if A.noise != B.noise and (A.weight or B.weight) and not (A.data or B.data):
        A, B = (_draw(o) if o.noise and not o.weight else o for o in (A, B))
    if not (A.data or B.data):
        result = op.plain(ndim)
        if A.weight == B.weight:
            return result
        side = (b, b.shape[-1], ndim - 1) if B.weight else (a, a.shape[-2], ndim - 2)
        return result._replace(
            unit=families.fresh(op, *side[:2], ndim, side[2], batch=side[0], across=[2 * ndim - 3 - side[2]])
        )
    rows, columns = A._replace(point=reduced(A.point, [-1])), B._replace(point=reduced(B.point, [-2]))
    operands = [o for o in (rows, columns) if o.data]
    point = joined(rows.point, columns.point)
    if B.data and B.made is not None and B.made.chosen and b.ndim == 3:  # each point by weights of its own choice
        chosen = families.copies(op, b, [1])
        if chosen is not None:
            return op.made(point, chosen.view(len(b), 1, -1), *operands, placed=True, **WEIGHTED)
    if B.weight or _as_weight(B, A, -1):
        unit = families.fresh(op, b, b.shape[-1], ndim, ndim - 1, batch=b, across=[ndim - 2], by_row=_is_row(point))
        return op.made(point, unit, *operands, **WEIGHTED)
    if A.weight or _as_weight(A, B, -2):
        unit = families.fresh(op, a, a.shape[-2], ndim, ndim - 2, batch=a, across=[ndim - 1], by_row=_is_row(point))
        return op.made(point, unit, *operands, **WEIGHTED)
    if a.shape[-1] == 1 and len(operands) == 1:
        return op.made(
            point, nobody(ndim, LOST), *operands, why=operands[0].why or "copies of a value are weighted by constants"
        )
    unit = refined(_statistic(reduced(A.unit, [-1])), _statistic(reduced(B.unit, [-2])))
    if A.data and B.data and (A.choice or B.choice) and a.numel() * b.shape[-1] <= MOST:
        left = A.choice > 0
        mine, other = (A.point, B.point) if left else (B.point.mT, A.point.mT)
        sent = _send(here(a if left else b.mT) != 0, mine, other)
        return op.made(sent if left else sent.mT, unit, *operands, placed=True)
    return op.made(point, unit, *operands)


def _is_row(point: Tensor) -> bool:
    """Whether a batch of products is one for each point, as far as points lie along any axis."""
    return point.ndim == 3 and (point.shape[0] > 1 or point.numel() == 1)


def _send(chosen: Tensor, mine: Tensor, other: Tensor) -> Tensor:
    """The points of rows [..., i, j] that are sums of the rows [..., k, j] that were chosen for them [..., i, k]."""
    alone = mine.unsqueeze(-1) if mine.shape[-1] == 1 else torch.full((), NONE, dtype=mine.dtype)
    both = torch.where(chosen.unsqueeze(-1), joined(mine.unsqueeze(-1), other.unsqueeze(-3)), alone)
    return compact(reduced(both, [-2]).squeeze(-2))


def _statistic(unit: Tensor) -> Tensor:
    """Units that were summed over, or lost, give way to those of the other side."""
    return unit.masked_fill((unit == LOST) | (unit < 0), NONE)


def _as_weight(o: Owners, data: Owners, axis: int) -> bool:
    """Whether a buffer multiplies the features of data, which lie along an axis, as a weight that is not trained."""
    if o.data or not o.tables or not data.data:
        return False
    at, units = axis % data.point.ndim, varying(data.unit)
    # From the left it may mix points or positions, as an adjacency does.
    return at not in spread(data.point) and (units == [at] or (axis == -1 and not units))


def _draw(o: Owners) -> Owners:
    """Numbers drawn in the pass, as a generator is fed with: of no point."""
    why = "what they are made of was drawn in the pass, and belongs to no point"
    return o._replace(point=nobody(o.point.ndim, MANY), data=True, noise=False, why=why)


def times_vector(op: Op, families: Families) -> Results:
    """mv and dot: one column."""
    a = op["mat"] if "mat" in op else op["self"]
    v = next(op[name] for name in ("vec", "tensor", "other") if name in op)
    A, V = op.of(a), op.of(v)
    out = op.outputs()[0]
    operands = [o for o in (A, V) if o.data]
    if not operands:
        return op.plain(out.ndim)
    if op.name in ("dot", "vdot"):
        point = joined(reduced(A.point, [0]), reduced(V.point, [0])).squeeze(0)
        weight = v if V.weight else a if A.weight else None
        unit = families.fresh(op, weight, 1, 0, None) if weight is not None else nobody(0, MANY)
        return op.made(point, unit, *operands, **WEIGHTED)
    point = joined(reduced(A.point, [1]).squeeze(1), reduced(V.point, [0]))
    if V.weight:
        unit = families.fresh(op, v, 1, 1, None)
    elif A.weight:
        unit = families.fresh(op, a, a.shape[0], 1, 0)
    else:
        unit = refined(_statistic(reduced(A.unit, [1]).squeeze(1)), _statistic(reduced(V.unit, [0])))
    product = op.made(point, unit, *operands, **WEIGHTED)
    return _with(op, product, op["self"], families) if op.name == "addmv" else product


def linear(op: Op, families: Families) -> Results:
    """F.linear where it is one operation."""
    x, w = op["input"], op["weight"]
    X, W = op.of(x), op.of(w)
    out = op.outputs()[0]
    if X.noise and not X.data and W.weight:
        X = _draw(X)
    if not X.data and not W.data:
        return op.plain(out.ndim)
    if not (W.weight or _as_weight(W, X, -1)):
        return op.lost(out.ndim, "the weights of a linear map are made of the data")
    unit = families.fresh(op, w, out.shape[-1], out.ndim, out.ndim - 1)
    return op.made(reduced(X.point, [-1]), unit, X, **WEIGHTED)


def convolved(op: Op, families: Families) -> Results:
    """Convolutions: output channels are the units."""
    x, w, groups = op["input"], op["weight"], op["groups"]
    X, W = op.of(x), op.of(w)
    out = op.outputs()[0]
    if X.noise and not X.data and W.weight:
        X = _draw(X)
    if not X.data and not W.data:
        return op.plain(out.ndim)
    point = _channels(_in_space(X.point, op), out.shape[1], groups)
    if W.data:
        theirs = reduced(W.point, range(1, w.ndim)).view((1, -1) + (1,) * (out.ndim - 2))
        theirs = theirs if theirs.shape[1] in (1, out.shape[1]) else nobody(out.ndim, LOST)
        return op.made(
            joined(point, theirs),
            nobody(out.ndim, LOST),
            X,
            W,
            why=X.why or "the weights of a convolution are made of the data",
        )
    several = max(w.shape[:2]) > 1 and groups == 1 and point.shape[1] == 1
    if W.weight or (W.tables and several):  # a buffer of several maps is a weight that is not trained
        unit = _kernels(op, w, groups, families) if groups == 1 or point.shape[1] > 1 else None
        if unit is None:
            unit = families.fresh(op, w, out.shape[1], out.ndim, 1)
        return op.made(point, unit, X, **WEIGHTED)
    if groups == x.shape[1] == out.shape[1]:  # a fixed filter, channel by channel
        return op.made(point, _in_space(X.unit, op), X)
    if groups == 1 and w.shape[1 if not op["transposed"] else 0] == 1:
        return op.made(point, nobody(out.ndim, LOST), X, why=X.why or "a fixed filter makes several maps of one")
    return op.made(point, nobody(out.ndim, MANY), X)


def _kernels(op: Op, w: Tensor, groups: int, families: Families) -> Tensor | None:
    """The units of kernels that are copies, as groups for a point each; None where they are not."""
    if groups == 1 and not families.may_be_copies(op, w):
        return None
    if op["transposed"]:
        found = families.copies(op, w, [1, 3], [groups, w.shape[0] // groups, w.shape[1], -1])
    else:
        found = families.copies(op, w, [1], [w.shape[0], -1])
    return None if found is None else found.view((1, -1) + (1,) * (w.ndim - 2))


def _in_space(owner: Tensor, op: Op) -> Tensor:
    """Owner of sums over windows: what varies in space is lost, unless each place stays by itself."""
    w, strides, pads = op["weight"], list(op["stride"]), list(op["padding"])
    moves = [
        d for d in range(2, owner.ndim) if w.shape[d] > 1 or op["transposed"] or _of(strides, d) != 1 or _of(pads, d)
    ]
    return one_along(compact(owner), moves)


def _of(setting: Sequence[int], axis: int) -> int:
    return setting[axis - 2] if len(setting) > 1 else setting[0]


def _channels(owner: Tensor, channels: int, groups: int) -> Tensor:
    """Owner of sums over the input channels of each group, for each output channel."""
    if owner.shape[1] == 1:
        return owner
    by_group = reduced(owner.unflatten(1, (groups, -1)), [2]).squeeze(2)
    return by_group.repeat_interleave(channels // groups, 1) if groups > 1 else by_group


def attended(op: Op, families: Families) -> Results:
    """Attention in one operation: each query's own point, and the units of the values."""
    asked = [op.of(op[name]) for name in ("query", "key", "value")]
    outs = op.outputs()
    if not any(o.data for o in asked):
        return [op.plain(t.ndim) for t in outs]
    point, unit, operands = _values_by_query(asked, _heads(op["query"]))
    return [op.made(point, unit, *operands)] + [op.lost(t.ndim, "a statistic of attention") for t in outs[1:]]


def _by_head(owner: Tensor, heads: int) -> Tensor:
    """The same where each head of keys and values is asked by several heads of queries."""
    given = owner.shape[-3] if owner.ndim > 2 else 1
    return owner.repeat_interleave(heads // given, -3) if given not in (1, heads) and not heads % given else owner


def _values_by_query(asked: Sequence[Owners], heads: int) -> tuple[Tensor, Tensor, list[Owners]]:
    """The points and units of attention, and its queries, keys and values without what it sums over."""
    Q = asked[0]._replace(point=reduced(asked[0].point, [-1]))
    K, V = (
        o._replace(point=_by_head(reduced(o.point, [-1, -2]), heads), unit=_by_head(o.unit, heads)) for o in asked[1:]
    )
    unit = _statistic(reduced(V.unit, [-2]))
    return joined(joined(Q.point, K.point), V.point), unit, [o for o in (Q, K, V) if o.data]


def _heads(query: Tensor) -> int:
    return query.shape[-3] if query.ndim > 2 else 1


def attended_by(owners: Callable[[Tensor], Owners], args: Sequence[Any]) -> Owners | None:
    """The same of flex_attention, by its arguments; None where its functions read more of the data."""
    asked = [owners(t) for t in args[:3]]
    read = [t for t in tree_leaves(args[3:]) if isinstance(t, Tensor)]
    if any(owners(t).data for t in read) or not any(o.data for o in asked):
        return None
    point, unit, operands = _values_by_query(asked, _heads(args[0]))
    return Owners(point, unit, **together(operands))


def grouped(op: Op, families: Families) -> Results:
    """Rows sorted by expert, each block times its expert's weights: a unit is a column of one expert."""
    x, w, offsets = op["self"], op["mat2"], op["offs"]
    X, W = op.of(x), op.of(w)
    out = op.outputs()[0]
    if not W.weight or x.ndim != 2 or w.ndim != 3 or offsets is None:
        return op.lost(out.ndim)
    expert = torch.searchsorted(here(offsets).long(), torch.arange(len(out)), right=True).clamp(max=len(w) - 1)
    columns = families.fresh(op, w, w.shape[-1], 3, 2, batch=w, across=[1])  # [E, 1, C]
    unit = columns[:, 0][expert] if len(columns) > 1 else columns[0]
    return op.made(reduced(X.point, [-1]), unit, X, placed=True, **WEIGHTED)


def paired(op: Op, families: Families) -> Results:
    """Distances of rows, pair by pair: those from a row of weights, as from a centre, are a unit."""
    a, b = op["x1"], op["x2"]
    A, B = op.of(a), op.of(b)
    point = joined(reduced(A.point, [-1]), reduced(B.point, [-1]).transpose(-1, -2))
    ndim, operands = point.ndim, [o for o in (A, B) if o.data]
    for t, o, axis in ((b, B, ndim - 1), (a, A, ndim - 2)):
        if operands and not o.data and (o.weight or o.tables):
            unit = families.fresh(op, t, t.shape[-2], ndim, axis, batch=t, across=[t.ndim - 1])
            return op.made(point, unit, *operands, **WEIGHTED)
    return op.made(point, nobody(ndim, MANY), *operands)


def trilinear(op: Op, families: Families) -> Results:
    """F.bilinear."""
    a, w, b = op["i1"], op["i2"], op["i3"]
    A, W, B = op.of(a), op.of(w), op.of(b)
    out = op.outputs()[0]
    if not W.weight or out.ndim != 2:
        return op.lost(out.ndim)
    point = joined(reduced(A.point, [-1]), reduced(B.point, [-1]))
    return op.made(point, families.fresh(op, w, out.shape[-1], out.ndim, out.ndim - 1), A, B, **WEIGHTED)


def recurrent(op: Op, families: Families) -> Results:
    """An LSTM layer in one operation: [T, N, F] to [T, N, H], and its last state."""
    x, w = op["input"], op["weight0"]
    X, W = op.of(x), op.of(w)
    outs = op.outputs()
    if not W.weight:
        return [op.lost(t.ndim) for t in outs]
    point = reduced(X.point, [-1])
    unit = families.fresh(op, w, outs[0].shape[-1], 3, 2)
    state = op.made(reduced(point, [0])[0], unit[0], X, **WEIGHTED)
    return [op.made(point, unit, X, **WEIGHTED), state, state] + [None] * (len(outs) - 3)
