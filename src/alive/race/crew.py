"""Jobs on all cores: forked processes, one thread each, that take one job after the other and tell how far they are.

Each process keeps the networks it has trained where they stand, so that who trained one goes on with it.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from typing import Any

import torch

from ..errors import AliveError, fault
from ..interrupts import unreached
from ..processes import die_with
from .lap import Runs, Tell
from .laps import Job, Lap

Take = Callable[[Job], Lap | None]  # what an earlier lap knows of the network of a job
OFTEN = 0.3  # seconds between two words on steps
LOOK = 0.5  # seconds between two looks, so that Ctrl-C is heard


class TimeUp(Exception):
    """The time that was given is over."""


class Crew:
    """Forked processes: they need no import of the user's code, and take functions that cannot be sent.

    One process does all where forks are not safe beside torch. However many there are, the laps are the same.
    """

    def __init__(self, runs: Runs, size: int, until: float) -> None:
        self._runs, self._until = runs, until
        self._size = size if sys.platform == "linux" and size > 1 else 0
        self._workers: dict[Connection, Any] = {}
        self._busy: dict[Connection, Job] = {}
        self._holds: dict[Connection, set[tuple[str, int]]] = {}

    def __enter__(self) -> Crew:
        if not self._size:
            self._threads = torch.get_num_threads()
            torch.set_num_threads(1)
            return self
        fork = multiprocessing.get_context("fork")
        pipes = [fork.Pipe() for _ in range(self._size)]
        ends = [end for pipe in pipes for end in pipe]
        for ours, theirs in pipes:
            work = (self._runs, theirs, ends, os.getpid())
            self._workers[ours], self._holds[ours] = fork.Process(target=_worker, args=work, daemon=True), set()
        with unreached(), warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads: they compute on one thread
            for worker in self._workers.values():
                worker.start()
        for _, theirs in pipes:
            theirs.close()
        return self

    def __exit__(self, *_: object) -> None:
        if not self._size:
            torch.set_num_threads(self._threads)
        for ours, worker in self._workers.items():
            ours.close()
            worker.terminate()
        for worker in self._workers.values():
            worker.join()

    def run(self, jobs: Sequence[Job], take: Take, done: Callable[[Lap], None], tell: Tell) -> None:
        """Do all jobs that are free, each where its network stands, or by whoever has nothing to do; TimeUp at the end
        of the time.

        take   what is known of the network of a job, as it is begun; KeyError where others do it
        done   gets each lap in this process
        """
        ahead, keep = list(jobs), {job[:2] for job in jobs}
        if not self._size:
            self._runs.keep(keep)
            for job in ahead:
                with suppress(KeyError):
                    done(self._runs.lap(job, take(job), lambda steps: self._told(steps, tell)))
            return
        for ours, holds in self._holds.items():
            ours.send(keep)
            holds &= keep
        for ours in self._workers:
            self._next(ours, ahead, take)
        while self._busy:
            self._told(0, tell)
            heard = wait(list(self._busy), timeout=LOOK)
            for ours in [each for each in self._busy if each in heard]:
                self._hear(ours, ahead, take, done, tell)

    def _told(self, steps: int, tell: Tell) -> None:
        tell(steps)
        if time.monotonic() > self._until:
            raise TimeUp

    def _hear(
        self, ours: Connection, ahead: list[Job], take: Take, done: Callable[[Lap], None], tell: Tell
    ) -> None:  # fmt: skip
        try:
            told = ours.recv()
        except (EOFError, OSError):
            raise _fault_of_killed(self._busy[ours]) from None
        if isinstance(told, AliveError):
            raise told
        if isinstance(told, int):
            tell(told)
            return
        del self._busy[ours]
        self._next(ours, ahead, take)
        done(told)

    def _next(self, ours: Connection, ahead: list[Job], take: Take) -> None:
        """Give a process one of the networks it holds, else one that nobody holds."""
        others = set().union(*(holds for other, holds in self._holds.items() if other is not ours))
        while job := next((job for job in ahead if job[:2] not in others), None):
            ahead.remove(job)
            with suppress(KeyError):
                ours.send((job, take(job)))
                self._busy[ours] = job
                self._holds[ours].add(job[:2])
                return


def _fault_of_killed(job: Job) -> AliveError:
    return AliveError(
        f"the process that trained {job[0]!r} under seed {job[1]} was killed, likely for want of memory",
        "Finished runs are kept; ask for fewer jobs",
    )


def _worker(runs: Runs, post: Connection, ends: Sequence[Any], parent: int) -> None:
    """One job after the other until the other end is closed."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # by which the parent ends it
    die_with(parent)
    for end in ends:  # of the others, which would keep them open
        if end is not post:
            end.close()
    torch.set_num_threads(1)
    with suppress(EOFError, OSError, KeyboardInterrupt):
        while True:
            asked = post.recv()
            if isinstance(asked, set):
                runs.keep(asked)
                continue
            job, earlier = asked
            try:
                post.send(runs.lap(job, earlier, _Teller(post).tell))
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
