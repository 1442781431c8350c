"""One operation of a running model, as the rules of provenance read it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from ..torch_private import schema_of
from .owners import LOST, MANY, Owners, constant, lost, spread, together

PLACES = ("scatter", "index", "masked_scatter", "_index", "_unsafe_index")  # what is written lies where indices say
Results = Owners | Sequence[Owners | None]


class Op:
    """A call of an operator: its arguments by name, and the owners of the tensors among them."""

    def __init__(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], owners: Callable[[Tensor], Owners]):
        self.func = func
        schema = schema_of(func)
        self.name: str = schema.name.split("::")[1]
        self.given = dict(zip((a.name for a in schema.arguments), args, strict=False)) | kwargs
        self._schema, self._owners = schema, owners
        self._known: dict[int, tuple[Tensor, Owners]] = {}
        self.out: Any = None
        self.fault = ""  # why it is not followed, where that is our own fault
        self.ties: list[tuple[int, int]] = []  # inputs that it lays beside one another, point by point

    def __getitem__(self, name: str) -> Any:
        """An argument by its name in the schema, or its default."""
        if name in self.given:
            return self.given[name]
        return next((a.default_value for a in self._schema.arguments if a.name == name), None)

    def __contains__(self, name: str) -> bool:
        return any(a.name == name for a in self._schema.arguments)

    def of(self, t: Tensor) -> Owners:
        """The owners of a tensor, as it was when first asked for."""
        if id(t) not in self._known:
            self._known[id(t)] = t, self._owners(t)  # held, so that no other takes its id
        return self._known[id(t)][1]

    def asked(self, index: Tensor) -> Owners:
        """The owners of an index; one that comes from outside is a constant, whose values hold in this pass."""
        found = self.of(index)
        return found._replace(data=False) if found.is_foreign and not index.is_floating_point() else found

    def tensors(self) -> Iterator[Tensor]:
        """All tensors among the arguments, except those that are only written to."""
        for name, value in self.given.items():
            if name != "out":
                yield from _tensors(value)

    def written(self) -> list[Tensor]:
        """The tensors that the operation changes."""
        marked = [a.name for a in self._schema.arguments if a.alias_info is not None and a.alias_info.is_write]
        return [t for name in marked for t in _tensors(self[name])]

    def outputs(self) -> list[Tensor]:
        """The tensors it returned."""
        return list(_tensors(self.out))

    def source(self) -> Hashable:
        """What a result without points is made of."""
        plain = [(k, v) for k, v in self.given.items() if not any(True for _ in _tensors(v))]
        return hash((str(self.func), str(plain), *(self.of(t).source for t in self.tensors())))

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


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _tensors(item)
