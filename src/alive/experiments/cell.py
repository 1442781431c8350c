"""One network to train, and what is left of it: the two ends of an experiment."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from torch import nn

from ..data import DATA
from ..errors import expect, near
from ..train.fleet import FleetRow, Member, MemberResult

TRACE = 100  # rows kept of a log, so that a store of thousands of networks stays small
PENALTY = ("weight", "aggregate", "balance")
Trace = dict[str, list[float]]


@dataclass(frozen=True, slots=True)
class Cell:
    """A member of a fleet, its data, and what is kept of it: so many rows of its log, its weights or not.

    Two cells with the same settings are one cell, whichever experiments they belong to: they share a key.

    >>> Cell(Member(3, 4, "ReLU", weight=1)).key == Cell(Member(3, 4, "ReLU")).key != Cell(Member(3, 4)).key
    True
    """

    member: Member
    data: str = "moons"
    trace: int = TRACE
    keep_network: bool = False

    def __post_init__(self) -> None:
        expect(
            [
                (self.data in DATA, f"unknown data {self.data!r}: {near(self.data, DATA)}"),
                (self.trace >= 2, f"trace must be at least 2 rows, got {self.trace}"),
                (
                    not self.keep_network or self.member.kind.block == "plain",
                    f"only plain networks are kept, not {self.member.method}",
                ),
            ]
        )

    @property
    def settings(self) -> dict[str, Any]:
        """Everything that decides the result, and nothing that the method does not read."""
        member = asdict(self.member)
        unread = [*(() if self.member.kind.axes else PENALTY)]
        unread += [] if self.member.kind.block == "van" else ["gate"]
        unread += [] if self.member.kind.block == "farkas" else ["margin"]
        unread += [] if self.member.optimiser == "sgd" else ["momentum"]
        unread += ["eps"] if self.member.optimiser == "sgd" else []
        for name in unread:
            del member[name]
        real = {name: float(member[name]) for name in ("lr", "weight") if isinstance(member.get(name), int)}
        return {"member": member | real, "data": self.data, "trace": self.trace, "keep_network": self.keep_network}

    @property
    def key(self) -> str:
        """Hash of the settings as canonical JSON."""
        return hashlib.sha256(canonical(self.settings).encode()).hexdigest()[:32]

    @property
    def label(self) -> str:
        """The method as a reader names it: with its start, where that is not Glorot's."""
        start = {"glorot": "", "zeros": ", zero start", "mirrored": ", mirrored"}
        return self.member.method + start.get(self.member.init, f", {self.member.init}")

    @property
    def cost(self) -> float:
        """About how many seconds it takes on one core; only ratios matter."""
        rows = self.member.width * (2 if self.member.architecture == "keras_same" else 1)
        norm = 1.5 if self.member.kind.batch_norm else 1.0
        return 1e-8 * norm * self.member.epochs * self.member.depth * rows * (rows + 40)


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
    def member(self) -> Member:
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
    def read(cls, cell: Cell, result: dict[str, Any], weights: bytes | None) -> Row:
        """What `result` wrote."""
        last = result["last"]
        return cls(cell, **result | {"last": None if last is None else FleetRow(**last)}, weights=weights)

    def network(self) -> nn.Module:
        """The trained network as a torch module in eval mode; only for cells that keep theirs."""
        assert self.weights is not None, f"{self.cell.label} kept no network"
        flat = np.frombuffer(self.weights, np.float32)
        data = DATA[self.cell.data]()
        cut = flat.size - self.norms
        none = np.zeros(0, np.float32)
        return MemberResult(
            self.member, none, len(data.train_y), 0, data.outputs, data.inputs, None, flat[:cut], flat[cut:], none
        ).network()


def _thinned(done: MemberResult, rows: int) -> Trace:
    """At most so many rows of the log, evenly spread, the last among them; accuracies as shares."""
    every = max(1, -(-len(done.log) // rows))
    picked = sorted({*range(0, len(done.log), every), len(done.log) - 1} - {-1})
    names = ("epoch", "loss", "penalty", "train_right", "test_right", "dead_units", "linear_units", "dead_points")
    scale = {"train_right": done.points, "test_right": max(1, done.test_points)}
    kept = {name: done.column(name)[picked].astype(float) / scale.get(name, 1) for name in names}
    return {_named(name): [_round(v) for v in values.tolist()] for name, values in kept.items()}


def _named(column: str) -> str:
    return column.replace("right", "accuracy")


def _round(value: float) -> float:
    return float(f"{value:.5g}") if np.isfinite(value) else 0.0


def _finite(record: dict[str, Any]) -> dict[str, Any]:
    return {name: value if value is None or np.isfinite(value) else 0.0 for name, value in record.items()}
