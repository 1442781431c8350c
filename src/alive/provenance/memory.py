"""Memory: the owners of every tensor that is alive, kept by the bytes it lies in, so that views share them.

A tensor is known by its storage, offset, sizes and strides. What is written through one view is seen through all.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef

from ..torch_private import storage_id
from .owners import LOST, Owners, compact, together

Geometry = tuple[int, torch.Size, tuple[int, ...], int]


@dataclass
class _Held:
    """One storage: the owners of tensors seen in it, or of all its entries after a part of it was written to."""

    ref: StorageWeakRef  # while it is held, the address is not given to another storage
    seen: dict[Geometry, Owners] = field(default_factory=dict)
    whole: Owners | None = None


def geometry(t: Tensor) -> Geometry:
    """Where in its storage a tensor lies."""
    return int(t.storage_offset()), t.shape, t.stride(), t.element_size()


class Memory:
    """Owners by tensor."""

    def __init__(self) -> None:
        self._held: dict[int, _Held] = {}

    def get(self, t: Tensor) -> Owners | None:
        """The owners of a tensor; None if its storage was never seen."""
        held = self._held.get(storage_id(t))
        if held is None:
            return None
        place = geometry(t)
        found = held.seen.get(place)
        if found is None:
            found = held.seen[place] = _view(_flat(held, t), t)
        return found

    def knows(self, t: Tensor) -> bool:
        """Whether a view needs no look: this one was seen, or what lies in each byte is known."""
        held = self._held.get(storage_id(t))
        if held is None:
            return False
        if held.whole is not None:
            return held.whole.data and not held.whole.choice and held.whole.made is None
        return geometry(t) in held.seen

    def put(self, t: Tensor, owners: Owners) -> None:
        """Note the owners of a tensor that was made, or seen for the first time."""
        key = storage_id(t)
        held = self._held.get(key)
        if held is None:
            held = self._held[key] = _Held(StorageWeakRef(t.untyped_storage()))
        held.seen[geometry(t)] = owners

    def write(self, t: Tensor, owners: Owners) -> None:
        """Note that a tensor was written to: what lies in the same bytes changes with it."""
        storage, key = t.untyped_storage(), storage_id(t)
        held = self._held.get(key)
        if held is None or t.numel() * t.element_size() == storage.nbytes():
            self._held[key] = _Held(StorageWeakRef(storage), {geometry(t): owners})
            return
        flat = _flat(held, t)
        offset, size, stride, _ = geometry(t)
        flat.point.as_strided(size, stride, offset).copy_(owners.point.expand(size))
        flat.unit.as_strided(size, stride, offset).copy_(owners.unit.expand(size))
        held.seen = {}
        held.whole = flat._replace(weight=flat.weight and owners.weight, source=None, **together([flat, owners]))


def _flat(held: _Held, like: Tensor) -> Owners:
    """The owners of all entries of a storage, in a row; entries that were never set are unknown."""
    if held.whole is None:
        size = like.untyped_storage().nbytes() // like.element_size()
        point = torch.full((size,), LOST, dtype=torch.int32)
        unit = torch.full((size,), LOST, dtype=torch.int32)
        kept = {place: o for place, o in held.seen.items() if place[3] == like.element_size()}
        last = None
        for (offset, shape, stride, _), owners in kept.items():
            if 0 not in stride or all(n == 1 or s for n, s in zip(shape, stride, strict=True)):
                point.as_strided(shape, stride, offset).copy_(owners.point.expand(shape))
                unit.as_strided(shape, stride, offset).copy_(owners.unit.expand(shape))
                last = owners
        base = last or next(iter(held.seen.values()))
        held.whole = base._replace(point=point, unit=unit)
    return held.whole


def _view(flat: Owners, t: Tensor) -> Owners:
    offset, size, stride, _ = geometry(t)
    if flat.point.numel() * t.element_size() != t.untyped_storage().nbytes():
        return flat._replace(
            point=torch.full((1,) * t.ndim, LOST, dtype=torch.int32),
            unit=torch.full((1,) * t.ndim, LOST, dtype=torch.int32),
            why="its bytes are read as another type",
        )
    point, unit = (compact(o.as_strided(size, stride, offset)).clone() for o in (flat.point, flat.unit))
    return flat._replace(point=point, unit=unit)
