"""Copies: which parts of a weight are copies of one another, as when it is repeated for every point.

Weights that were made of others can be made once more, of random numbers in place of the parameters: what comes out
equal is a copy.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor

from ..torch_private import tree_leaves, tree_map
from .op import Op
from .owners import Recipe

DEEP = 60  # operations, behind which weights are taken as they are
COPYING = {"repeat", "repeat_interleave", "expand", "stack", "cat", "index", "index_select", "gather", "embedding"}
COPYING |= {"index_put", "copy", "index_copy", "scatter", "tile"}
COPIES = {"_to_copy", "clone", "detach", "alias", "contiguous", "lift_fresh_copy", "requires_grad"}


class Given(NamedTuple):
    """An argument that is made first."""

    recipe: Recipe


def recipe(op: Op, which: int) -> Recipe | None:
    """How one of the results is made, if it is of weights; the data may choose some rows of them, by whole numbers."""
    found = [(t, op.of(t)) for t in op.tensors()]
    if not any(o.weight or o.made is not None for _, o in found):
        return None
    recipes = [o.made for _, o in found if o.made is not None]
    depth = 1 + max((made.depth for made in recipes), default=0)
    asked = [t for t, o in found if o.data and o.made is None and (t.is_floating_point() or not o.is_foreign)]
    if depth > DEEP or any(t.is_floating_point() or t.dtype == torch.bool or t.ndim != 1 for t in asked):
        return None
    chosen = max([*map(len, asked), *(made.chosen for made in recipes)], default=0)
    written = {id(t) for t in op.written()}
    result = (op.written() or op.outputs())[which]
    if len(written) > 1:
        return None
    given = {name: _argument(op, value) for name, value in op.given.items()}
    plain = [value for value in tree_leaves(list(op.given.values())) if not isinstance(value, Tensor)]
    step = _Step(op.func, op.name.rstrip("_"), given, which, tuple(result.shape), chosen, hash((op.func, str(plain))))
    copies = step.name in COPYING or any(made.copies for made in recipes)
    steady = all(made.steady for made in recipes) and not any(
        t.is_floating_point() for t, o in found if o.made is None and not o.weight
    )
    numbers = step.blended if _blends(op) else step.replayed
    return Recipe(numbers, depth, chosen, copies, steady)


def _blends(op: Op) -> bool:
    """Whether an operation works entry by entry, where signs or rounding would make different numbers equal."""
    return op.signature.pointwise and op.name.rstrip("_") != "copy"


def _argument(op: Op, value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_argument(op, item) for item in value]
    return _give(op, value) if isinstance(value, Tensor) else value


def _give(op: Op, t: Tensor) -> Any:
    o = op.of(t)
    if o.made is not None:
        return Given(o.made)
    if o.weight:
        return Given(root(t, o.source))
    return t.detach().cpu().double() if t.is_floating_point() else t.detach().cpu()


def root(t: Tensor, source: Hashable) -> Recipe:
    """Of a tensor that nothing else made: numbers of its own, equal for equal sources."""
    seed, shape = hash((id(t) if source is None else source, tuple(t.shape))), t.shape

    def numbers(every: bool, told: dict[int, Tensor]) -> Tensor:
        return torch.rand(shape, dtype=torch.float64, generator=_seed(seed))

    return Recipe(numbers)


def _seed(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed % (1 << 62))


class _Step(NamedTuple):
    """One operation, to be done again on other numbers."""

    func: Callable[..., Any]
    name: str
    given: Any
    which: int
    shape: tuple[int, ...]
    chosen: int
    seed: int

    def _compute(self, every: bool, told: dict[int, Tensor]) -> dict[str, Any]:
        def number(value: Any) -> Any:
            if not isinstance(value, Given):
                return value
            if id(value.recipe) not in told:
                told[id(value.recipe)] = value.recipe.numbers(every, told)
            return told[id(value.recipe)]

        found: dict[str, Any] = tree_map(number, self.given, is_leaf=lambda value: isinstance(value, Given))
        return found

    def replayed(self, every: bool, told: dict[int, Tensor]) -> Tensor:
        """The same operation."""
        given = self._compute(every, told)
        if self.name in COPIES:
            return cast(Tensor, given["self"])
        if self.name == "copy":
            return cast(Tensor, given["src"]).expand(self.shape)
        if every and self.chosen:
            given = _for_all(given, self.chosen)
        out = self.func(given.pop("self"), **given) if "self" in given else self.func(**given)
        return cast(Tensor, out[self.which] if isinstance(out, Sequence) else out)

    def blended(self, every: bool, told: dict[int, Tensor]) -> Tensor:
        """A sum of its operands in shares of their own, in place of the operation."""
        generator = _seed(self.seed)
        operands = [t for t in tree_leaves(self._compute(every, told)) if isinstance(t, Tensor)]
        shares = torch.rand(len(operands), dtype=torch.float64, generator=generator)
        blend = torch.zeros((), dtype=torch.float64)
        for share, t in zip(shares, operands, strict=True):
            blend = blend + share * t
        return blend


def _for_all(given: dict[str, Any], chosen: int) -> dict[str, Any]:
    """Arguments of an operation as if all rows of a table had been chosen."""
    table: Tensor = given["weight"] if "weight" in given else given["self"]

    def every(value: Any) -> Any:
        is_index = isinstance(value, Tensor) and not value.is_floating_point() and tuple(value.shape) == (chosen,)
        return torch.arange(len(table)) if is_index else value

    given = tree_map(every, given)
    for name in ("size", "shape"):
        if name in given and given[name] and given[name][0] == chosen:
            given[name] = [-1, *given[name][1:]]
    return given


def signatures(numbers: Tensor, axes: Sequence[int]) -> Tensor:
    """One number for all entries along some axes: equal where these are equal one by one."""
    weighted = numbers
    for number, axis in enumerate(axes):
        own = torch.rand(numbers.shape[axis], dtype=torch.float64, generator=_seed(number)) + 0.5
        weighted = weighted * own.view([-1 if d == axis else 1 for d in range(numbers.ndim)])
    return (weighted.sum(list(axes)) if axes else weighted).mul(1e8).round()


def ranked(found: Tensor) -> tuple[Tensor, Tensor]:
    """Which of its different entries each one is, counted in the order in which they come; and these entries."""
    names, inverse = found.flatten().unique(return_inverse=True)
    first = torch.full_like(names, found.numel(), dtype=torch.long)
    first = first.scatter_reduce(0, inverse, torch.arange(found.numel()), "amin")
    order = first.argsort()
    rank = torch.empty_like(order)
    rank[order] = torch.arange(len(order))
    return rank[inverse].view(found.shape), names[order]
