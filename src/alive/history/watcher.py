"""The watcher: a census every so many steps of the user's own loop, on a fixed probe set."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from numbers import Integral
from os import PathLike
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

from ..diagnosis import Census, census
from ..diagnosis.census import OPTIONS
from ..errors import AliveError, expect, expect_one_of
from ..files import expect_writable
from .lock import Lock
from .record import History, Moment

Log = Callable[[Mapping[str, float], int], Any]


def watch(
    model: nn.Module,
    probe: Any,
    *,
    every: int = 100,
    path: str | PathLike[str] | None = None,
    log: Log | None = None,
    **options: Any,
) -> Watcher:
    """Take a census of the model every so many steps, and keep who was alive.

    probe    what to look at each time: the same forms as `alive.census` takes. A loader is read once, and its batches
             are kept, so that every census sees the same points
    path     file for the history: JSON, compressed if the name ends in .gz. After each census it is whole and up to
             date. If it exists, a run that goes on at step s keeps what is before s and replaces the rest. One that
             another program writes just now is refused
    log      takes the numbers of each census: log(numbers, step)
    options  those of `alive.census`: gradient=True, layers, point_axis ...

    Training is not changed: neither weights, modes nor the generators of random numbers.

    >>> model = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 1))
    >>> look = watch(model, torch.randn(20, 2), every=2)
    >>> for step in range(5):
    ...     _ = look(step, loss=1.0 / (step + 1))
    >>> [moment.step for moment in look.history.moments]
    [0, 2, 4]
    """
    return Watcher(model, probe, every, None if path is None else Path(path), log, options)


class Watcher:
    """Call it at every step: `look(step, loss=...)`. It looks once every `every` steps, and otherwise does nothing."""

    def __init__(
        self, model: nn.Module, probe: Any, every: int, path: Path | None, log: Log | None, options: Mapping[str, Any]
    ) -> None:
        expect([(isinstance(every, int) and every >= 1, f"every must be a whole number of at least 1, got {every!r}")])
        for name in options:
            expect_one_of("option of a census", name, OPTIONS)
        self.model, self.every, self.path = model, every, path
        self.history = History()
        self._log, self._options = log, dict(options)
        self._begun = False
        self._lock: Lock | None = None
        if path is not None:
            expect_writable(path)
            self._lock = Lock(path)
            self._lock.expect_mine()
            self.history = History.read(path) if path.exists() else self.history
        with torch.random.fork_rng():  # a loader draws numbers when it is read
            self._probe = list(probe) if _is_read_once(probe) else probe

    def __call__(self, step: int, **numbers: Any) -> Census | None:
        """Look, if it is time: the census, or None. Numbers of your own, such as the loss, are kept beside it."""
        expect([(isinstance(step, Integral), f"a step is a whole number, got {step!r}")])
        return None if step % self.every else self.look(step, **numbers)

    def look(self, step: int, **numbers: Any) -> Census:
        """Take a census now."""
        with torch.random.fork_rng():
            found = census(self.model, self._probe, **self._options)
        moment = Moment.of(int(step), found, {name: _number(name, value) for name, value in numbers.items()})
        self.history = self._earlier(moment).plus(moment, found)
        self._begun = True
        if self._lock is not None:
            self._lock.expect_mine()
            self.history.write(self._lock.path, self._lock.hold)
        if self._log is not None:
            self._log(moment.scalars, moment.step)
        return found

    def _earlier(self, moment: Moment) -> History:
        """The history before a step; of an earlier run, only where it is the same network's."""
        kept = self.history.before(moment.step)
        if self._begun or not kept.moments:
            return kept if kept.moments else History()
        before = kept.moments[-1].layers
        if set(moment.layers).isdisjoint(before):
            raise _another(self.path, "it has no layer of this one")
        for name in moment.layers.keys() & before.keys():
            now, then = moment.layers[name].units, before[name].units
            if len(now) != len(then) and "u" not in now + then:
                raise _another(self.path, f"its {name} has {len(then)} units, and this one's {len(now)}")
        return kept


def _another(path: Path | None, why: str) -> AliveError:
    return AliveError(f"{path} is the history of another network: {why}", "Choose another path")


def _is_read_once(probe: Any) -> bool:
    """Whether reading it twice may give other points, or none."""
    return isinstance(probe, DataLoader | IterableDataset | Iterator)


def _number(name: str, value: Any) -> float | None:
    """A number that JSON can hold; None for NaN and infinity."""
    try:
        number = float(value.detach() if isinstance(value, torch.Tensor) else value)
    except (TypeError, ValueError, RuntimeError):
        raise AliveError(
            f"{name} is no number but {type(value).__name__}", "Pass numbers: look(step, loss=...)"
        ) from None
    return number if number - number == 0 else None
