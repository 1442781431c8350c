"""Jobs on all cores: forked processes, one thread each, that take one job after the other and tell how far they are."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from typing import Any

import torch

from ..errors import AliveError, fault
from ..interrupts import unreached
from ..processes import die_with
from .laps import Job, Lap

Tell = Callable[[int], None]  # how many steps were made since it was told last
Work = Callable[[Job, Tell], Lap]
OFTEN = 0.3  # seconds between two words on steps
LOOK = 0.5  # seconds between two looks, so that Ctrl-C is heard


def run(work: Work, jobs: Iterator[Job], processes: int, done: Callable[[Lap], None], tell: Tell) -> None:
    """Do all jobs, each taken when there is somebody for it; `done` gets each lap in this process.

    However many processes there are, the laps are the same.
    """
    if processes < 2 or sys.platform != "linux":  # where forks are safe beside torch
        _alone(work, jobs, done, tell)
        return
    with _Crew(work, processes) as crew:
        crew.through(jobs, done, tell)


def _alone(work: Work, jobs: Iterator[Job], done: Callable[[Lap], None], tell: Tell) -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for job in jobs:
            done(work(job, tell))
    finally:
        torch.set_num_threads(threads)


class _Crew:
    """Forked processes: they need no import of the user's code, and take functions that cannot be sent."""

    def __init__(self, work: Work, size: int) -> None:
        fork = multiprocessing.get_context("fork")
        pipes = [fork.Pipe() for _ in range(size)]
        ends = [end for pipe in pipes for end in pipe]
        self._workers = {
            ours: fork.Process(target=_worker, args=(work, theirs, ends, os.getpid()), daemon=True)
            for ours, theirs in pipes
        }
        self._theirs = [theirs for _, theirs in pipes]
        self._busy: dict[Connection, Job] = {}

    def __enter__(self) -> _Crew:
        with unreached(), warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads: they compute on one thread
            for worker in self._workers.values():
                worker.start()
        for end in self._theirs:
            end.close()
        return self

    def __exit__(self, *_: object) -> None:
        for ours, worker in self._workers.items():
            ours.close()
            worker.terminate()
        for worker in self._workers.values():
            worker.join()

    def through(self, jobs: Iterator[Job], done: Callable[[Lap], None], tell: Tell) -> None:
        """All jobs, in their order, each to whoever is free."""
        for ours in self._workers:
            self._next(ours, jobs)
        while self._busy:
            heard = wait(list(self._busy), timeout=LOOK)
            for ours in [each for each in self._busy if each in heard]:
                try:
                    told = ours.recv()
                except (EOFError, OSError):
                    raise _fault_of_killed(self._busy[ours]) from None
                if isinstance(told, AliveError):
                    raise told
                if isinstance(told, int):
                    tell(told)
                    continue
                del self._busy[ours]
                self._next(ours, jobs)
                done(told)

    def _next(self, ours: Connection, jobs: Iterator[Job]) -> None:
        if job := next(jobs, None):
            self._busy[ours] = job
            ours.send(job)


def _fault_of_killed(job: Job) -> AliveError:
    return AliveError(
        f"the process that trained {job[0]!r} under seed {job[1]} was killed, likely for want of memory",
        "Finished runs are kept; ask for fewer jobs",
    )


def _worker(work: Work, post: Connection, ends: Sequence[Any], parent: int) -> None:
    """One job after the other until the other end is closed."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # by which the parent ends it
    die_with(parent)
    for end in ends:  # of the others, which would keep them open
        if end is not post:
            end.close()
    torch.set_num_threads(1)
    with suppress(EOFError, OSError, KeyboardInterrupt):
        while True:
            job = post.recv()
            teller = _Teller(post)
            try:
                post.send(work(job, teller.tell))
            except Exception as error:
                post.send(fault(f"training {job[0]!r} under seed {job[1]}", error))


class _Teller:
    """Tells of steps, not too often."""

    def __init__(self, post: Connection) -> None:
        self._post, self._steps, self._told = post, 0, time.monotonic()

    def tell(self, steps: int) -> None:
        self._steps += steps
        if time.monotonic() - self._told > OFTEN:
            self._post.send(self._steps)
            self._steps, self._told = 0, time.monotonic()
