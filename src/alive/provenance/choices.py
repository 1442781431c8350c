"""Choices: what becomes of the indices and values that a top-k or an argmax chose, followed through a pass.

A choice is of units where its result meets weights or points again: the chosen values are scattered back or masked
(latents), rows of a table are looked up (codes), points are sent elsewhere (experts). An argmax that is only returned,
or compared with labels, chooses a prediction and no unit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from .op import Op
from .owners import LOST, Owners

VALUES, LOOKS_UP, SENDS, READ, WEIGHS = "values", "looks up", "sends", "read", "weighs"
ODD = "odd"  # looks up in a table of another size
SUMS = "sums"  # over the points that chose alike: to send them, or for a statistic
INDEXED = {"index", "_unsafe_index", "index_select", "gather", "take", "embedding", "_embedding_bag", "masked_select"}
INDEXED |= {"_embedding_bag_forward_only"}
WRITES = {"scatter", "scatter_add", "scatter_reduce"}
PLACES = {"index_add", "index_copy", "index_reduce", "index_put", "_unsafe_index_put", "_index_put_impl"}
WEIGHTED = {"mm", "bmm", "addmm", "baddbmm", "linear", "mv", "addmv", "dot", "convolution", "_grouped_mm"}
MASKED = {"mul", "where", "masked_fill"}


class Choices:
    """All choices of one pass, a bit each; `Owners.choice` holds the bits of the choices that a tensor is made of."""

    def __init__(self) -> None:
        self._sizes: list[int] = []
        self._ids: list[int] = []
        self._uses: list[dict[str, tuple[int, ...]]] = []
        self._decoded: dict[int, Tensor] = {}  # by bit: where chosen values were not 0 when they met weights

    def begin(self, size: int, ids: int) -> int:
        """Of `size` candidates some were chosen, so many times: the bit of this choice."""
        self._sizes.append(size)
        self._ids.append(ids)
        self._uses.append({})
        return 1 << (len(self._sizes) - 1)

    def uses(self, bit: int) -> dict[str, tuple[int, ...]]:
        """What became of a choice: each use, with the shape of the table that was looked up in."""
        return self._uses[bit.bit_length() - 1]

    def decoded(self, bit: int, size: int) -> Tensor | None:
        """Which of so many values were not 0 when they met weights, in a row; None where that was not seen."""
        found = self._decoded.get(bit)
        return found if found is not None and found.numel() == size else None

    def lose(self, bits: int) -> None:
        """Choices went into something that is not followed."""
        self._note(bits, READ)

    def follow(self, op: Op) -> int:
        """Note what an operation does with choices; the bits that its results still carry."""
        if not self._sizes:
            return 0
        bits = 0
        for t in op.tensors():
            bits |= op.of(t).choice
        return self._used(op, bits) if bits else 0

    def _used(self, op: Op, bits: int) -> int:
        name = op.name.rstrip("_") if op.name.endswith("_") else op.name
        if name.endswith("_like") or name.startswith("new_"):
            return 0
        if name in INDEXED:
            return self._indexed(op)
        if name in WRITES or name in PLACES:
            return self._written(op, name, bits)
        if name in WEIGHTED:
            return self._weighted(op)
        if name in MASKED:
            return self._masked(op, bits)
        if name == "_local_scalar_dense":
            if not op["self"].is_floating_point():  # as a mean over points is
                self._note(bits, READ)
            return 0
        return bits

    def _note(self, bits: int, use: str, table: tuple[int, ...] = (), asked: int = 0) -> None:
        for k, size in enumerate(self._sizes):
            if bits >> k & 1:
                flat = len(table) == 1 and size * asked == table[0] * self._ids[k]  # a table [C, D] in a row
                own = ODD if use == LOOKS_UP and size not in table and not flat else use
                self._uses[k][own] = max(table, self._uses[k].get(own, ()), key=len)

    def _that(self, use: str) -> int:
        """The bits of the choices that were used so."""
        return sum(1 << k for k, uses in enumerate(self._uses) if use in uses)

    def _indexed(self, op: Op) -> int:
        """x[i]: a look-up where x is a table, values again where i tells units, points sent elsewhere otherwise."""
        x = op["weight"] if "weight" in op else op["self"]
        own = op.of(x)
        asked = [t for t in op.tensors() if t is not x]
        bits = 0
        for t in asked:
            bits |= op.of(t).choice
        if not bits:
            return own.choice
        if not own.data and not own.choice & bits:
            table = _table(x)
            stacked = len(table) > 2 and op.name in ("index", "_unsafe_index", "index_select")  # weights of experts
            self._note(bits, SENDS if stacked else LOOKS_UP, table, max(t.numel() for t in asked))
            return 0
        if own.choice & bits or _tells_units(op, own):
            return own.choice | (bits & ~self._that(SENDS))
        self._note(bits, SENDS)
        return own.choice

    def _written(self, op: Op, name: str, bits: int) -> int:
        src = next((op[n] for n in ("src", "source", "values") if n in op and isinstance(op[n], Tensor)), None)
        wrote = None if src is None else op.of(src)
        if wrote is not None and wrote.data and wrote.choice and name in (WRITES | {"index_put", "_index_put_impl"}):
            self._note(wrote.choice, VALUES)
            return bits
        if name in PLACES and wrote is not None and wrote.data:
            self._note(bits, SENDS)
            return 0
        return bits

    def _weighted(self, op: Op) -> int:
        """A one-hot row times a table looks up in it; chosen values times weights are decoded."""
        operands = [t for t in op.tensors() if t.ndim]
        chosen = [t for t in operands if op.of(t).choice]
        others = [t for t in operands if not op.of(t).choice]
        for t in chosen:
            o = op.of(t)
            of_data = any(op.of(other).data for other in others)
            if _has_units(o) and not of_data:
                self._note(o.choice, WEIGHS)
                if t.is_contiguous() and o.choice & (o.choice - 1) == 0:
                    self._decoded[o.choice] = (t.detach() != 0).flatten()
            elif of_data:
                self._note(o.choice, SUMS)
            else:
                self._note(o.choice, LOOKS_UP, max(map(_table, others), key=len, default=()))
        return 0

    def _masked(self, op: Op, bits: int) -> int:
        """z times a mask of what was chosen: values. Anything else times a choice: points sent elsewhere, weighted."""
        out = op.outputs()[0]
        for t in op.tensors():
            o = op.of(t)
            if o.choice or not o.data or not t.is_floating_point():
                continue
            masks = [m for m in op.tensors() if op.of(m).choice]
            alike = t.shape == out.shape and all(m.shape == t.shape for m in masks)
            if not alike:  # the looked-up rows, each times its value, or the results of experts
                rows = self._that(LOOKS_UP)
                self._note(bits & rows, VALUES)
                self._note(bits & ~rows, SENDS)
                return 0
            self._note(bits, VALUES)
        return bits


def _table(x: Tensor) -> tuple[int, ...]:
    """The sizes of a table, less those along which it only repeats itself."""
    return tuple(n for n, step in zip(x.shape, x.stride(), strict=True) if n > 1 and step)


def _tells_units(op: Op, own: Owners) -> bool:
    """Whether x[i] takes some of the units of x, as z.gather(-1, index) does."""
    unit = own.unit
    axes = [d for d in range(unit.ndim) if unit.shape[d] > 1]
    if "dim" in op and op["dim"] is not None:
        return op["dim"] % max(unit.ndim, 1) in axes
    given: Any = op["indices"]
    return isinstance(given, list | tuple) and any(i is not None and d in axes for d, i in _places(given))


def _places(indices: Sequence[Tensor | None]) -> Iterator[tuple[int, Tensor | None]]:
    d = 0
    for i in indices:
        wide = i.ndim if i is not None and i.dtype in (torch.bool, torch.uint8) else 1
        for _ in range(wide):
            yield d, i
            d += 1


def _has_units(o: Owners) -> bool:
    return bool(((o.unit >= 0) & (o.unit != LOST)).any())
