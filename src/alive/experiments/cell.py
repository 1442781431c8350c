"""One network to train, and what is left of it: the two ends of an experiment."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from torch import nn

from ..data import DATA, Data, load
from ..errors import expect, near
from ..train.fleet import FleetRow, Member, MemberResult
from ..train.net import Net, NetResult

TRACE = 100  # rows kept of a log, so that a store of thousands of networks stays small
PENALTY = ("weight", "aggregate", "balance")
HEALTH = ("dead_units", "linear_units", "dead_points")
RESULT = {"best_train", "best_test", "last", "stopped", "trace", "norms"}  # what a row writes of itself
LOOP_COLUMNS = ("epoch", "loss", "penalty", "train_accuracy", "test_accuracy")
Trace = dict[str, list[float]]


@dataclass(frozen=True, slots=True)
class Cell:
    """A member of a fleet or a net for the torch loop, its data, and what is kept: rows of its log, its weights or not.

    `points` are so many training points, evenly spread over the classes, `test_points` likewise; by default all.
    `unscaled` images are read as x / 255, without mean and spread.
    Two cells with the same settings are one cell, whichever experiments they belong to: they share a key.

    >>> Cell(Member(3, 4, "ReLU", weight=1)).key == Cell(Member(3, 4, "ReLU")).key != Cell(Member(3, 4)).key
    True
    """

    member: Member | Net
    data: str = "moons"
    trace: int = TRACE
    keep_network: bool = False
    points: int | None = None
    test_points: int | None = None
    unscaled: bool = False

    def __post_init__(self) -> None:
        expect(
            [
                (self.data in DATA, f"unknown data {self.data!r}: {near(self.data, DATA)}"),
                (self.trace >= 2, f"trace must be at least 2 rows, got {self.trace}"),
                (
                    not self.keep_network or (isinstance(self.member, Member) and self.member.kind.block == "plain"),
                    f"only plain networks of a fleet are kept, not {self.member.method}",
                ),
            ]
        )

    @property
    def settings(self) -> dict[str, Any]:
        """Everything that decides the result, and nothing that the method does not read."""
        member = _member_settings(self.member) if isinstance(self.member, Member) else _net_settings(self.member)
        some = {"points": self.points, "test_points": self.test_points, "unscaled": self.unscaled or None}
        return {
            "member": member,
            "data": self.data,
            "trace": self.trace,
            "keep_network": self.keep_network,
            **{name: count for name, count in some.items() if count is not None},
        }

    @property
    def key(self) -> str:
        """Hash of the settings as canonical JSON."""
        return hashlib.sha256(canonical(self.settings).encode()).hexdigest()[:32]

    @property
    def label(self) -> str:
        """The method as a reader names it: with its start, where that is not Glorot's."""
        if isinstance(self.member, Net):
            return self.member.method
        start = {"glorot": "", "zeros": ", zero start", "mirrored": ", mirrored"}
        return self.member.method + start.get(self.member.init, f", {self.member.init}")

    @property
    def cost(self) -> float:
        """About how many seconds it takes on one core; only ratios matter."""
        if isinstance(self.member, Net):
            points = self.points or 60_000
            return 1e-8 * self.member.epochs * points * self.member.depth * self.member.width * (self.member.width + 8)
        rows = self.member.width * (2 if self.member.architecture == "keras_same" else 1)
        norm = 1.5 if self.member.kind.batch_norm else 1.0
        return 1e-8 * norm * self.member.epochs * self.member.depth * rows * (rows + 40)

    def load(self) -> Data:
        """Its data, as many points as it asks for."""
        data = load(self.data).unscaled() if self.unscaled else load(self.data)
        if self.points is None and self.test_points is None:
            return data
        return data.subset(self.points or len(data.train_y), test=self.test_points)


def _member_settings(member: Member) -> dict[str, Any]:
    record = asdict(member)
    unread = [*(() if member.kind.axes else PENALTY)]
    unread += [] if member.kind.block == "van" else ["gate"]
    unread += [] if member.kind.block == "farkas" else ["margin"]
    unread += [] if member.optimiser == "sgd" else ["momentum"]
    unread += ["eps"] if member.optimiser == "sgd" else []
    unread += ["task"] if member.task else []
    for name in unread:
        del record[name]
    return record | _reals(record, "lr", "weight")


def _net_settings(net: Net) -> dict[str, Any]:
    """The record, its keywords sorted by name; what the optimiser does not read and the seed's copy left out."""
    record = asdict(net)
    training = record["training"]
    for name in ("seed", "momentum" if net.training.optimiser == "adam" else "eps"):
        del training[name]
    for name in ("options", "separation", "gate"):
        record[name] = None if record[name] is None else dict(record[name])
    return record | {"training": training | _reals(training, "lr", "weight_decay")}


