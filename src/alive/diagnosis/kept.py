"""What a model keeps from pass to pass, and chance: seen before a pass, to tell whether it may run once more."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

DEEP, MOST = 4, 10_000  # how far what a module holds is looked into, and at how many things
PLAIN = (int, float, complex, str, bytes, bool, type(None))


class Kept:
    """All that a pass may change, as it is now: what modules hold, the batch, and where chance stands."""

    def __init__(self, model: nn.Module, batch: Any) -> None:
        self._model, self._batch = model, batch
        self._alive: list[Any] = []  # so that no other takes its place
        self._now = list(self._all())
        self._chance = (torch.get_rng_state(), random.getstate(), np.random.get_state())  # noqa: NPY002
        self._devices = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []

    def has_changed(self) -> bool:
        """Whether anything of it is otherwise now, chance aside."""
        return self._now != list(self._all())

    def draw_again(self) -> None:
        """Let chance be as it was."""
        state, python, numbers = self._chance
        torch.set_rng_state(state)
        random.setstate(python)
        np.random.set_state(numbers)  # noqa: NPY002
        if self._devices:
            torch.cuda.set_rng_state_all(self._devices)

    def _all(self) -> Iterator[Any]:
        left = [MOST]
        for module in self._model.modules():
            held = vars(module)
            for name in ("_parameters", "_buffers"):
                yield from (self._tensor(t) for t in held[name].values() if t is not None)
            for name, value in held.items():
                if not name.startswith("_"):
                    yield from self._of(value, DEEP, left)
        yield from self._of(self._batch, DEEP, left)

    def _of(self, value: Any, deep: int, left: list[int]) -> Iterator[Any]:
        left[0] -= 1
        if isinstance(value, PLAIN):
            yield value
        elif isinstance(value, Tensor):
            yield self._tensor(value)
        elif isinstance(value, torch.Generator):
            yield value.get_state().numpy().tobytes()
        elif isinstance(value, np.ndarray):
            yield hash(value.tobytes())
        elif isinstance(value, nn.Module) or not deep or left[0] < 0:
            yield id(value)
        elif isinstance(value, Mapping):
            yield len(value)
            for key, part in value.items():
                yield from self._of(key, 0, left)
                yield from self._of(part, deep - 1, left)
        elif isinstance(value, list | tuple | set | frozenset | deque):
            yield len(value)
            for part in value:
                yield from self._of(part, deep - 1, left)
        else:
            self._alive.append(value)
            yield id(value)
            yield from self._of(getattr(value, "__dict__", {}), deep - 1, left)

    def _tensor(self, t: Tensor) -> tuple[int, int]:
        self._alive.append(t)
        return id(t), 0 if t.is_inference() else t._version
