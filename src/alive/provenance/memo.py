"""A memo: what was made of the same owners before, as in every step of a loop."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

from torch import Tensor

SMALL, MOST = 1 << 14, 1 << 10  # entries of a tensor that is kept, and how many are
Made = TypeVar("Made")


class Memo:
    """Results by what was done, and to which tensors: the very same ones, which never change."""

    def __init__(self) -> None:
        self._kept: dict[Hashable, tuple[tuple[Tensor, ...], Any]] = {}

    def __call__(self, done: Hashable, given: tuple[Tensor, ...], make: Callable[[], Made]) -> Made:
        """What was made before, or is now."""
        key = (done, *map(id, given))
        kept = self._kept.get(key)
        if kept is not None:
            found: Made = kept[1]
            return found
        made = make()
        if all(t.numel() <= SMALL for t in given):
            if len(self._kept) >= MOST:
                self._kept.clear()
            self._kept[key] = given, made  # while they are held, nothing else gets their ids
        return made
