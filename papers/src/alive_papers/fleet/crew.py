"""Worker threads that train members one after the other, and ask for more while there is more."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Sequence
from threading import Event, Lock, Thread
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from alive.data import Data

from .engine import COLUMNS, EPOCH, ROWS, run
from .member import Member
from .plan import BAD_BOTH, BAD_LOGITS, BAD_LOSS, BAD_PENALTY, DONE, INTERRUPTED, Arenas
from .progress import FleetProgress
from .result import MemberResult
from .start import arenas_of, course_of, order_of, plan_of
from .update import connect

LOOK = 0.1  # seconds between two looks at how far the workers are
PAUSE = 0.001  # seconds between two looks of a worker at an empty queue
ORDERS = 2**16  # points whose order and moves are laid out ahead: a moment's work, during which Ctrl-C waits
REASONS = {
    BAD_LOSS: "the task loss is not finite",
    BAD_PENALTY: "the penalty is not finite",
    BAD_BOTH: "the task loss and the penalty are not finite",
    BAD_LOGITS: "the logits are not finite after the last step",
    INTERRUPTED: "interrupted",
}


class Ended(NamedTuple):
    """A member that has ended or was interrupted: as which it was handed out, what became of it, how long it took."""

    number: int
    result: MemberResult
    seconds: float


class Supply(Protocol):
    """Hands a fleet its members, and takes what became of them; both in the thread that waits for the fleet."""

    def more(self) -> Sequence[Member]:
        """What to train next, asked when a core has nothing to do; if there is none, the fleet ends."""

    def ended(self, some: Sequence[Ended]) -> None:
        """Told now and then."""


def train_supply(
    supply: Supply,
    data: Data,
    *,
    record_every: int = 1,
    threads: int | None = None,
    progress: FleetProgress | None = None,
) -> bool:
    """Train what is handed out, for as long as there is more, so that no core waits; returns whether Ctrl-C came.

    Members are as in `train_fleet`; whether they fit into memory was asked before.
    """
    return _Crew(supply, data, record_every, cores() if threads is None else threads).sail(progress)


def cores() -> int:
    """Of this process."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _Crew:
    """Worker threads that take members from one queue; the kernels release Python's lock, so they run in parallel."""

    def __init__(self, supply: Supply, data: Data, record_every: int, threads: int) -> None:
        self.supply, self.data, self.record_every = supply, data, record_every
        self.members = list(supply.more())
        self.points = {form: form.points(data) for form in {member.form for member in self.members}}
        self.queue = deque(range(len(self.members)))
        self.over = not self.members  # nothing more is to come
        self.idle = Event()  # a worker found the queue empty
        self.told, self.ended = 0, deque[Ended]()
        self.signals = np.zeros((threads, 2), np.int64)  # for each worker: stop asked for, epochs done
        self.errors: list[BaseException] = []
        self.starting = Lock()  # alive.nn borrows torch's global random state while it builds

    def sail(self, progress: FleetProgress | None) -> bool:
        interrupted = False
        workers = [Thread(target=self._work, args=(signal,), daemon=True) for signal in self.signals]
        try:
            self._announce(progress)
            for worker in workers:
                worker.start()
            self._watch(workers, progress)
        except KeyboardInterrupt:
            interrupted = True
        finally:
            self.signals[:, 0] = 1
            for worker in workers:
                if worker.ident is not None:
                    worker.join()
            if progress is not None:
                progress.close()
        self._tell()
        if self.errors:
            raise self.errors[0]
        return interrupted

    def _announce(self, progress: FleetProgress | None) -> None:
        if progress is not None:
            progress.start(len(self.members), sum(member.epochs for member in self.members))

    def _watch(self, workers: list[Thread], progress: FleetProgress | None) -> None:
        begun = time.perf_counter()
        while any(worker.is_alive() for worker in workers):
            self._wait(workers)
            self._refill(progress)
            self._tell()
            if progress is not None:
                done = int(self.signals[:, 1].sum())
                progress.update(self.told, done, done / (time.perf_counter() - begun))

    def _wait(self, workers: list[Thread]) -> None:
        """Until a worker has nothing to do, or some time has passed."""
        if self.over:
            for worker in workers:
                worker.join(LOOK / len(workers))
        else:
            self.idle.wait(LOOK)

    def _refill(self, progress: FleetProgress | None) -> None:
        """Ask for more if a worker has nothing to do."""
        asked = self.idle.is_set()
        self.idle.clear()
        if not asked or self.queue or self.over:
            return
        more = self.supply.more()
        for form in {member.form for member in more} - self.points.keys():
            self.points[form] = form.points(self.data)
        first = len(self.members)
        self.members.extend(more)
        self.queue.extend(range(first, len(self.members)))
        self.over = not more
        if more:
            self._announce(progress)

    def _tell(self) -> None:
        """Hand over those that have ended."""
        if some := [self.ended.popleft() for _ in range(len(self.ended))]:
            self.told += len(some)
            self.supply.ended(some)

    def _work(self, signal: NDArray[np.int64]) -> None:
        try:
            while not signal[0]:
                try:
                    number = self.queue.popleft()
                except IndexError:
                    if self.over:
                        return
                    self.idle.set()
                    time.sleep(PAUSE)
                    continue
                begun = time.perf_counter()
                result = self._train(self.members[number], signal)
                self.ended.append(Ended(number, result, time.perf_counter() - begun))
        except BaseException as error:  # raised again by the thread that waits
            self.errors.append(error)
            self.signals[:, 0] = 1

    def _train(self, member: Member, signal: NDArray[np.int64]) -> MemberResult:
        count = len(self.data.train_y)
        with self.starting:
            net = arenas_of(member, self.data)
        plan, course = plan_of(member, self.data, self.record_every, net), course_of(member, count)
        room, points = member.form.room(member, self.data), self.points[member.form]
        log = np.zeros((-(-member.epochs // self.record_every), len(COLUMNS)), np.float32)
        state = np.zeros(5, np.int64)
        connect(plan, net)
        end, block = DONE, max(1, ORDERS // count) if member.shuffle or member.augment else member.epochs
        while end == DONE and state[EPOCH] < member.epochs:
            until = min(int(state[EPOCH]) + block, member.epochs)
            order = order_of(member, self.data, int(state[EPOCH]), until)
            end = run(plan, net, room, points, course, order, state, log, until, signal)
        stopped = None if end == DONE else _advise(member, end, int(state[EPOCH]))
        return result_of(member, self.data, log[: state[ROWS]].copy(), stopped, net)


def result_of(
    member: Member,
    data: Data,
    log: NDArray[np.float32] | None = None,
    stopped: str | None = "interrupted before it began",
    net: Arenas | None = None,
) -> MemberResult:
    """What became of a member, by default of one that was never begun."""
    none = np.zeros(0, np.float32)
    return MemberResult(
        member=member,
        log=np.zeros((0, len(COLUMNS)), np.float32) if log is None else log,
        points=len(data.train_y),
        test_points=0 if data.test_y is None else len(data.test_y),
        outputs=data.outputs,
        shape=tuple(data.train_x.shape[1:]),
        stopped=stopped,
        weights=none if net is None else (net.free if member.form.keeps_trained else net.flat),
        norms=none if net is None else np.concatenate([part.ravel() for part in net.norm]),
        alpha=none if net is None else net.gates.alpha,
    )


def _advise(member: Member, end: int, epoch: int) -> str:
    if end == INTERRUPTED:
        return f"interrupted in epoch {epoch}"
    penalty = ", a smaller penalty" if member.kind.axes else ""
    return f"{REASONS[end]} in epoch {epoch}. Try an lr below {member.lr}{penalty} or another initialiser."
