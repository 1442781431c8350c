"""Families of units: the output features of one weighted operation, numbered consecutively."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable
from typing import NamedTuple

import torch
from torch import Tensor

from ..torch_private import storage_id
from .op import Op

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


class Family(NamedTuple):
    """So many units, from a number on; made with these weights, or with slices of a stack that make so many each."""

    start: int
    size: int
    made_by: str
    weights: int
    each: int = 0

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
        self._root: Tensor | None = None  # for units found to be the same: the one that stands for all
        self._members: dict[int, set[int]] = {}  # families of the units that one stands for
        self._slices: dict[Hashable, tuple[Hashable, int, int]] = {}  # the stack a slice is from, and its place
        self.storages: set[int] = set()  # of parameters
        self.fed = 0  # bits of the activations whose results were weighted again

    def claim(self, made_by: str, size: int, weights: int = 0, each: int = 0) -> int:
        """Reserve numbers for new units; returns the first."""
        family = Family(self._next, size, made_by, weights, each)
        self._all.append(family)
        self._next += size
        return family.start

    def fresh(
        self, op: Op, weight: Tensor, size: int, ndim: int, axis: int | None, *, batch: Tensor | None = None
    ) -> Tensor:
        """The units of an operation with these weights, along an axis of its result (and the weights' own batch)."""
        for t in op.tensors():
            self.fed |= op.of(t).behind
        own = 1
        if batch is not None and batch.ndim == 3 and batch.stride(0) != 0:
            own = batch.shape[0]
        source = op.of(weight).source
        if source in self._slices and own == 1:
            return self._slice(source, size, ndim, axis, weight)
        key = (self._memory(weight, source), size, own)
        family = self._known.get(key)
        if family is None or source is None:
            self.claim(_module(self._names.get(source, "")), own * size, weight.numel())
            family = self._known[key] = self._all[-1]
        shape = [1] * ndim
        if axis is not None:
            shape[axis] = size
        if own > 1:
            shape[0] = own
        return torch.arange(family.start, family.start + family.size, dtype=torch.int32).view(shape)

    def _memory(self, weight: Tensor, source: Hashable) -> Hashable:
        """What identifies weights: where a parameter's numbers lie and how, or what they were computed from."""
        storage = storage_id(weight)
        if storage not in self.storages:
            return source
        steps = tuple(step for n, step in zip(weight.shape, weight.stride(), strict=True) if n > 1)
        return storage, weight.storage_offset(), weight.numel(), steps

    def _slice(self, source: Hashable, size: int, ndim: int, axis: int | None, weight: Tensor) -> Tensor:
        """The units of one slice of a stack of weights, among those of all."""
        stack, index, count = self._slices[source]
        key = (stack, size, count)
        if key not in self._known:
            self.claim(_module(self._names.get(stack, "")), count * size, count * weight.numel(), size)
            self._known[key] = self._all[-1]
        start = self._known[key].start + index * size
        shape = [size if d == axis else 1 for d in range(ndim)]
        return torch.arange(start, start + size, dtype=torch.int32).view(shape)

    def trace(self, op: Op, parent: Hashable, child: Hashable) -> None:
        """Weights were computed from others: if they are a slice of a stack, as an expert's are, remember which."""
        if op.name == "select" and not op["dim"] and op["self"].ndim == 3 and parent not in self._slices:
            stack = op["self"]
            self._slices[child] = (parent, op["index"] % len(stack), len(stack))
        elif parent in self._slices and op.name in KEEPS:
            self._slices[child] = self._slices[parent]

    def resolved(self, unit: Tensor) -> Tensor:
        """The units by their current numbers: units found to be the same have one."""
        if self._root is None or not unit.numel():
            return unit
        named = (unit >= 0) & (unit < len(self._root))
        return torch.where(named, self._root[unit.masked_fill(~named, 0).long()], unit)

    def same(self, pairs: Tensor) -> None:
        """Units [2, K] that lie side by side in a sum are the same, unless they are of one operation."""
        if self._root is None or len(self._root) < self._next:
            grown = torch.arange(self._next, dtype=torch.int32)
            if self._root is not None:
                grown[: len(self._root)] = self._root
            self._root = grown
        left, right = (self.resolved(row) for row in pairs)
        both = [(min(a, b), max(a, b)) for a, b in zip(left.tolist(), right.tolist(), strict=True) if a != b]
        if not both or any(self._kin(a) & self._kin(b) for a, b in both):
            return
        now = torch.arange(len(self._root), dtype=torch.int32)
        for a, b in both:
            self._members[b] = self._kin(a) | self._kin(b)
            now[a] = b
        self._root = now[self._root.long()]

    def _kin(self, unit: int) -> set[int]:
        return self._members.get(unit) or {self.of(unit).start}

    def of(self, unit: int) -> Family:
        """The family of a unit."""
        return self._all[bisect_right(self._all, unit, key=lambda family: family.start) - 1]


def _module(name: str) -> str:
    """The module that a parameter belongs to; the parameter itself, where it is no layer's `weight`."""
    return name.removesuffix(".weight")
