"""Which point each entry of the inputs belongs to: the batch axis of every input tensor."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from .owners import INPUTS, NONE, Owners, nobody, shared
from .pairing import Pairing
from .tracker import Tracker

Leaf = Tensor | PackedSequence


def leaves(batch: Any) -> Iterator[Leaf]:
    """The tensors and packed sequences in a batch, however it nests them."""
    for _, leaf in named(batch):
        yield leaf


def named(batch: Any, path: str = "") -> Iterator[tuple[str, Leaf]]:
    """The same with their names: keys and places, such as `graph.edges` or `1`."""
    if isinstance(batch, Tensor | PackedSequence):
        yield path, batch
        return
    parts: Iterable[tuple[Any, Any]] = ()
    if isinstance(batch, Mapping):
        parts = batch.items()
    elif isinstance(batch, list | tuple | set):
        parts = enumerate(batch)
    elif is_dataclass(batch) and not isinstance(batch, type):
        parts = ((field.name, getattr(batch, field.name)) for field in fields(batch))
    elif hasattr(batch, "__dict__") and not callable(batch):  # graphs and other records of tensors
        parts = ((name, v) for name, v in vars(batch).items() if isinstance(v, Tensor | Mapping | list | tuple))
    for name, part in parts:
        yield from named(part, f"{path}.{name}" if path else str(name))


def by_name(model: nn.Module, args: Sequence[Any], keywords: Mapping[str, Any]) -> dict[str, Any]:
    """What a model is called on, by the names that its forward() gives it; what it gives none goes by its place."""
    try:
        found = inspect.signature(model.forward).parameters.values()
        names = [p.name for p in found if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    except (TypeError, ValueError):
        names = []
    return {(names[k] if k < len(names) else str(k)): part for k, part in enumerate(args)} | dict(keywords)


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


def enter(
    tracker: Tracker, batch: Any, points: int | None, point_axis: int | None, pairing: Pairing | None = None
) -> None:
    """Tell the tracker which point each entry of the batch belongs to; tensors of another length belong to all."""
    pairing = tracker.pairing = Pairing() if pairing is None else pairing
    tracker.families.points = points
    found = list(named(batch))
    pairing.expect([name for name, _ in found])
    for number, (name, leaf) in enumerate(found):
        if number and point_axis is not None:
            bit = pairing.bit(name, _length(leaf, point_axis), points)
        else:
            bit = pairing.first(name)
        if isinstance(leaf, PackedSequence):
            _enter_packed(tracker, leaf, bit)
        elif leaf.layout == torch.strided and not leaf.is_nested:
            owners = _owners(tracker, leaf, number, points if bit else None, point_axis)
            own = 1 << min(number, INPUTS - 2)
            tracker.families.inputs |= own
            tracker.enter(leaf, owners._replace(inputs=bit, behind=own))


def _length(x: Leaf, point_axis: int) -> int | None:
    """How many points it has, if it has any."""
    if isinstance(x, PackedSequence):
        return int(x.batch_sizes[0])
    return x.shape[point_axis] if -x.ndim <= point_axis < x.ndim and not x.is_nested else None


def _owners(tracker: Tracker, x: Tensor, number: int, points: int | None, point_axis: int | None) -> Owners:
    if point_axis is None:
        return Owners(nobody(x.ndim, number), nobody(x.ndim))
    if points is None or _length(x, point_axis) != points:
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


def _enter_packed(tracker: Tracker, packed: PackedSequence, bit: int) -> None:
    """The rows of a packed sequence: for each step, the sequences that are that long, the longest first."""
    order = packed.sorted_indices
    order = torch.arange(int(packed.batch_sizes[0])) if order is None else order
    rows = torch.cat([order[:size] for size in packed.batch_sizes.tolist()]).to(torch.int32)
    x = packed.data
    tracker.enter(x, Owners(rows.view(-1, *[1] * (x.ndim - 1)), nobody(x.ndim, NONE), inputs=bit))
    tracker.enter(packed.batch_sizes, shared(1))
