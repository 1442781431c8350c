"""Networks of the demonstration trained in several processes, kept as they come."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import suppress
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Event
from pathlib import Path

import torch

from ..errors import expect
from ..files import expect_writable, write_atomically
from ..interrupts import unreached
from .network import FIRST_SEED, METHODS, TRACES, Job, Outcome, train_one

WAITING = ".waiting"  # folder of the outcomes of a run that is not complete


def prepare(folder: Path, *, seeds: int, epochs: int, workers: int | None) -> tuple[list[Job], int]:
    """The jobs, and how many processes to take; refuses bad numbers and a folder that cannot be written."""
    expect(
        [
            (seeds >= 1, f"seeds must be at least 1, got {seeds}"),
            (epochs >= 1, f"epochs must be at least 1, got {epochs}"),
            (workers is None or workers >= 1, f"workers must be at least 1, got {workers}"),
        ]
    )
    with suppress(OSError):  # said better by the next line
        folder.mkdir(parents=True, exist_ok=True)
    expect_writable(folder / "results.json")
    jobs = [Job(method, FIRST_SEED + seed, epochs) for seed in range(seeds) for method in METHODS]
    return jobs, min(workers or os.cpu_count() or 1, len(jobs))


def run(jobs: Sequence[Job], folder: Path, *, workers: int, tick: Callable[[Job, int], None]) -> list[Outcome]:
    """Train each job on one thread, `workers` processes at a time; `tick(job, epochs)` tells of so many epochs done.

    Outcomes wait in `folder` until `write`: a run that was interrupted goes on from there and repeats nothing.
    """
    waiting = folder / WAITING
    waiting.mkdir(exist_ok=True)
    outcomes = [Outcome.from_json((waiting / job.file).read_text()) for job in jobs if (waiting / job.file).exists()]
    ahead = [job for job in jobs if not (waiting / job.file).exists()]
    for job in jobs:
        tick(job, 0 if job in ahead else job.epochs)
    try:
        for job, outcome in _trained(ahead, workers, tick):
            write_atomically(waiting / job.file, outcome.to_json().encode())
            outcomes.append(outcome)
    except KeyboardInterrupt:
        done = f"{len(outcomes)} of {len(jobs)} networks are trained"
        raise KeyboardInterrupt(f"{done}; the same command goes on from there") from None
    return sorted(outcomes, key=lambda o: (o.seed, o.method))


def _trained(jobs: Sequence[Job], workers: int, tick: Callable[[Job, int], None]) -> Iterator[tuple[Job, Outcome]]:
    """Each job and its outcome, as they come."""
    context = multiprocessing.get_context("spawn")
    news: Queue[tuple[int, int]] = context.Queue()
    stop = context.Event()
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_settle, initargs=(news, stop))
    running: dict[Future[Outcome], Job] = {}
    try:
        with unreached():  # workers begin here
            running |= {pool.submit(_train, n, job): job for n, job in enumerate(jobs)}
        while running:
            done, _ = wait(running, timeout=0.1, return_when=FIRST_COMPLETED)
            while not news.empty():
                number, epochs = news.get()
                tick(jobs[number], epochs)
            for future in done:
                yield running.pop(future), future.result()
    finally:
        stop.set()
        for worker in (pool._processes or {}).values() if running else ():
            worker.terminate()  # what it has not sent is not kept: no need to wait for its next epoch
        pool.shutdown(wait=True, cancel_futures=True)


_news: Queue[tuple[int, int]] | None = None
_stop: Event | None = None


def _settle(news: Queue[tuple[int, int]], stop: Event) -> None:
    """Prepare a worker: one thread, a way to tell of progress; Ctrl-C is the parent's, who says when to stop."""
    global _news, _stop
    _news, _stop = news, stop
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # where processes are not started unreached, on Windows
    threading.Thread(target=_outlive_nobody, daemon=True).start()
    torch.set_num_threads(1)


def _outlive_nobody() -> None:
    """End this worker with its parent, also when that was killed."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _train(number: int, job: Job) -> Outcome:
    every = max(1, job.epochs // TRACES)

    def told(epoch: int) -> None:
        if _news is not None and (epoch + 1) % every == 0:
            _news.put((number, every))
        if _stop is not None and _stop.is_set():
            raise InterruptedError

    return train_one(job, told)
