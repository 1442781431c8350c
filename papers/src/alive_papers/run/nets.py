"""Nets for the torch loop: one a process, one thread each, which is quicker than all threads on one thin network."""

from __future__ import annotations

import multiprocessing
import os
import queue
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import torch

from alive.errors import AliveError
from alive.interrupts import unreached
from alive.processes import LOOK, Owner, die_with
from alive.store import heart

from ..experiments import Cell
from .progress import Bar
from .store import Store
from .work import train_cells

DEATHS = 3  # workers that may die before the run is given up
Tell = Callable[[str, float], None]  # a cell's key, and which part of it is done


def run_nets(cells: Sequence[Cell], store: Store, *, threads: int, bar: Bar | None) -> int:
    """Bring every cell into the store by worker processes; returns how many rows were added meanwhile."""
    wanted = {cell.key: cell for cell in cells}
    before, deaths = len(store.finished(wanted)), 0
    while ahead := [cell for key, cell in wanted.items() if key not in store.finished(wanted)]:
        crew = _Crew(ahead, store.path, max(1, threads - deaths), bar)
        deaths += crew.work()
        if deaths >= DEATHS:
            raise AliveError(
                f"{deaths} workers were killed in training, probably because memory ran out; finished rows are kept",
                "Ask for fewer --threads, or a smaller scale, and run again",
            )
        if crew.idle:
            time.sleep(LOOK)  # other processes hold the rest: they finish it, or die
    return len(wanted) - before


class _Watch:
    """Tells after each epoch which part of a cell is done."""

    def __init__(self, cell: Cell, tell: Tell) -> None:
        self._key, self._tell, self._epochs = cell.key, tell, cell.member.epochs

    def start(self, networks: int, epochs: int) -> None:
        self._tell(self._key, 0.0)

    def update(self, networks: int, epochs: int, rate: float) -> None:
        self._tell(self._key, epochs / self._epochs)

    def close(self) -> None:
        pass


class _Crew:
    """Worker processes on one list of cells, until none of them finds a cell that nobody has."""

    def __init__(self, cells: Sequence[Cell], path: Path, size: int, bar: Bar | None) -> None:
        self._cells = sorted(cells, key=lambda cell: -cell.cost)
        self._costs = {cell.key: cell.cost for cell in cells}
        self._bar, self._begun, self._parts = bar, time.monotonic(), dict[str, float]()
        self._epochs = {cell.key: cell.member.epochs for cell in cells}
        spawn = multiprocessing.get_context("spawn")
        self._post: Any = spawn.Queue()
        arguments = (path, self._cells, os.getpid(), self._post)
        self._workers = [
            spawn.Process(target=_worker, args=arguments, daemon=True) for _ in range(min(size, len(cells)))
        ]
        self._faults: list[AliveError] = []
        self.idle = True

    def work(self) -> int:
        """Let them work to the end; returns how many were killed. What one of them refuses is raised here."""
        try:
            with unreached():
                for worker in self._workers:
                    worker.start()
            while any(worker.is_alive() for worker in self._workers) and not self._faults:
                self._read(LOOK)
            self._read(0.0)
        finally:
            _end(self._workers)
        if self._faults:
            raise self._faults[0]
        if any((worker.exitcode or 0) > 0 for worker in self._workers):
            raise AliveError(
                "a worker ended with the error it printed; finished rows are kept",
                "Fix what it says, and run again",
            )
        return sum((worker.exitcode or 0) < 0 for worker in self._workers)

    def _read(self, patience: float) -> None:
        """Take what the workers told."""
        with suppress(queue.Empty):
            while True:
                told = self._post.get(timeout=patience)
                if isinstance(told, AliveError):
                    self._faults.append(told)
                    return
                key, part = told
                self.idle = False
                self._parts[key] = part
                self._show()

    def _show(self) -> None:
        if self._bar is None:
            return
        cost = sum(self._costs[key] * part for key, part in self._parts.items())
        epochs = sum(self._epochs[key] * part for key, part in self._parts.items())
        ended = sum(part >= 1 for part in self._parts.values())
        self._bar.within(cost, ended, epochs / max(1e-9, time.monotonic() - self._begun))


def _end(workers: Sequence[BaseProcess]) -> None:
    for worker in workers:
        if worker.is_alive():
            worker.terminate()
    for worker in workers:
        if worker.pid is not None:
            worker.join()


def _worker(path: Path, cells: Sequence[Cell], parent: int, post: Any) -> None:
    """Claim, train and write one cell after the other, until all are done or held by others."""
    die_with(parent)
    torch.set_num_threads(1)
    try:
        with Store(path) as store, suppress(KeyboardInterrupt):
            owner = Owner.me()
            with heart(store, owner):
                for cell in cells:
                    if store.claim([cell.key], owner):
                        done = train_cells([cell], progress=_Watch(cell, lambda key, part: post.put((key, part))))
                        store.write(done.rows, seconds=done.seconds)
    except AliveError as error:
        post.put(error)
