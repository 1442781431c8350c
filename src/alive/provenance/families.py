"""Families of units: the output features of one weighted operation, numbered consecutively."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable, Sequence
from math import prod
from typing import NamedTuple

import torch
from torch import Tensor

from ..torch_private import storage_id
from .copies import ranked, signatures
from .memo import Memo
from .op import Op
from .owners import INPUTS, NONE, compact, names_of, refined

KEEPS = frozenset(
    [
        "t",
        "transpose",
        "permute",
        "unsqueeze",
        "squeeze",
        "clone",
        "_to_copy",
        "contiguous",
        "alias",
        "detach",
        "view",
        "expand",
    ]
)
COPY, ROW = "copy", "row"  # of units that are known one by one; ROW where each point has some of its own

Runs = tuple[tuple[Hashable, int, int], ...]
"""Units in a row, told alike in every pass: of which family, and from which of its units to which."""


class Family(NamedTuple):
    """So many units, from a number on; made with these weights, or with slices of a stack that make so many each.

    key  what made them, the same in every pass; None where that cannot be told
    ids  of each of them, where each is known by itself
    """

    start: int
    size: int
    made_by: str
    weights: int
    each: int = 0
    key: Hashable = None
    ids: tuple[tuple[str, int], ...] = ()

    def named(self, unit: Tensor) -> str:
        """Who made these units: the weights, or one slice of them."""
        if not self.each:
            return self.made_by
        real = unit[(unit >= self.start) & (unit < self.start + self.size)] - self.start
        if not real.numel() or int(real.min()) // self.each != int(real.max()) // self.each:
            return self.made_by
        return f"{self.made_by}[{int(real.min()) // self.each}]"


class Families:
    """All units met in one pass. The same weights make the same units, however often they are used."""

    def __init__(self, names: dict[Hashable, str]) -> None:
        self._names = names  # of parameters, by source
        self._known: dict[Hashable, Family] = {}
        self._all: list[Family] = []
        self._next = 0
        self._sums: dict[Hashable, Family] = {}  # of units side by side, by their names
        self._terms: dict[int, tuple[Tensor, ...]] = {}  # of the sums of a family, by its start: the units they are of
        self._slices: dict[Hashable, tuple[Hashable, int, int]] = {}  # the stack a slice is from, and its place
        self.storages: set[int] = set()  # of parameters
        self._single: set[int] = set()  # the first units of families that have one for each number of a weight
        self.points: int | None = None  # of the batch
        self.memo = Memo()
        self.targets = 0  # bits of the activations whose results met a number of its own for each point
        self.fed = 0  # bits of the activations whose results were weighted again, and of tensors of the batch that were
        self.inputs = 0  # the bits of tensors of the batch
        self.contracts = False  # whether what runs is a sum over an axis of size 1, as einsum makes a product of
        self.sums: set[tuple[int, int]] = set()  # what was added to what, by the bits behind both

    def is_compared(self, k: int, behind: int, outputs: Sequence[int] = ()) -> bool:
        """Whether what comes out of the k-th activation is compared with targets, and nothing but a term of a loss.

        Targets come with the batch and meet no weights. The activation got them in a sum, as a hinge does; or what it
        got itself is multiplied by them elsewhere, and added to what came out; or they are in all outputs it reaches.
        """
        bit, targets = 1 << (INPUTS + k), self.inputs & ~self.fed
        if not targets or self.fed & bit:
            return False
        pairs = [pair for a, b in self.sums for pair in ((a, b), (b, a))]
        given = self.inputs & self.fed
        if outputs and behind & given and all(each & targets for each in outputs):
            return True
        in_sum = any(behind == a | b for a, b in self.sums)
        return bool(in_sum and behind & targets and behind & given) or any(
            a & bit and not b & bit and b & targets and b & given for a, b in pairs
        )

    def claim(
        self,
        made_by: str,
        size: int,
        weights: int = 0,
        each: int = 0,
        *,
        key: Hashable,
        ids: tuple[tuple[str, int], ...] = (),
    ) -> int:
        """Reserve numbers for new units; returns the first."""
        family = Family(self._next, size, made_by, weights, each, key, ids)
        self._all.append(family)
        self._next += size
        return family.start

    def fresh(
        self,
        op: Op,
        weight: Tensor,
        size: int,
        ndim: int,
        axis: int | None,
        *,
        batch: Tensor | None = None,
        across: Sequence[int] = (),
        by_row: bool = False,
    ) -> Tensor:
        """The units of an operation with these weights, along an axis of its result (and the weights' own batch).

        across  the axes of the weights along which the numbers of one unit lie, where they may be copies of others
        by_row  whether that batch is of points, which have weights each
        """
        for t in op.tensors():
            self.fed |= op.of(t).behind
        rows = batch.shape[0] if batch is not None and batch.ndim == 3 else 1
        own = 1 if batch is None or batch.stride(0) == 0 else rows
        source = op.of(weight).source
        copied = bool(across) and self.may_be_copies(op, weight)
        if source in self._slices and own == 1 and not copied:
            return self._slice(source, size, ndim, axis, weight)
        if (own > 1 or copied) and (columns := self.copies(op, weight, across, by_row=by_row)) is not None:
            return columns.view([rows if d == 0 else size if d == axis else 1 for d in range(ndim)])
        key = (self._memory(weight, source), size, own)
        family = self._known.get(key)
        if family is None or source is None:
            made_by = _module(self._names.get(source, ""))
            self.claim(made_by, own * size, weight.numel(), key=None if source is None else key)
            family = self._known[key] = self._all[-1]
        shape = [1] * ndim
        if axis is not None:
            shape[axis] = size
        if own > 1:
            shape[0] = own
        return self._row(family.start, family.size, shape)

    def _row(self, start: int, size: int, shape: Sequence[int]) -> Tensor:
        """Units in order: the same tensor every time, so that what is made of it is known."""
        return self.memo(
            (start, size, *shape), (), lambda: torch.arange(start, start + size, dtype=torch.int32).view(shape)
        )

    def refined(self, a: Tensor, b: Tensor) -> Tensor:
        """Unit of a sum."""
        return self.memo("refined", (a, b), lambda: refined(a, b, self.summed))

    def one_by_one(self, op: Op, weight: Tensor) -> Tensor | None:
        """A unit for each number of a weight, in its shape: one for all copies; None where these are not known."""
        copied = self.copies(op, weight, [])
        if copied is not None:
            return compact(copied.view(weight.shape))
        if any(n > 1 and not step for n, step in zip(weight.shape, weight.stride(), strict=True)):
            return None
        unit = self.fresh(op, weight, weight.numel(), 1, 0).view(weight.shape)
        self._single.add(int(unit.min()))
        return unit

    def of_sum(self, unit: Tensor, axes: Sequence[int]) -> Tensor | None:
        """The units of a sum of units for each number of a weight, over some axes: x[:, None] * w summed up is x @ w.

        None where that is not what is summed.
        """
        if not self._single or unit.numel() < 2 or int(start := unit.min()) not in self._single:
            return None
        family = self.of(int(start))
        if unit.numel() != family.size or int(unit.max()) != family.start + family.size - 1:
            return None
        shape = [1 if d in axes else n for d, n in enumerate(unit.shape)]
        if list(unit.shape) == shape:
            return None
        key = ("sum of numbers", family.key, tuple(shape))
        if key not in self._known:
            self.claim(family.made_by, prod(shape), family.weights, key=key)
            self._known[key] = self._all[-1]
        found = torch.arange(prod(shape), dtype=torch.int32) + self._known[key].start
        return found.view(shape)

    def may_be_copies(self, op: Op, weight: Tensor) -> bool:
        """Whether something was copied on the way to weights, so that their units are known one by one."""
        made = op.of(weight).made
        return made is not None and made.copies and made.steady

    def copies(
        self, op: Op, weight: Tensor, axes: Sequence[int], split: Sequence[int] = (), *, by_row: bool = False
    ) -> Tensor | None:
        """The units of weights that may be copies of others, where the entries along `axes` make one unit.

        None where there are no copies.
        """
        o = op.of(weight)
        if o.made is None or storage_id(weight) in self.storages:
            return None
        try:
            numbers = o.made.numbers(False, {})
            found = signatures(numbers.view(split) if split else numbers, axes)
            every = signatures(o.made.numbers(True, {}), axes) if o.made.chosen else found
        except (RuntimeError, TypeError, IndexError):
            return None
        which, names = ranked(every)
        if len(names) == found.numel() and not o.made.chosen and not (o.made.copies and o.made.steady):
            return None
        key = ("copies", tuple(sorted(names.tolist())))
        if key not in self._known:
            made_by, weights = _module(self._names.get(o.source, "")), len(names) * weight.numel() // found.numel()
            ids = tuple((ROW if by_row else COPY, name) for name in names.tolist())
            self.claim(made_by, len(names), weights, key=key if o.made.steady else None, ids=ids)
            self._known[key] = self._all[-1]
        if o.made.chosen:
            if not bool(torch.isin(found, names).all()):  # the rows that were not chosen were left out again
                return None
            place = torch.searchsorted(*(names.sort().values, found))
            which = names.sort().indices[place.clamp(max=len(names) - 1)]
        return (which + self._known[key].start).to(torch.int32)

    def _memory(self, weight: Tensor, source: Hashable) -> Hashable:
        """What identifies weights: where a parameter's numbers lie and how, or what they were computed from."""
        place = self.place(weight)
        if place is None:
            return source
        storage, offset, axes = place
        steps = [(n, step) for n, step in axes if step]
        return storage, offset, prod(n for n, _ in steps), tuple(step for _, step in steps)

    def place(self, t: Tensor) -> tuple[int, Hashable, tuple[tuple[int, int], ...]] | None:
        """Where in the memory of a parameter a tensor's numbers lie, and in which steps; None if they lie elsewhere."""
        storage = storage_id(t)
        if storage not in self.storages:
            return None
        return (
            storage,
            t.storage_offset(),
            tuple((n, step) for n, step in zip(t.shape, t.stride(), strict=True) if n > 1),
        )

    def _slice(self, source: Hashable, size: int, ndim: int, axis: int | None, weight: Tensor) -> Tensor:
        """The units of one slice of a stack of weights, among those of all."""
        stack, index, count = self._slices[source]
        key = (stack, size, count)
        if key not in self._known:
            self.claim(_module(self._names.get(stack, "")), count * size, count * weight.numel(), size, key=key)
            self._known[key] = self._all[-1]
        start = self._known[key].start + index * size
        shape = [size if d == axis else 1 for d in range(ndim)]
        return self._row(start, size, shape)

    def trace(self, op: Op, parent: Hashable, child: Hashable) -> None:
        """Weights were computed from others: if they are a slice of a stack, as an expert's are, remember which."""
        if op.name == "select" and not op["dim"] and op["self"].ndim == 3 and parent not in self._slices:
            stack = op["self"]
            self._slices[child] = (parent, op["index"] % len(stack), len(stack))
        elif parent in self._slices and op.name in KEEPS:
            self._slices[child] = self._slices[parent]

    def summed(self, chosen: Tensor, other: Tensor) -> Tensor:
        """The units of a sum of units that lie side by side: new ones, called after the chosen, and made of both."""
        kin = self.of(int(chosen.max()))
        real = chosen >= 0
        if int(chosen[real].min()) < kin.start:
            return chosen
        at = (chosen[real] - kin.start).long()
        for whole, part in ((chosen, other), (other, chosen)):
            if self._is_term(part, whole):
                return whole
        terms = (torch.arange(kin.size, dtype=chosen.dtype) + kin.start, torch.full((kin.size,), NONE))
        terms[1][at] = other[real].to(terms[1].dtype)
        key = (kin.start, hash(tuple(terms[1].tolist())))
        if key not in self._sums:
            made_of = tuple(self.runs(term) for term in terms)
            self.claim(kin.made_by, kin.size, kin.weights, kin.each, key=("sum", made_of))
            self._sums[key] = self._all[-1]
            self._terms[self._next - kin.size] = terms
        return torch.where(real, chosen - kin.start + self._sums[key].start, chosen)

    def _is_term(self, part: Tensor, whole: Tensor) -> bool:
        """Whether units are of sums, entry by entry, and others their terms."""
        if part.shape != whole.shape or int(whole.min()) < 0 or not int(part.max()) < int(whole.min()):
            return False
        family = self.of(int(whole.max()))
        if family.start not in self._terms or int(whole.min()) < family.start:
            return False
        at = (whole - family.start).long()
        terms = [term[at].to(part.dtype) for term in self._terms[family.start]]
        return any(torch.equal(part, term) for term in terms) or any(self._is_term(part, term) for term in terms)

    def is_recurrence(self, units: Sequence[Tensor]) -> bool:
        """Whether the first step has no state to add, and all the others are sums of the same kind with one."""
        first, *rest = units
        last = rest[-1]
        return all(unit is last or torch.equal(unit, last) for unit in rest) and self._is_term(first, last)

    def runs(self, units: Tensor) -> Runs | None:
        """Units by their numbers, as they are told in every pass; None where they cannot be."""
        values = units.flatten().tolist()
        if values and values[0] >= 0 and values == list(range(values[0], values[0] + len(values))):  # nearly always
            own = self.of(values[0])
            if values[-1] < own.start + own.size and own.key is not None and not own.ids:
                return ((own.key, values[0] - own.start, values[-1] + 1 - own.start),)
        found: list[tuple[Hashable, int, int]] = []
        begin = 0
        for k in range(1, len(values) + 1):
            first = values[begin]
            family = self.of(first) if first >= 0 else None
            end = first + 1 if family is None else family.start + family.size
            if family is not None and family.key is None:
                return None
            if k == len(values) or values[k] != values[k - 1] + 1 or values[k] >= end:
                if family is not None and family.ids:
                    found += [(family.ids[v - family.start], 0, 1) for v in values[begin:k]]
                    begin = k
                    continue
                start = first if family is None else first - family.start
                found.append((None if family is None else family.key, start, start + k - begin))
                begin = k
        return tuple(found)

    def last(self, unit: Tensor) -> Family | None:
        """The family of the units of a tensor: the last one, where there are several."""
        named = names_of(unit)
        return self.of(int(named[-1])) if len(named) else None

    def are_by_row(self, unit: Tensor) -> bool:
        """Whether each point has some units of its own among these."""
        family = self.last(unit)
        return family is not None and bool(family.ids) and family.ids[0][0] == ROW

    def of(self, unit: int) -> Family:
        """The family of a unit."""
        return self._all[bisect_right(self._all, unit, key=lambda family: family.start) - 1]


def _module(name: str) -> str:
    """The module that a parameter belongs to; the parameter itself, where it is no layer's `weight`."""
    return name.removesuffix(".weight")
