"""Batches that a model runs on, as often as they are asked for; of any points, where it is known how many there are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain as chained
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Subset
from torch.utils.data import default_collate as stack

from ..errors import AliveError, fault
from .convert import as_tensor, each, inner, is_array, move, narrow, precision, tensor

SIZE = 1024  # points a batch, where the data do not come in batches


@dataclass(frozen=True, slots=True, eq=False)
class Batches:
    """The batches of any data, on the device of a model; arrays become tensors in its precision.

    begin   reads from the beginning, so many points a batch
    length  how many points there are; None where nobody knows
    size    points a batch; None where they come in batches already
    pick    the points of these numbers, where it is known how many there are

    >>> [len(x) for x in columns(torch.ones(5, 2)).resized(2)]
    [2, 2, 1]
    """

    begin: Callable[[int | None], Iterable[Any]]
    length: int | None = None
    size: int | None = None
    pick: Callable[[Tensor], Batches] | None = None
    model: nn.Module | None = None

    def __iter__(self) -> Iterator[Any]:
        model = self.model or nn.Identity()
        device = next((x.device for x in chained(model.parameters(), model.buffers())), torch.device("cpu"))
        if device.type == "meta":
            raise AliveError(
                f"{type(model).__name__} lies on the meta device and has no values",
                "Load its weights, or call to_empty()",
            )
        number, dtype = 0, precision(model)
        try:
            for batch in self.begin(self.size):
                yield move(batch, device, dtype)
                number += 1
        except Exception as error:  # in the user's own code
            raise fault(f"reading batch {number} of the data", error) from error

    def take(self, numbers: Tensor) -> Batches:
        """The points of these numbers; of a stream nobody knows which they are."""
        assert self.pick is not None
        return replace(self.pick(numbers), size=self.size, model=self.model)

    def resized(self, size: int) -> Batches:
        """The same points in batches of another size; what comes in batches already is refused."""
        if self.size is None:
            raise AliveError(
                "these data come in batches already", "Leave the batch size out, and set it where they are made"
            )
        return replace(self, size=size)

    def sample(self, points: int, seed: int, axis: int | None = 0) -> tuple[Batches, str]:
        """At most so many points, in their order, and a sentence on the choice; empty if all points are taken."""
        if self.length is not None and self.length <= points:
            return self, ""
        if self.length is None:
            some = Batches(lambda size: _first(self, points, axis), model=self.model)
            return some, f"the first {points:,} points of the stream"
        some = self.take(draw(self.length, points, seed))
        return some, f"{points:,} of {self.length:,} points, drawn at random with seed {seed}"


def draw(length: int, points: int, seed: int) -> Tensor:
    """So many of the numbers 0 to length - 1, drawn at random, in order."""
    return torch.randperm(length, generator=torch.Generator().manual_seed(seed))[:points].sort().values


def columns(whole: Any, axis: int = 0, length: int | None = None, then: Callable[[Any], Any] | None = None) -> Batches:
    """Tensors in memory that all hold the same points; `then` is done to each batch."""
    count = len(whole) if length is None else length

    def place(x: Tensor) -> int:
        """The axis of the points: the one that was said, where it fits."""
        return axis if x.ndim > axis and x.shape[axis] == count else list(x.shape).index(count)

    def part(change: Callable[..., Tensor]) -> Any:
        return each(whole, lambda x: change(x, dim=place(x)) if isinstance(x, Tensor) and count in x.shape else None)

    def begin(size: int | None) -> Iterator[Any]:
        for start in range(0, count, size or SIZE):
            number = min(size or SIZE, count - start)
            some = part(partial(Tensor.narrow, start=start, length=number))
            yield some if then is None else then(some)

    def take(numbers: Tensor) -> Batches:
        return columns(part(lambda x, dim: x.index_select(dim, numbers.to(x.device))), axis, len(numbers), then)

    return Batches(begin, count, SIZE, take)


def items(source: Any, dtype: torch.dtype) -> Batches:
    """A data set of items, put together to batches here."""
    return Batches(
        lambda size: DataLoader(source, batch_size=size, collate_fn=partial(together, dtype=dtype)),
        len(source),
        SIZE,
        lambda numbers: items(Subset(source, numbers.tolist()), dtype),
    )


def loader(source: DataLoader[Any]) -> Batches:
    """A DataLoader that takes the items of a data set of known length in some order: batches as it makes them."""

    def take(numbers: Tensor) -> Batches:
        part = Subset(source.dataset, numbers.tolist())
        return loader(DataLoader(part, batch_size=source.batch_size, collate_fn=source.collate_fn))

    return Batches(lambda size: source, len(source.dataset), None, take)  # type: ignore[arg-type]


def stream(source: Iterable[Any]) -> Batches:
    """Batches that come as they come; nobody knows how many."""
    return Batches(lambda size: source)


def chain(parts: list[Batches]) -> Batches:
    """Several, one after the other."""
    lengths = [part.length for part in parts]

    def begin(size: int | None) -> Iterator[Any]:
        return chained.from_iterable(part.begin(part.size and size) for part in parts)

    def take(numbers: Tensor) -> Batches:
        """The points of these numbers, counted through all parts."""
        found, before = [], 0
        for part in parts:
            behind = before + (part.length or 0)
            found.append(part.take(numbers[(numbers >= before) & (numbers < behind)] - before))
            before = behind
        return chain(found)

    size = SIZE if all(part.size for part in parts) else None
    known = None not in lengths
    return Batches(begin, sum(filter(None, lengths)) if known else None, size, take if known else None)


def _first(source: Batches, left: int, axis: int | None) -> Iterator[Any]:
    """The first points of a stream; a batch of more is cut, where all its tensors are rows of them."""
    for batch in source.begin(source.size):
        found = as_tensor(batch)
        x = inner(found)
        points = len(x) or 1
        if axis is not None:
            points = x[0].shape[axis] if x and x[0].ndim > axis else 1
            if points > left and all(points in (part.shape[:1] + part.shape[axis : axis + 1]) for part in x):
                yield next(iter(columns(found, axis, points).begin(left)))
                return
        yield batch
        left -= points
        if left <= 0:
            return


def together(items: list[Any], dtype: torch.dtype) -> Any:
    """Items as one batch: arrays as tensors, floats in the model's precision."""

    def example(x: Any) -> Any:
        if isinstance(x, Tensor):
            return x
        if isinstance(x, float):
            return narrow(torch.tensor(x, dtype=torch.float64), dtype)
        return tensor(x, dtype) if hasattr(x, "__array__") or is_array(x) else None

    try:
        return stack([each(item, example) for item in items])
    except (TypeError, ValueError, RuntimeError) as error:
        if isinstance(error, AliveError):
            raise
        reason = str(error).strip().splitlines()[0].rstrip(".")
        raise AliveError(
            f"items of the data set cannot be put together to a batch: {reason}",
            "Let its items be tensors of one shape, tuples or mappings of them; or pass a DataLoader with a collate_fn",
        ) from error
