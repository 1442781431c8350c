"""What one operation looks up in, writes or leaves out, as far as a choice is concerned."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from .op import Op
from .owners import Owners

WEIGHTED = {"mm", "bmm", "addmm", "baddbmm", "linear", "mv", "addmv", "dot", "convolution", "_grouped_mm"}
PAIRED = WEIGHTED | {"_cdist_forward", "_euclidean_dist"}  # makes something new of data and a table


def made_of(op: Op) -> frozenset[int]:
    """The tables, which are weights and buffers, that a result is made of, since its data last met any."""
    found = [op.of(t) for t in op.tensors()]
    if op.name in PAIRED and any(o.data for o in found):
        found = [o for o in found if not o.data]
    return frozenset().union(*(o.tables for o in found))


def is_ids(op: Op, t: Tensor) -> bool:
    """Whether a tensor holds ids that nobody chose."""
    return t.ndim > 0 and not t.is_floating_point() and t.dtype != torch.bool and not op.of(t).choice


def is_beside(op: Op, indices: Sequence[Tensor]) -> bool:
    """Whether the data tell another index too: then pairs are looked up, as in a table of labels and predictions."""
    return any(not i.is_floating_point() and op.of(i).data and not op.of(i).choice for i in indices)


def others_are_zero(op: Op) -> bool:
    """Whether all is zero where chosen values are not written; else, as by −∞, the others are left out of a softmax."""
    out = next(iter(op.written() or op.outputs())).detach()
    there = torch.zeros_like(out, dtype=torch.bool)
    if "index" in op:
        there.scatter_(op["dim"], op["index"], True)
    else:
        there[tuple(slice(None) if i is None else i for i in op["indices"])] = True
    return not bool(out.masked_fill(there, 0).any())


def fills_zero(op: Op) -> bool:
    """The same of values that a mask sets."""
    if op.name.startswith("masked_fill"):
        value = op["value"]
    elif op.name == "where":
        value = next((v for v in (op["self"], op["other"]) if isinstance(v, Tensor) and not op.of(v).data), 0)
    else:
        return True
    return not bool(value.detach().any()) if isinstance(value, Tensor) else value == 0


def rows_of(op: Op, x: Tensor) -> int:
    """How many rows the table has that an operation looks up in; 0 if that is not told by one axis."""
    if "weight" in op:
        return x.shape[0]
    if "dim" in op and op["dim"] is not None:
        return int(x.shape[op["dim"] % x.ndim])
    if not isinstance(op["indices"], list | tuple):
        return 0
    at = [d for d, i in places_of(op["indices"]) if i is not None and i.dtype == torch.long and op.of(i).choice]
    return x.shape[at[0]] if len(at) == 1 else 0


def table_of(x: Tensor) -> tuple[int, ...]:
    """The sizes of a table, less those along which it only repeats itself."""
    return tuple(n for n, step in zip(x.shape, x.stride(), strict=True) if n > 1 and step)


def told_axes(op: Op, own: Owners) -> list[int]:
    """The axes along which x[i] takes some of the units of x, as z.gather(-1, index) does."""
    axes = [d for d in range(own.unit.ndim) if own.unit.shape[d] > 1]
    if "dim" in op and op["dim"] is not None:
        return [d for d in axes if d == op["dim"] % max(own.unit.ndim, 1)]
    given: Any = op["indices"]
    told = [d for d, i in places_of(given) if i is not None] if isinstance(given, list | tuple) else []
    return [d for d in axes if d in told]


def places_of(indices: Sequence[Tensor | None]) -> Iterator[tuple[int, Tensor | None]]:
    """Each index with the axis of x that it takes; a mask takes as many as it has."""
    d = 0
    for i in indices:
        wide = i.ndim if i is not None and i.dtype in (torch.bool, torch.uint8) else 1
        for _ in range(wide):
            yield d, i
            d += 1


def stack_of(op: Op, x: Tensor, bits: int) -> tuple[int, ...]:
    """A stack of weights as a table [*heads, C, D]: heads are what other indices take, C what the chosen ones do."""
    if op.name == "index_select":
        heads, at = [], op["dim"] % x.ndim
    else:
        given = [(d, i) for d, i in places_of(op["indices"]) if i is not None]
        heads = [x.shape[d] for d, i in given if not op.of(i).choice & bits]
        at = next(d for d, i in given if op.of(i).choice & bits)
    taken = x.shape[at]
    for n in heads:
        taken *= n
    return (*heads, x.shape[at], x.numel() // max(taken, 1))
