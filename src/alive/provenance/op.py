"""One operation of a running model, as the rules of provenance read it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..torch_private import schema_of
from .owners import LOST, MANY, Owners, constant, lost, spread, together

PLACES = ("scatter", "index", "masked_scatter", "_index", "_unsafe_index")  # what is written lies where indices say
Results = Owners | Sequence[Owners | None]


class Signature(NamedTuple):
    """What the schema of an operator says, read once: its name, its arguments with their defaults, and its kind."""

    called: str
    name: str
    defaults: dict[str, Any]
    marked: tuple[str, ...]  # arguments that are written to
    pointwise: bool
    is_view: bool
    moves_itself: bool  # as `t_` does


@cache
def signature(func: Any) -> Signature:
    """The signature of an operator."""
    schema = schema_of(func)
    marked = tuple(a.name for a in schema.arguments if a.alias_info is not None and a.alias_info.is_write)
    kinds = (torch.Tag.pointwise in func.tags, func.is_view, torch.Tag.inplace_view in func.tags)
    name = schema.name.split("::")[1]
    return Signature(str(func), name, {a.name: a.default_value for a in schema.arguments}, marked, *kinds)


class Op:
    """A call of an operator: its arguments by name, and the owners of the tensors among them."""

    def __init__(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], owners: Callable[[Tensor], Owners]):
        self.func = func
        self.signature = signature(func)
        self.name = self.signature.name
        self.given: dict[str, Any] = {**dict(zip(self.signature.defaults, args, strict=False)), **kwargs}
        self._owners = owners
        self._known: dict[int, tuple[Tensor, Owners]] = {}  # of the arguments, before they are written to
        self._tensors = [t for name, value in self.given.items() if name != "out" for t in _tensors(value)]
        self._written = [t for name in self.signature.marked for t in _tensors(self[name])]
        self.out: Any = None
        self.fault = ""  # why it is not followed, where that is our own fault
        self.ties: list[tuple[int, int]] = []  # inputs that it lays beside one another, point by point

    def __getitem__(self, name: str) -> Any:
        """An argument by its name in the schema, or its default."""
        return self.given[name] if name in self.given else self.signature.defaults.get(name)

    def __contains__(self, name: str) -> bool:
        return name in self.signature.defaults

    def of(self, t: Tensor) -> Owners:
        """The owners of a tensor."""
        known = self._known.get(id(t))
        if known is None:
            known = self._known[id(t)] = t, self._owners(t)
        return known[1]

    def asked(self, index: Tensor) -> Owners:
        """The owners of an index; one that comes from outside is a constant, whose values hold in this pass."""
        found = self.of(index)
        return found._replace(data=False) if found.is_foreign and not index.is_floating_point() else found

    def tensors(self) -> Iterator[Tensor]:
        """All tensors among the arguments, except those that are only written to."""
        return iter(self._tensors)

    def written(self) -> list[Tensor]:
        """The tensors that the operation changes."""
        return self._written

    def outputs(self) -> list[Tensor]:
        """The tensors it returned."""
        return list(_tensors(self.out))

    def source(self) -> Hashable:
        """What a result without points is made of."""
        plain = [(k, v) for k, v in self.given.items() if not _tensors(v)]
        return hash((self.signature.called, str(plain), *(self.of(t).source for t in self.tensors())))

    def plain(self, ndim: int) -> Owners:
        """The owners of a result that depends on no point."""
        found = [self.of(t) for t in self.tensors()]
        made = constant(ndim, self.source(), weight=any(o.weight for o in found))
        return made._replace(noise=True) if any(o.noise for o in found) else made

    def lost(self, ndim: int, why: str = "") -> Owners:
        """The owners of a result that cannot be followed."""
        return lost(ndim, why or self.fault or f"{self.func} is not followed", [self.of(t) for t in self.tensors()])

    def made(self, point: Tensor, unit: Tensor, *operands: Owners, **more: Any) -> Owners:
        """The owners of a result, with what it has in common with its operands."""
        if not self.name.startswith(PLACES):
            self.tie(point, operands)
        return Owners(point, unit, **{**together(operands), **more})

    def tie(self, point: Tensor, operands: Sequence[Owners]) -> None:
        """Note where points of several inputs meet entry by entry: with other lengths it would fail."""
        inputs = {o.inputs for o in operands if o.inputs}
        if len(inputs) < 2 or bool((point == LOST).any()) or bool((point == MANY).any()):
            return
        rows = [o for o in operands if spread(o.point) and not (o.moved or o.placed)]
        self.ties += [(a.inputs, b.inputs) for a, b in pairwise(rows) if a.inputs != b.inputs]


def _tensors(value: Any) -> Sequence[Tensor]:
    if isinstance(value, Tensor):
        return (value,)
    return [t for item in value for t in _tensors(item)] if isinstance(value, list | tuple) else ()
