"""Run cells on a Ray cluster: the driver claims and writes, the workers only train.

Every node needs the same alive, and the data in a place where alive looks for them there.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from typing import Any

from alive.errors import AliveError, expect
from alive.processes import Owner
from alive.store import heart

from ...experiments import Cell
from ..fleets import next_fleet
from ..machine import versions
from ..progress import Bar
from ..store import Store
from .board import Board
from .join import Head, joined
from .worker import Done, Job, train

LOOK = 0.5  # seconds between two looks at the cluster
WAITING = 2  # tasks beyond the cores: no core waits for the driver, and a cluster that can grow sees that it should
DEATHS = 4  # times the same task may die before the run is given up
DRY = 300.0  # seconds without a single core after which it is given up too


def run_on_ray(
    cells: Sequence[Cell],
    store: Store,
    *,
    address: str | None = None,
    threads: int | None = None,
    bar: Bar | None = None,
) -> int:
    """Bring every cell into the store by the cores of a Ray cluster; returns how many were trained there.

    `address` is host:port, ray://host:port or auto; without one, RAY_ADDRESS, else a Ray of its own on this machine.
    At most `threads` tasks run at once, by default as many as there are cores. A task whose worker or node dies is
    given to another. Only this process touches the store, where it claims like any other: a local run can share the
    work. Rows name the hardware of the worker; workers whose versions differ from this process's are refused.
    Ctrl-C keeps what is finished.
    """
    expect([(threads is None or threads >= 1, f"threads must be at least 1, got {threads}")])
    wanted = {cell.key: cell for cell in cells}
    if not wanted.keys() - store.finished(wanted):
        return 0
    with joined(address, threads) as ray, bar or nullcontext():
        try:
            return _Driver(ray, Head(ray, address), wanted, store, threads, bar).work()
        except KeyboardInterrupt:
            raise KeyboardInterrupt("what is finished is stored; the same command goes on from there") from None
        except ray.exceptions.RayTaskError:
            raise  # a fault of the code, with the worker's own traceback
        except (ConnectionError, ray.exceptions.RayError) as error:
            said = str(error).strip().partition("\n")[0].rstrip(".")
            raise AliveError(f"the cluster was lost ({said}); finished rows are kept", "Run again") from None


class _Driver:
    """Keeps the cluster busy, and collects what it has done."""

    def __init__(
        self, ray: Any, head: Head, wanted: dict[str, Cell], store: Store, threads: int | None, bar: Bar | None
    ) -> None:
        self._head = head
        self._ray, self._wanted, self._store, self._threads = ray, wanted, store, threads
        self._owner, self._trained, self._number = Owner.me(), 0, 0
        self._train = ray.remote(num_cpus=1, max_retries=0)(train)  # who died is counted here
        self._flying: dict[Any, Job] = {}
        self._board = None if bar is None else Board(ray, bar)
        self._wet = time.monotonic()  # when the cluster last had a core

    def work(self) -> int:
        """Until every cell is stored, by this cluster or by others on the same store."""
        with heart(self._store, self._owner):
            try:
                self._show()
                while ahead := self._ahead():
                    self._head.expect_there()
                    self._launch(ahead)
                    self._land(LOOK)
                return self._trained
            except KeyboardInterrupt:
                with suppress(AliveError, self._ray.exceptions.RayError):
                    self._land(0.0)
                raise
            finally:
                self._end()

    def _ahead(self) -> list[Cell]:
        done = self._store.finished(self._wanted)
        return [cell for key, cell in self._wanted.items() if key not in done]

    def _launch(self, ahead: Sequence[Cell]) -> None:
        """Claim and send off as much as the cluster takes."""
        room, flying = self._room(), {cell.key for job in self._flying.values() for cell in job.cells}
        left = [cell for cell in ahead if cell.key not in flying]
        for _ in range(room):
            if not left:
                return
            held = self._store.claimed()
            group = _group([cell for cell in left if cell.key not in held] or left)
            mine = self._store.claim([cell.key for cell in group], self._owner)
            if not mine:
                return  # other processes hold the rest: they finish it, or die
            self._send(tuple(cell for cell in group if cell.key in mine))
            left = [cell for cell in left if cell not in group]

    def _room(self) -> int:
        """How many more tasks to send; refuses to wait for ever for a cluster that has lost all its cores."""
        cores = int(self._ray.cluster_resources().get("CPU", 0))
        now = time.monotonic()
        self._wet = now if cores else self._wet
        if now - self._wet > DRY:
            raise AliveError(
                f"the cluster has had no core for {DRY:.0f} seconds; finished rows are kept",
                "Start a node with `ray start --address`, and run again",
            )
        return (self._threads or cores + WAITING) - len(self._flying)

    def _send(self, cells: tuple[Cell, ...], deaths: int = 0) -> None:
        self._number += 1
        job = Job(cells, self._number, deaths)
        self._flying[self._train.remote(job, self._board and self._board.post)] = job

    def _land(self, patience: float) -> None:
        """Write the next result to arrive, waiting at most so many seconds."""
        if not self._flying:
            time.sleep(patience)
            return
        ready, _ = self._ray.wait(list(self._flying), num_returns=1, timeout=patience)
        for home in ready:
            job = self._flying.pop(home)
            try:
                done = self._ray.get(home)
            except self._ray.exceptions.RayTaskError as error:
                raise _unwrapped(error) from None
            except self._ray.exceptions.RayError as error:  # its worker or node died, or its rows were lost
                self._again(job, error)
            else:
                self._write(job, done)
        self._show()

    def _write(self, job: Job, done: Done) -> None:
        if done.versions != versions():
            other = [f"{name} {got}" for name, got in done.versions.items() if got != versions().get(name)]
            raise AliveError(
                f"a worker has {', '.join(other)}, unlike this process; its rows are left out",
                "Install the same versions on every node",
            )
        self._store.write(done.rows, seconds=done.seconds / len(job.cells), on=done.hardware)
        self._trained += len(done.rows)
        if self._board is not None:
            self._board.count(job)

    def _again(self, job: Job, error: Exception) -> None:
        """Send the cells of a dead worker to another, a limited number of times."""
        if job.deaths + 1 < DEATHS:
            self._send(job.cells, job.deaths + 1)
            return
        memory = isinstance(error, self._ray.exceptions.OutOfMemoryError)
        why = "ran out of memory" if memory else f"died ({type(error).__name__}), probably because memory ran out,"
        raise AliveError(
            f"{DEATHS} workers {why} while they trained {job}; finished rows are kept",
            "Ask for fewer --threads, a smaller scale or nodes with more memory, and run again",
        )

    def _show(self) -> None:
        if self._board is not None:
            self._board.show(self._wanted, self._store.finished(self._wanted), self._flying.values())

    def _end(self) -> None:
        """Leave nothing running and nothing claimed."""
        for task in self._flying:
            with suppress(Exception):  # a cluster that is gone runs nothing
                self._ray.cancel(task, force=True)
        self._store.release(self._owner)


def _group(cells: Sequence[Cell]) -> list[Cell]:
    """A fleet for one core; once there are no more, the costliest net."""
    together = [cell for cell in cells if cell.engine.together]
    return next_fleet(together, threads=1) if together else [max(cells, key=lambda cell: cell.cost)]


def _unwrapped(error: Any) -> BaseException:
    """What a task refused, as it refused it; anything else with the worker's own traceback."""
    if isinstance(error.cause, AliveError):
        return error.cause
    if isinstance(error.cause, ImportError) or "failed to import on the worker" in str(error):
        said = str(error).strip().rpartition("\n")[2]
        return AliveError(f"a worker cannot load alive ({said})", "Install the same alive on every node")
    assert isinstance(error, BaseException)
    return error