def _reals(record: dict[str, Any], *names: str) -> dict[str, float]:
    """Whole numbers among these as reals, so that 1 and 1.0 are one setting."""
    return {name: float(record[name]) for name in names if isinstance(record.get(name), int)}


def canonical(record: dict[str, Any]) -> str:
    """The one JSON text of a record: sorted, without spaces; no NaN or infinity, which are not JSON."""
    return json.dumps(record, sort_keys=True, separators=(",", ":"), allow_nan=False)


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """What a finished cell left: accuracies best over epochs and last, its health at the end, a thinned trace.

    Best accuracies are taken for training and test points each for itself, over all epochs, as the papers do.
    """

    cell: Cell
    best_train: float
    best_test: float | None
    last: FleetRow | None
    stopped: str | None
    trace: Trace
    weights: bytes | None = None
    norms: int = 0

    @property
    def member(self) -> Member | Net:
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
        }

    @classmethod
    def of(cls, cell: Cell, done: MemberResult) -> Row:
        """The row of a member that came to its end."""
        best = done.best
        kept = done.weights.tobytes() + done.norms.tobytes() if cell.keep_network else None
        trace = _thinned(done, cell.trace)
        return cls(
            cell,
            best_train=best.train_accuracy or 0.0,  # a network that broke in its first step never named a point
            best_test=best.test_accuracy,
            last=done.last,
            stopped=done.stopped,
            trace=trace,
            weights=kept,
            norms=done.norms.size if cell.keep_network else 0,
        )

    @classmethod
    def of_net(cls, cell: Cell, done: NetResult) -> Row:
        """The row of a net that came to its end, be it a bad one."""
        rows, best, health = done.result.rows, done.result.best, done.health
        counts = (0, 0, 0) if health is None else (health.units.dead, health.units.linear, health.points.dead)
        last = FleetRow(**rows[-1].columns(), **dict(zip(HEALTH, counts, strict=True))) if rows else None
        columns = {name: [getattr(row, name) or 0.0 for row in rows] for name in LOOP_COLUMNS}
        if done.residuals:
            columns["residual"] = list(done.residuals[: len(rows)])
        picked = _picked(len(rows), cell.trace)
        trace = {name: [_round(values[number]) for number in picked] for name, values in columns.items()}
        return cls(cell, best.train_accuracy or 0.0, best.test_accuracy, last, done.result.stopped, trace)

    @classmethod
    def read(cls, cell: Cell, result: dict[str, Any], weights: bytes | None) -> Row:
        """What `result` wrote; anything else is refused with a ValueError that says what is amiss."""
        if not isinstance(result, dict) or result.keys() != RESULT:
            raise ValueError("it has other columns")
        last = result["last"]
        try:
            end = None if last is None else FleetRow(**last)
        except TypeError:
            raise ValueError("its last epoch has other columns") from None
        if cell.keep_network and (weights is None or len(weights) % 4):
            raise ValueError("its network is missing or cut short")
        return cls(cell, **result | {"last": end}, weights=weights)

    def network(self) -> nn.Module:
        """The trained network as a torch module in eval mode; only for cells that keep theirs."""
        assert self.weights is not None, f"{self.cell.label} kept no network"
        assert isinstance(self.member, Member)
        flat = np.frombuffer(self.weights, np.float32)
        data = DATA[self.cell.data]()
        cut = flat.size - self.norms
        none = np.zeros(0, np.float32)
        return MemberResult(
            self.member, none, len(data.train_y), 0, data.outputs, data.inputs, None, flat[:cut], flat[cut:], none
        ).network()


def _thinned(done: MemberResult, rows: int) -> Trace:
    """At most so many rows of the log, evenly spread, the last among them; accuracies as shares."""
    picked = _picked(len(done.log), rows)
    names = ("epoch", "loss", "penalty", "train_right", "test_right", "dead_units", "linear_units", "dead_points")
    scale = {"train_right": done.points, "test_right": max(1, done.test_points)}
    kept = {name: done.column(name)[picked].astype(float) / scale.get(name, 1) for name in names}
    return {_named(name): [_round(v) for v in values.tolist()] for name, values in kept.items()}


def _picked(length: int, rows: int) -> list[int]:
    """At most so many numbers of rows, evenly spread, the last among them."""
    every = max(1, -(-length // rows))
    return sorted({*range(0, length, every), length - 1} - {-1})


def _named(column: str) -> str:
    return column.replace("right", "accuracy")


def _round(value: float) -> float:
    return float(f"{value:.5g}") if np.isfinite(value) else 0.0


def _finite(record: dict[str, Any]) -> dict[str, Any]:
    return {name: value if value is None or np.isfinite(value) else 0.0 for name, value in record.items()}
