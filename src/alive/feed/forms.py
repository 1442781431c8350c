"""The four forms of data: columns in memory, items one by one, a loader, a stream of batches.

Each form yields batches, and gives some of its points: any of them, where it knows how many there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Subset
from torch.utils.data import default_collate as stack

from ..errors import AliveError
from .arrays import as_tensor, each, inner, is_array, narrowed, tensor
from .calls import is_row

SIZE = 1024  # points a batch, where the data do not come in batches


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """Tensors in memory, whole, that all hold the same points; `then` is done to each batch."""

    whole: Any
    axis: int
    length: int
    size: int = SIZE
    then: Callable[[Any], Any] | None = None

    def __iter__(self) -> Iterator[Any]:
        for start in range(0, self.length, self.size):
            number = min(self.size, self.length - start)
            part = each(
                self.whole, lambda x, at=start, n=number: x.narrow(self._place(x), at, n) if self._has(x) else x
            )
            yield part if self.then is None else self.then(part)

    def take(self, kept: Tensor) -> Columns:
        """The points of these numbers."""
        whole = each(self.whole, lambda x: x.index_select(self._place(x), kept.to(x.device)) if self._has(x) else x)
        return replace(self, whole=whole, length=len(kept))

    def _has(self, x: Tensor) -> bool:
        return self.length in x.shape

    def _place(self, x: Tensor) -> int:
        """The axis of the points: the one that was said, where it fits."""
        said = x.ndim > self.axis and x.shape[self.axis] == self.length
        return self.axis if said else list(x.shape).index(self.length)


@dataclass(frozen=True, slots=True, eq=False)
class Items:
    """A data set of items, put together to batches here."""

    items: Any
    dtype: torch.dtype
    size: int = SIZE

    @property
    def length(self) -> int:
        """How many items there are."""
        return len(self.items)

    def __iter__(self) -> Iterator[Any]:
        return iter(DataLoader(self.items, batch_size=self.size, collate_fn=partial(together, dtype=self.dtype)))

    def take(self, kept: Tensor) -> Items:
        """The items of these numbers."""
        return replace(self, items=Subset(self.items, kept.tolist()))


@dataclass(frozen=True, slots=True, eq=False)
class Loader:
    """A DataLoader that takes the items of a data set of known length in some order: batches as it makes them."""

    loader: DataLoader[Any]

    @property
    def length(self) -> int:
        """How many items there are."""
        return len(self.loader.dataset)  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.loader)

    def take(self, kept: Tensor) -> Loader:
        """The items of these numbers."""
        part = Subset(self.loader.dataset, kept.tolist())
        return Loader(DataLoader(part, batch_size=self.loader.batch_size, collate_fn=self.loader.collate_fn))


@dataclass(frozen=True, slots=True, eq=False)
class Stream:
    """Batches that come as they come; nobody knows how many."""

    batches: Iterable[Any]
    axis: int | None
    limit: int | None = None
    length: None = None

    def __iter__(self) -> Iterator[Any]:
        if self.limit is None:
            yield from self.batches
            return
        left = self.limit
        for batch in self.batches:
            found = each(batch, as_tensor)
            points = self._points(found)
            yield (
                next(iter(Columns(found, self.axis or 0, points, left)))
                if self._can_part(found, points, left)
                else batch
            )
            left -= points
            if left <= 0:
                return

    def _points(self, batch: Any) -> int:
        """How many points a batch has, by its first tensor; one if that is not known."""
        found = inner(batch)
        if self.axis is None:
            return len(found) or 1
        return found[0].shape[self.axis] if found and found[0].ndim > self.axis else 1

    def _can_part(self, batch: Any, points: int, left: int) -> bool:
        """Whether a batch of more points than are wanted can be cut: all its tensors are rows of them."""
        if self.axis is None or points <= left:
            return False
        return all(points in (x.shape[:1] + x.shape[self.axis : self.axis + 1]) for x in inner(batch))


@dataclass(frozen=True, slots=True, eq=False)
class Chain:
    """Several forms, one after the other."""

    parts: tuple[Form, ...]

    @property
    def length(self) -> int | None:
        """How many points there are in all of them, if each knows it."""
        lengths = [part.length for part in self.parts]
        return None if None in lengths else sum(length or 0 for length in lengths)

    def __iter__(self) -> Iterator[Any]:
        for part in self.parts:
            yield from part

    def take(self, kept: Tensor) -> Chain:
        """The points of these numbers, counted through all parts."""
        parts, before = [], 0
        for part in self.parts:
            assert not isinstance(part, Stream)
            behind = before + (part.length or 0)
            parts.append(part.take(kept[(kept >= before) & (kept < behind)] - before))
            before = behind
        return Chain(tuple(parts))


Form = Columns | Items | Loader | Stream | Chain


def some(form: Form, points: int, seed: int) -> Form:
    """So many points: any of them, drawn at random, in their order; of a stream the first."""
    if form.length is None or isinstance(form, Stream):
        return replace(form if isinstance(form, Stream) else Stream(form, 0), limit=points)
    return form.take(drawn(form.length, points, seed))


def resized(form: Form, size: int) -> Form:
    """The same points in batches of another size; what comes in batches already is refused."""
    if isinstance(form, Chain):
        return Chain(tuple(resized(part, size) for part in form.parts))
    if isinstance(form, Loader | Stream):
        raise AliveError(
            "these data come in batches already", "Leave the batch size out, and set it where they are made"
        )
    return replace(form, size=size)


def drawn(length: int, points: int, seed: int) -> Tensor:
    """So many of the numbers 0 to length - 1, drawn at random, in order."""
    return torch.randperm(length, generator=torch.Generator().manual_seed(seed))[:points].sort().values


def together(items: list[Any], dtype: torch.dtype) -> Any:
    """Items as one batch: arrays as tensors, floats in the model's precision."""
    try:
        return stack([_example(item, dtype) for item in items])
    except (TypeError, ValueError, RuntimeError) as error:
        if isinstance(error, AliveError):
            raise
        reason = str(error).strip().splitlines()[0].rstrip(".")
        raise AliveError(
            f"items of the data set cannot be put together to a batch: {reason}",
            "Let its items be tensors of one shape, tuples or mappings of them; or pass a DataLoader with a collate_fn",
        ) from error


def _example(item: Any, dtype: torch.dtype) -> Any:
    if isinstance(item, float):
        return narrowed(torch.tensor(item, dtype=torch.float64), dtype)
    if isinstance(item, Tensor):
        return item
    if hasattr(item, "__array__") or (isinstance(item, list) and is_array(item)):
        return tensor(item, dtype)
    if isinstance(item, Mapping):
        return {key: _example(value, dtype) for key, value in item.items()}
    if isinstance(item, tuple) and hasattr(item, "_fields"):
        return type(item)(*(_example(value, dtype) for value in item))
    return [_example(value, dtype) for value in item] if is_row(item) else item
