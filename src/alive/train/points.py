"""The points of a run where the model is: kept as they are stored, read as numbers a batch at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ..data import Data


class Points:
    """Training and test points on the device of a parameter; small or float sets are made ready once.

    Images of whole numbers stay so, a quarter of the room, until `read` makes a batch of them what networks read.
    """

    def __init__(self, data: Data, like: Tensor, *, channels_last: bool = False) -> None:
        self._data, self._dtype = data, like.dtype
        layout: dict[str, Any] = {"memory_format": torch.channels_last} if channels_last else {}
        self._layout = layout if data.train_x.dim() == 4 else {}
        kept = like.dtype if data.train_x.is_floating_point() else data.train_x.dtype
        device = like.device
        tested = [] if data.test is None else [data.test]
        self.parts = [(x.to(device, kept), y.to(device)) for x, y in (data.train, *tested)]
        self.train_y = self.parts[0][1]

    def batch(self, numbers: Tensor, *, change: Callable[[Tensor], Tensor] | None = None) -> tuple[Tensor, Tensor]:
        """Training points of these numbers and their labels."""
        x, y = (part[numbers.to(part.device)] for part in self.parts[0])
        return self.read(x, change), y

    def read(self, x: Tensor, change: Callable[[Tensor], Tensor] | None = None) -> Tensor:
        """Stored points as a network reads them, and then changed if asked."""
        ready = self._data.pixels(x, dtype=self._dtype)
        ready = ready if change is None else change(ready)
        return ready.contiguous(**self._layout) if self._layout else ready
