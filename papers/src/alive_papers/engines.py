"""The engines that train networks: the compiled fleet, its convolutions, the torch loop, and the studies."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Protocol

from torch import nn

from alive.data import Data
from alive.train.result import Epoch

from .fleet import FleetProgress, train_fleet
from .fleet.arena import Floats
from .fleet.result import restored
from .network import Outcome


@dataclass(frozen=True, slots=True, eq=False)
class Trained:
    """Outcomes in the order of the networks, None for those that had no time to end; and whether Ctrl-C came."""

    outcomes: tuple[Outcome | None, ...]
    seconds: float
    interrupted: bool = False


class Train(Protocol):
    """How an engine is called; `networks` are records of its own kind."""

    def __call__(
        self, networks: Sequence[Any], data: Data, *, threads: int = 1, progress: FleetProgress | None = None
    ) -> Trained:
        """Train them all on one data set."""


@dataclass(frozen=True, slots=True)
class Engine:
    """What trains networks.

    revision   to be raised with any change after which the same settings give other numbers: it is part of the keys of
               cells, so that rows of an earlier revision are not taken for rows of this one
    told       whether keys of cells name it and its first revision, too; the two oldest engines are known without
    together   whether one call trains many networks on several threads; else each is best given a process
    restore    rebuilds a network from its stored weights, if they are kept
    """

    name: str
    revision: int
    together: bool
    train: Train
    restore: Callable[[Any, Floats, int, Data], nn.Module] | None = None
    told: bool = False


def _fleet(networks: Sequence[Any], data: Data, *, threads: int = 1, progress: FleetProgress | None = None) -> Trained:
    done = train_fleet(networks, data, threads=threads, progress=progress)
    finished = set(map(id, done.finished))
    return Trained(
        tuple(each if id(each) in finished else None for each in done.members), done.seconds, done.interrupted
    )


def _loop(networks: Sequence[Any], data: Data, *, threads: int = 1, progress: FleetProgress | None = None) -> Trained:
    """One after the other; torch has its own threads."""
    from .net import train_net

    begun = time.perf_counter()
    told = None if progress is None else _Epochs(progress)
    if progress is not None:
        progress.start(len(networks), sum(net.epochs for net in networks))
    outcomes = []
    for net in networks:
        outcomes.append(train_net(net, data, progress=told))
        if told is not None:
            told.ended()
    if progress is not None:
        progress.close()
    return Trained(tuple(outcomes), time.perf_counter() - begun)


def _study(networks: Sequence[Any], data: Data, *, threads: int = 1, progress: FleetProgress | None = None) -> Trained:
    """One after the other; torch has its own threads."""
    from .studies import train_runs

    begun = time.perf_counter()
    return Trained(tuple(train_runs(networks, data, progress)), time.perf_counter() - begun)


class _Epochs:
    """Tells the progress of several networks what the loop tells of each."""

    def __init__(self, progress: FleetProgress) -> None:
        self._progress, self._begun = progress, time.perf_counter()
        self._networks, self._epochs = 0, 0

    def start(self, epochs: int, done: int) -> None:
        pass

    def row(self, row: Epoch) -> None:
        self._epochs += 1
        self._tell()

    def close(self) -> None:
        pass

    def ended(self) -> None:
        self._networks += 1
        self._tell()

    def _tell(self) -> None:
        rate = self._epochs / max(1e-9, time.perf_counter() - self._begun)
        self._progress.update(self._networks, self._epochs, rate)


FLEET = Engine("fleet", revision=1, together=True, train=_fleet, restore=restored)
CONV = Engine("conv-fleet", revision=1, together=True, train=_fleet, restore=restored, told=True)  # kernels of its own
LOOP = Engine("loop", revision=1, together=False, train=_loop)
STUDY = Engine("study", revision=1, together=False, train=_study)
ENGINES: Mapping[str, Engine] = MappingProxyType({engine.name: engine for engine in (FLEET, CONV, LOOP, STUDY)})
