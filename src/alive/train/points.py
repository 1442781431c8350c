"""The points of a run where the model is: kept as they are stored, read as numbers a batch at a time."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ..data import Data
from ..data.arrays import Inputs
from ..diagnosis.modes import Modes
from ..errors import AliveError, own_line


class Points:
    """Training and test points on the device of a parameter; small or float sets are made ready once.

    Images of whole numbers stay so, a quarter of the room, until `read` makes a batch of them what networks read.
    """

    def __init__(self, data: Data, like: Tensor, *, channels_last: bool = False) -> None:
        self._data, self._dtype = data, like.dtype
        layout: dict[str, Any] = {"memory_format": torch.channels_last} if channels_last else {}
        self._layout = layout if data.train_x.dim() == 4 else {}

        def placed(x: Tensor) -> Tensor:
            return x.to(like.device, like.dtype if x.is_floating_point() else x.dtype)

        self.parts: list[tuple[Inputs, Tensor]] = [(tuple(map(placed, xs)), placed(y)) for xs, y in data.parts]
        self.train_y = self.parts[0][1]

    def batch(self, numbers: Tensor, *, change: Callable[[Tensor], Tensor] | None = None) -> tuple[Inputs, Tensor]:
        """What the model reads of the training points of these numbers, and their targets."""
        inputs, y = self.parts[0]
        numbers = numbers.to(y.device)
        first, *more = (x[numbers] for x in inputs)
        return (self.read(first, change), *more), y[numbers]

    def read(self, x: Tensor, change: Callable[[Tensor], Tensor] | None = None) -> Tensor:
        """Stored points as a network reads them, and then changed if asked."""
        ready = self._data.pixels(x, dtype=self._dtype)
        ready = ready if change is None else change(ready)
        return ready.contiguous(**self._layout) if self._layout else ready

    def answer(self, model: nn.Module, inputs: Inputs) -> Any:
        """What the model makes of a batch; a failure is reported with the shapes."""
        try:
            return model(**dict(zip(self._data.names, inputs, strict=True))) if self._data.names else model(*inputs)
        except Exception as error:
            if isinstance(error, AliveError):
                raise
            reason = (str(error).strip().split("\n")[0] or type(error).__name__).rstrip(".") + own_line(error)
            shapes = " and ".join(str(list(x.shape)) for x in inputs)
            raise AliveError(
                f"the model could not run on points {shapes}: {reason}", "Check the shapes that forward() expects"
            ) from error


@dataclass(frozen=True, slots=True, eq=False)
class First:
    """What an untouched model gives for the first training points: the data as it can read them, output, targets."""

    data: Data
    output: Any
    y: Tensor


def first(model: nn.Module, data: Data, points: int | None = None) -> First:
    """Run a model on the first points, all unless said, in eval mode; nothing of this pass is left behind.

    Whole numbers are read as they are, and as floats by a model that cannot read them so.
    """
    try:
        return _first(model, data, points)
    except AliveError:
        if all(x.dtype != torch.int64 for x in data.parts[0][0]):
            raise
        with suppress(AliveError):
            return _first(model, data.as_floats(), points)
        raise


def _first(model: nn.Module, data: Data, points: int | None) -> First:
    like = next(model.parameters(), torch.zeros(()))
    modes = Modes(model)
    with torch.no_grad(), torch.random.fork_rng(devices=[like.device] if like.device.type == "cuda" else []):
        try:
            modes.evaluate()
            held = Points(data, like)
            inputs, y = held.batch(torch.arange(len(data.train_y))[:points])
            return First(data, held.answer(model, inputs), y)
        finally:
            modes.restore()
