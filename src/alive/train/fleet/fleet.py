"""Train many networks at once, one a core, each from start to end inside the compiled engine."""

from __future__ import annotations

import math
import os
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from threading import Lock, Thread

import numpy as np
from numpy.typing import NDArray

from ...data import Data
from ...errors import AliveError, expect
from .architecture import batch_of
from .engine import COLUMNS, EPOCH, ROWS, run
from .member import Member
from .plan import BAD_BOTH, BAD_LOGITS, BAD_LOSS, BAD_PENALTY, DONE, INTERRUPTED, Arenas
from .progress import FleetProgress
from .result import FleetResult, MemberResult
from .start import arenas_of, course_of, order_of, plan_of
from .update import connect

LOOK = 0.1  # seconds between two looks at how far the workers are
ORDERS = 2**16  # points whose order and moves are laid out ahead: a moment's work, during which Ctrl-C waits
MEMORY = 2**33  # bytes one member may take
REASONS = {
    BAD_LOSS: "the task loss is not finite",
    BAD_PENALTY: "the penalty is not finite",
    BAD_BOTH: "the task loss and the penalty are not finite",
    BAD_LOGITS: "the logits are not finite after the last step",
    INTERRUPTED: "interrupted",
}


def train_fleet(
    members: Sequence[Member],
    data: Data,
    *,
    record_every: int = 1,
    threads: int | None = None,
    progress: FleetProgress | None = None,
) -> FleetResult:
    """Train every member on the data; their results do not depend on each other, nor on the number of threads.

    Each member begins as alive.nn makes it from its seed, and equals train.loop step by step but for rounding. A row
    is recorded every `record_every` epochs and after the last. A member whose loss is not finite is frozen before that
    step, and says so in `stopped`. Ctrl-C returns what there is. CPU only; by default one thread a core.

    >>> from alive.data import moons
    >>> fleet = [Member(2, 8, seed=seed, lr=0.05, epochs=60) for seed in range(3)]
    >>> [result.best.train_accuracy > 0.8 for result in train_fleet(fleet, moons()).members]
    [True, True, True]
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    threads = cores if threads is None else threads
    expect_fit(members, data, record_every=record_every, threads=threads)
    crew = _Crew(members, data, record_every, min(threads, len(members)))
    return crew.sail(progress)


class _Crew:
    """Worker threads that take members from one queue; the kernels release Python's lock, so they run in parallel."""

    def __init__(self, members: Sequence[Member], data: Data, record_every: int, threads: int) -> None:
        self.members, self.data, self.record_every = members, data, record_every
        self.points = {form: form.points(data) for form in {member.form for member in members}}
        costly = sorted(
            range(len(members)), key=lambda i: -members[i].cost(len(data.train_y))
        )  # the longest first: all end together
        self.queue = deque(costly)
        self.results: dict[int, MemberResult] = {}
        self.signals = np.zeros((threads, 2), np.int64)  # for each worker: stop asked for, epochs done
        self.errors: list[BaseException] = []
        self.starting = Lock()  # alive.nn borrows torch's global random state while it builds

    def sail(self, progress: FleetProgress | None) -> FleetResult:
        begun = time.perf_counter()
        interrupted = False
        workers = [Thread(target=self._work, args=(signal,), daemon=True) for signal in self.signals]
        try:
            if progress is not None:
                progress.start(len(self.members), sum(member.epochs for member in self.members))
            for worker in workers:
                worker.start()
            self._watch(workers, progress, begun)
        except KeyboardInterrupt:
            interrupted = True
        finally:
            self.signals[:, 0] = 1
            for worker in workers:
                if worker.ident is not None:
                    worker.join()
            if progress is not None:
                progress.close()
        if self.errors:
            raise self.errors[0]
        results = tuple(self.results.get(i) or self._unbegun(member) for i, member in enumerate(self.members))
        return FleetResult(results, time.perf_counter() - begun, interrupted)

    def _watch(self, workers: list[Thread], progress: FleetProgress | None, begun: float) -> None:
        while any(worker.is_alive() for worker in workers):
            for worker in workers:
                worker.join(LOOK / len(workers))
            if progress is not None:
                done = int(self.signals[:, 1].sum())
                progress.update(len(self.results), done, done / (time.perf_counter() - begun))

    def _work(self, signal: NDArray[np.int64]) -> None:
        try:
            while self.queue and not signal[0]:
                try:
                    number = self.queue.popleft()
                except IndexError:  # another worker was quicker
                    return
                self.results[number] = self._train(self.members[number], signal)
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
        return self._result(member, log[: state[ROWS]].copy(), stopped, net)

    def _result(
        self, member: Member, log: NDArray[np.float32], stopped: str | None, net: Arenas | None
    ) -> MemberResult:
        none = np.zeros(0, np.float32)
        return MemberResult(
            member=member,
            log=log,
            points=len(self.data.train_y),
            test_points=0 if self.data.test_y is None else len(self.data.test_y),
            outputs=self.data.outputs,
            shape=tuple(self.data.train_x.shape[1:]),
            stopped=stopped,
            weights=none if net is None else (net.free if member.form.keeps_trained else net.flat),
            norms=none if net is None else np.concatenate([part.ravel() for part in net.norm]),
            alpha=none if net is None else net.gates.alpha,
        )

    def _unbegun(self, member: Member) -> MemberResult:
        return self._result(member, np.zeros((0, len(COLUMNS)), np.float32), "interrupted before it began", None)


