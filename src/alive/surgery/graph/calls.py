"""Data as calls of a model: the inputs of each batch, which can be cut and filled to one size."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ...data import read
from ...data.batches import stream
from ...data.calls import points_in, take
from ...errors import AliveError
from ...torch_private import tree_leaves, tree_map


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """What a model is called on: model(*args, **keywords), with so many points."""

    args: tuple[Any, ...]
    keywords: dict[str, Any]
    points: int

    def __call__(self, model: nn.Module) -> Any:
        """What the model says; it is given copies, which it may change in place."""
        args, keywords = tree_map(lambda x: x.clone() if isinstance(x, Tensor) else x, (self.args, self.keywords))
        return model(*args, **keywords)

    def rows(self, numbers: Tensor) -> Call:
        """The points of these numbers, which may come again and again."""

        def part(x: Any) -> Any:
            has = isinstance(x, Tensor) and x.ndim and len(x) == self.points
            return x.index_select(0, numbers.to(x.device)) if has else x

        args, keywords = tree_map(part, (self.args, self.keywords))
        return Call(args, keywords, len(numbers))

    def sized(self, size: int) -> Iterator[Call]:
        """The same points in calls of one size; the last is filled up with points that were there."""
        for start in range(0, self.points, size):
            yield self.rows(torch.arange(start, start + size) % self.points)

    def leaves(self) -> list[Any]:
        """All inputs, one after the other."""
        return [leaf for leaf in tree_leaves((self.args, self.keywords)) if isinstance(leaf, Tensor)]

    def shapes(self) -> str:
        """The shape of a point in every input."""
        return " and ".join(str(list(leaf.shape[1:])) for leaf in self.leaves())


class Calls:
    """Data of any form, as calls; as often as needed."""

    def __init__(self, data: Any, model: nn.Module) -> None:
        found = read(data, model)
        if found.length is None:
            found = read(stream(list(found)), model)  # a stream may come only once
        self.batches, self.model = found, model

    def __iter__(self) -> Iterator[Call]:
        first: Call | None = None
        for number, batch in enumerate(self.batches):
            points = points_in(batch, 0, number, model=self.model)
            found = take(self.model, batch)
            call = Call(found.args, dict(found.keywords), points)
            first = first or call
            if call.shapes() != first.shapes():
                raise AliveError(
                    f"batch {number} has points of shape {call.shapes()}, and the first batch has {first.shapes()}",
                    "Give points of one shape: a network is read for one",
                )
            yield call

    def first(self) -> Call:
        """The first call."""
        found = next(iter(self), None)
        if found is None:
            raise AliveError(
                "the data has no batch", "Pass a loader with at least one point; is it exhausted, or its split empty?"
            )
        return found
