"""What a worker of a cluster is sent, does and sends back."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import torch

from ...experiments import Cell, Row
from ..machine import hardware, versions
from ..work import cost_of, said, train_cells

SAY = 0.5  # seconds between two words of how far a task is


@dataclass(frozen=True, slots=True)
class Done:
    """What a task sends back: its rows, how long they took, what made them and on what."""

    rows: list[Row]
    seconds: float
    versions: dict[str, str]
    hardware: dict[str, str | int]


@dataclass(frozen=True, slots=True)
class Job:
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
        return said(self.cells)


def train(job: Job, post: Any = None) -> Done:
    """The task: train a fleet or a net on one thread; runs in a worker, and knows no store."""
    torch.set_num_threads(1)
    done = train_cells(job.cells, progress=_Report(post, job.number))
    if done.interrupted:
        raise KeyboardInterrupt
    return Done(done.rows, done.seconds, versions(), hardware())


class _Report:
    """Reports a task's progress to the driver's node, now and then; nobody waits for it to arrive."""

    def __init__(self, post: Any, number: int) -> None:
        self._post, self._number, self._epochs, self._said = post, number, 1, time.monotonic()

    def _tell(self, part: float) -> None:
        if self._post is not None and time.monotonic() - self._said >= SAY:
            self._said = time.monotonic()
            with suppress(Exception):  # a bar that stands still is no reason to stop
                self._post.tell.remote(self._number, part)

    def start(self, members: int, epochs: int) -> None:
        self._epochs = max(1, epochs)

    def update(self, members: int, epochs: int, rate: float) -> None:
        self._tell(epochs / self._epochs)

    def close(self) -> None:
        pass
