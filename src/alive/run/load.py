"""What a worker of a cluster is sent, does and sends home."""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import torch

from ..errors import AliveError
from ..experiments import Cell, Row
from ..train.fleet import Member, train_fleet
from .nets import train_cell
from .place import hardware, versions

SAY = 0.5  # seconds between two words of how far a task is


@dataclass(frozen=True, slots=True)
class Done:
    """What a task sends home: its rows, how long they took, what made them and on what."""

    rows: list[Row]
    seconds: float
    versions: dict[str, str]
    hardware: dict[str, str | int]


@dataclass(frozen=True, slots=True)
class Load:
    """The cells of one task, a fleet or a single net, and how often its worker has died."""

    cells: tuple[Cell, ...]
    number: int
    deaths: int = 0

    @property
    def cost(self) -> float:
        """About so many seconds of one core."""
        return cost_of(self.cells)

    @property
    def epochs(self) -> int:
        """Of all its networks together."""
        return sum(cell.member.epochs for cell in self.cells)

    def __str__(self) -> str:
        first = self.cells[0]
        more = f" and {len(self.cells) - 1} more" if len(self.cells) > 1 else ""
        return f"{first.label} {first.member.depth}x{first.member.width}{more}"


def train(load: Load, post: Any = None) -> Done:
    """The task: train a fleet or a net on one thread; runs in a worker, and knows no store."""
    torch.set_num_threads(1)
    report, begun = _Report(post, load.number), time.monotonic()
    if isinstance(load.cells[0].member, Member):
        rows = _train_fleet(load, report)
    else:
        rows = [train_cell(cell, lambda _, part: report.tell(part)) for cell in load.cells]
    return Done(rows, time.monotonic() - begun, versions(), hardware())


def _train_fleet(load: Load, report: _Report) -> list[Row]:
    members = [cell.member for cell in load.cells if isinstance(cell.member, Member)]
    try:
        fleet = train_fleet(members, load.cells[0].load(), threads=1, progress=report)
    except MemoryError:
        raise AliveError(
            f"a worker has no memory left to train {load}; finished rows are kept", "Give the nodes more, and run again"
        ) from None
    if fleet.interrupted:
        raise KeyboardInterrupt
    return [Row.of(cell, done) for cell, done in zip(load.cells, fleet.members, strict=True)]


class _Report:
    """Sends word of how far a task is to the driver's node, now and then; nobody waits for it to arrive."""

    def __init__(self, post: Any, number: int) -> None:
        self._post, self._number, self._epochs, self._said = post, number, 1, time.monotonic()

    def tell(self, part: float) -> None:
        if self._post is not None and time.monotonic() - self._said >= SAY:
            self._said = time.monotonic()
            with suppress(Exception):  # a bar that stands still is no reason to stop
                self._post.tell.remote(self._number, part)

    def start(self, members: int, epochs: int) -> None:
        self._epochs = max(1, epochs)

    def update(self, members: int, epochs: int, rate: float) -> None:
        self.tell(epochs / self._epochs)

    def close(self) -> None:
        pass


def cost_of(cells: Iterable[Cell]) -> float:
    """About so many seconds of one core, all together."""
    return sum(cell.cost for cell in cells)
