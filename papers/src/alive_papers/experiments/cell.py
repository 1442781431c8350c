"""One network to train, and what is left of it: the two ends of an experiment."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, cast

import numpy as np
from torch import nn

from alive.data import DATA, Data, load
from alive.errors import expect, near
from alive.train.result import EpochHealth

from ..engines import ENGINES, Engine
from ..network import Network, Outcome
from ..sets.sizes import SIZES

TRACE = 100  # rows kept of a log, so that a store of thousands of networks stays small
RESULT = {"best_train", "best_test", "last", "stopped", "trace", "norms"}  # what a row writes of itself
LATER = {"best_after"}  # and where there is something to say
Trace = dict[str, list[float]]


@dataclass(frozen=True, slots=True)
class Cell:
    """A network, its data, and what is kept: rows of its log, its weights or not.

    `points` are so many training points, evenly spread over the classes, `test_points` likewise; by default all.
    `unscaled` images are read as x / 255, without mean and spread.
    `revision` is that of the engine that trains it, by default as the engine is now; a store may hold earlier ones.
    Two cells with the same settings are one cell, whichever experiments they belong to: they share a key.

    >>> from alive_papers.fleet import Member
    >>> Cell(Member(3, 4, "ReLU", weight=1)).key == Cell(Member(3, 4, "ReLU")).key != Cell(Member(3, 4)).key
    True
    """

    member: Network
    data: str = "moons"
    trace: int = TRACE
    keep_network: bool = False
    points: int | None = None
    test_points: int | None = None
    unscaled: bool = False
    revision: int = 0  # 0 stands for the engine's own

    def __post_init__(self) -> None:
        object.__setattr__(self, "revision", self.revision or self.engine.revision)
        known = self.data in DATA or Path(self.data).is_file()
        expect(
            [
                (known, "" if known else f"unknown data {self.data!r}: {near(self.data, DATA)}; or name a file"),
                (self.trace >= 2, f"trace must be at least 2 rows, got {self.trace}"),
                (
                    not self.keep_network or self.member.keeps,
                    f"only plain networks of a fleet are kept, not {self.member.method}",
                ),
            ]
        )

    @property
    def settings(self) -> dict[str, Any]:
        """Everything that decides the result, and nothing that the method does not read."""
        some: dict[str, Any] = {
            "points": self.points,
            "test_points": self.test_points,
            "unscaled": self.unscaled or None,
            "sum": None if self.data in DATA else _sum(self.data),
        }
        if self.revision > 1 or self.engine.told:  # rows from before engines had revisions are of the first
            some["engine"] = f"{self.engine.name} {self.revision}"
        return {
            "member": self.member.settings,
            "data": self.data,
            "trace": self.trace,
            "keep_network": self.keep_network,
            **{name: value for name, value in some.items() if value is not None},
        }

    @property
    def key(self) -> str:
        """Hash of the settings as canonical JSON."""
        return hashlib.sha256(canonical(self.settings).encode()).hexdigest()[:32]

    @property
    def engine(self) -> Engine:
        """Who trains it."""
        return ENGINES[self.member.engine]

    def on(self, data: str, *, depth: int, width: int) -> Cell:
        """The same method on other data, in another size; on other data it has all the points there are."""
        member = replace(self.member, depth=depth, width=width)  # type: ignore[type-var]
        if data == self.data:
            return replace(self, member=member)
        return replace(self, member=member, data=data, points=None, test_points=None)

    def at(self, revision: int) -> Cell:
        """The same network, trained by another revision of its engine."""
        return replace(self, revision=revision)

    @property
    def label(self) -> str:
        """The method as a reader names it."""
        return self.member.label

    @property
    def cost(self) -> float:
        """About how many seconds it takes on one core; only ratios matter."""
        points, shape, _ = SIZES[self.data]
        return self.member.cost(self.points or points, shape)

    @property
    def source(self) -> tuple[object, ...]:
        """Which points it is trained and tested on; cells of one source share their data."""
        return self.data, self.points, self.test_points, self.unscaled

    def load(self) -> Data:
        """Its data, as many points as it asks for."""
        data = load(self.data).unscaled() if self.unscaled else load(self.data)
        if self.points is None and self.test_points is None:
            return data
        return data.subset(self.points or len(data.train_y), test=self.test_points)


@cache
def _sum(path: str) -> str:
    """Of a file, read once: a file that changes gives other results."""
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()[:16]


def canonical(record: dict[str, Any]) -> str:
    """The one JSON text of a record: sorted, without spaces; no NaN or infinity, which are not JSON."""
    return json.dumps(record, sort_keys=True, separators=(",", ":"), allow_nan=False)


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """What a finished cell left: accuracies best over epochs and last, its health at the end, a thinned trace.

    Best accuracies are taken for training and test points separately, over all epochs, as the papers do. Where the
    training accuracy is that of the steps themselves, as Keras tells it, `best_after` is the best of the network after
    an epoch, in evaluation: with batch norm they are two things.
    """

    cell: Cell
    best_train: float
    best_test: float | None
    last: EpochHealth | None
    stopped: str | None
    trace: Trace
    weights: bytes | None = None
    norms: int = 0
    best_after: float | None = None

    @property
    def member(self) -> Network:
        """The settings of the network."""
        return self.cell.member

    @property
    def result(self) -> dict[str, Any]:
        """All but the cell and the weights, ready for JSON."""
        return {
            "best_train": self.best_train,
            "best_test": self.best_test,
            "last": None if self.last is None else _finite(asdict(self.last)),
            "stopped": self.stopped,
            "trace": self.trace,
            "norms": self.norms,
            **({} if self.best_after is None else {"best_after": self.best_after}),
        }

    @classmethod
    def of(cls, cell: Cell, done: Outcome) -> Row:
        """The row of a network that has ended, well or not."""
        best = done.best
        weights, norms = done.kept if cell.keep_network else (None, 0)
        return cls(
            cell,
            best_train=best.train or 0.0,  # a network that broke in its first step never named a point
            best_test=best.test,
            last=done.last,
            stopped=done.stopped,
            trace=_thinned(done.curves, cell.trace),
            weights=weights,
            norms=norms,
            best_after=getattr(done, "best_after", None),  # only a fleet measures both
        )

    @classmethod
    def read(cls, cell: Cell, result: dict[str, Any], weights: bytes | None) -> Row:
        """What `result` wrote; anything else is refused with a ValueError that says what is amiss."""
        if not isinstance(result, dict) or result.keys() - LATER != RESULT:
            raise ValueError("it has other columns")
        last = result["last"]
        try:
            end = None if last is None else EpochHealth(**last)
        except TypeError:
            raise ValueError("its last epoch has other columns") from None
        if cell.keep_network and (weights is None or len(weights) % 4):
            raise ValueError("its network is missing or cut short")
        return cls(cell, **result | {"last": end}, weights=weights)

    def network(self) -> nn.Module:
        """The trained network as a torch module in eval mode; only for cells that keep theirs."""
        assert self.weights is not None, f"{self.cell.label} kept no network"
        restore = self.cell.engine.restore
        assert restore is not None, f"the engine {self.cell.engine.name} keeps no networks"
        flat = np.frombuffer(self.weights, np.float32)
        return restore(self.member, flat, self.norms, DATA[self.cell.data]())


class Telling:
    """A row of a network that is not trained: it has settings, and tells when its results are asked for.

    What it gives then is any result, of a network that learnt; a trained network it has none of.
    """

    def __init__(self, cell: Cell, read: set[int]) -> None:
        self.cell, self.member, self._read = cell, cell.member, read

    def __getattr__(self, name: str) -> Any:
        self._read.add(id(self.cell))
        return getattr(SOME, name)

    def network(self) -> nn.Module:
        """There is none."""
        raise Untrained


class Untrained(Exception):
    """A trained network was asked for where none is."""


def _thinned(curves: Trace, rows: int) -> Trace:
    """At most so many rows of the log, evenly spread, the last among them."""
    picked = _picked(len(curves["epoch"]), rows)
    return {name: [_round(values[number]) for number in picked] for name, values in curves.items()}


def _picked(length: int, rows: int) -> list[int]:
    """At most so many numbers of rows, evenly spread, the last among them."""
    every = max(1, -(-length // rows))
    return sorted({*range(0, length, every), length - 1} - {-1})


def _round(value: float) -> float:
    return float(f"{value:.5g}") if np.isfinite(value) else 0.0


def _finite(record: dict[str, Any]) -> dict[str, Any]:
    return {name: value if value is None or np.isfinite(value) else 0.0 for name, value in record.items()}


class _Any(defaultdict[str, list[float]]):
    """Every column there might be."""

    def get(self, name: str, default: object = None) -> list[float]:
        return self[name]


SOME = Row(
    cast(Cell, None),
    best_train=1.0,
    best_test=1.0,
    last=EpochHealth(1, 0.0, 0.0, 1.0, 1.0, 0, 0, 0),
    stopped=None,
    trace=_Any(lambda: [0.0, 1.0]),
)
