"""Which point each entry of the inputs belongs to: the batch axis of every input tensor."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence

from .owners import NONE, Owners, nobody, shared
from .tracker import Tracker


def leaves(batch: Any) -> Iterator[Tensor | PackedSequence]:
    """The tensors and packed sequences in a batch, however it nests them."""
    if isinstance(batch, Tensor | PackedSequence):
        yield batch
    elif isinstance(batch, Mapping):
        for value in batch.values():
            yield from leaves(value)
    elif isinstance(batch, list | tuple | set):
        for value in batch:
            yield from leaves(value)
    elif is_dataclass(batch) and not isinstance(batch, type):
        for field in fields(batch):
            yield from leaves(getattr(batch, field.name))
    elif hasattr(batch, "__dict__") and not callable(batch):  # graphs and other records of tensors
        for value in vars(batch).values():
            if isinstance(value, Tensor | Mapping | list | tuple):
                yield from leaves(value)


def tensors(batch: Any) -> Iterator[Tensor]:
    """The tensors in a batch, those of packed sequences among them."""
    for leaf in leaves(batch):
        yield leaf.data if isinstance(leaf, PackedSequence) else leaf


def count(batch: Any, point_axis: int | None) -> int | None:
    """How many points a batch has, by its first tensor; None if that is unknown."""
    found = list(leaves(batch))
    if point_axis is None:
        return len(found)
    first = next(iter(found), None)
    if isinstance(first, PackedSequence):
        return int(first.batch_sizes[0])
    if first is None or not -first.ndim <= point_axis < first.ndim:
        return None
    return first.shape[point_axis]


def enter(tracker: Tracker, batch: Any, points: int | None, point_axis: int | None) -> None:
    """Tell the tracker which point each entry of the batch belongs to; tensors of another length belong to all."""
    for number, leaf in enumerate(leaves(batch)):
        if isinstance(leaf, PackedSequence):
            _enter_packed(tracker, leaf)
        elif leaf.layout == torch.strided and not leaf.is_nested:
            tracker.enter(leaf, _owners(tracker, leaf, number, points, point_axis))


def _owners(tracker: Tracker, x: Tensor, number: int, points: int | None, point_axis: int | None) -> Owners:
    if point_axis is None:
        return Owners(nobody(x.ndim, number), nobody(x.ndim))
    if points is None or not -x.ndim <= point_axis < x.ndim or x.shape[point_axis] != points:
        return shared(x.ndim)
    point = torch.arange(points, dtype=torch.int32).view(
        [points if d == point_axis % x.ndim else 1 for d in range(x.ndim)]
    )
    unit = nobody(x.ndim)
    if x.ndim == 2 and x.is_floating_point():  # in a table [N, features] there is no doubt which axis holds the points
        axis = 1 - point_axis % 2
        start = tracker.families.claim("input", x.shape[axis], key=("input", number))
        unit = torch.arange(start, start + x.shape[axis], dtype=torch.int32).unsqueeze(1 - axis)
    return Owners(point, unit)


def _enter_packed(tracker: Tracker, packed: PackedSequence) -> None:
    """The rows of a packed sequence: for each step, the sequences that are that long, the longest first."""
    order = packed.sorted_indices
    order = torch.arange(int(packed.batch_sizes[0])) if order is None else order
    rows = torch.cat([order[:size] for size in packed.batch_sizes.tolist()]).to(torch.int32)
    x = packed.data
    tracker.enter(x, Owners(rows.view(-1, *[1] * (x.ndim - 1)), nobody(x.ndim, NONE)))
    tracker.enter(packed.batch_sizes, shared(1))