def _advise(member: Member, end: int, epoch: int) -> str:
    if end == INTERRUPTED:
        return f"interrupted in epoch {epoch}"
    penalty = ", a smaller penalty" if member.kind.axes else ""
    return f"{REASONS[end]} in epoch {epoch}. Try an lr below {member.lr}{penalty} or another initialiser."


def expect_fit(members: Sequence[Member], data: Data, *, record_every: int = 1, threads: int = 1) -> int:
    """Refuse before the first step what must fail later, all faults together; else how many bytes will be taken."""
    if not members:
        raise AliveError("a fleet needs at least one member")
    data.expect_classes("a fleet")
    faults = [
        (record_every >= 1, f"record_every must be at least 1, got {record_every}"),
        (threads >= 1, f"threads must be at least 1, got {threads}"),
    ]
    for number, member in enumerate(members):
        who = f"member {number} ({member.depth}x{member.width} {member.method})"
        faults += [(holds, f"{who}: {text}") for holds, text in _misfits(member, data)]
    expect(faults)
    needed, there, at_once = _needed(members, data, threads), _free(), min(threads, len(members))
    if needed > there:
        raise AliveError(
            f"networks at once: {at_once}, which need about {needed / 2**30:.1f} GiB; {there / 2**30:.1f} are free",
            "Ask for fewer threads, a smaller batch_size or depth",
        )
    return needed


def _needed(members: Sequence[Member], data: Data, threads: int) -> int:
    """Bytes of the largest members that may train at once, and of the points as each architecture reads them."""
    each = sorted((member.form.memory(member, data) for member in members), reverse=True)
    points = sum(x.numel() for (x, *_), _ in data.parts)
    return sum(each[:threads]) + 4 * points * len({member.form for member in members})


def _free() -> float:
    """Bytes of memory that are free, or infinity where nobody tells."""
    try:
        text = Path("/proc/meminfo").read_text()
        return float(text.split("MemAvailable:")[1].split()[0]) * 1024
    except (OSError, IndexError, ValueError):
        return math.inf


def _misfits(member: Member, data: Data) -> list[tuple[bool, str]]:
    points = len(data.train_y)
    batch = batch_of(member, points)
    found = [
        (batch <= points, f"batch_size {batch} is larger than the {points} training points"),
        *member.form.misfits(member, data),
    ]
    if all(holds for holds, _ in found):
        needed = member.form.memory(member, data)
        found.append((needed <= MEMORY, f"needs about {needed / 2**30:.1f} GiB; choose a smaller batch_size or depth"))
    return found
