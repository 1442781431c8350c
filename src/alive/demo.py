"""The demonstration: the papers' 50x4 network on MOONS, six ways, with who was alive while it trained (001-T1)."""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import signal
import statistics
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import nullcontext, suppress
from dataclasses import asdict, dataclass
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.table import Table

from ._version import __version__
from .data import Data, moons
from .diagnosis import Tally, census
from .errors import expect
from .files import expect_writable, write_atomically
from .nn import Rectangular
from .penalties import Jumpstart
from .report import Panel, decision_maps, lives
from .train import Row, Settings, logits_of, train

DEPTH, WIDTH, EPOCHS, WEIGHT, FIRST_SEED = 50, 4, 1000, 1e-4, 10
WAITING = ".waiting"  # folder of the outcomes of a run that is not complete
TRACES = 100  # how often in a run the units and points are counted
CHANCE = 44 / 85  # the larger class of the training set


@dataclass(frozen=True, slots=True)
class Method:
    """A way to train the network; `published` are the paper's best training and validation accuracies (001-T1)."""

    name: str
    mode: str | None = None
    batch_norm: bool = False
    init: str = "glorot"
    lr: float = 0.01
    published: tuple[float, float] | None = None


METHODS = (
    Method("ReLU", published=(0.5176, 0.4)),
    Method("ReLU+BN", batch_norm=True, published=(0.8117, 0.6)),
    Method("Sep-U", mode="U", published=(0.9058, 0.8)),
    Method("Sep-P", mode="P", published=(0.9294, 0.8)),
    Method("Sep-UP", mode="UP", published=(0.9882, 0.9333)),
    Method("mirrored", init="mirrored", lr=0.001),
)


@dataclass(frozen=True, slots=True)
class Job:
    """One network to train."""

    method: Method
    seed: int
    epochs: int

    @property
    def file(self) -> str:
        """Where its outcome waits while others of the run are still to come."""
        return f"{__version__}-{self.method.name}-{self.seed}-{self.epochs}.json"


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """One trained network: accuracies (best over epochs and last), its census, and what is drawn of it."""

    method: str
    seed: int
    best: tuple[float, float]
    last: tuple[float, float]
    units: Tally
    points: Tally
    stopped: str | None
    seconds: float
    panel: Panel

    def to_json(self) -> str:
        """All of it as text."""
        return json.dumps(asdict(self), default=np.ndarray.tolist)

    @classmethod
    def from_json(cls, text: str) -> Outcome:
        """What `to_json` wrote."""
        record = json.loads(text)
        drawn = {key: np.array(value) if isinstance(value, list) else value for key, value in record["panel"].items()}
        panel = Panel(**drawn | {"extent": tuple(record["panel"]["extent"])})
        pairs = {key: tuple(record[key]) for key in ("best", "last")}
        tallies = {key: Tally(*record[key]) for key in ("units", "points")}
        return cls(**record | pairs | tallies | {"panel": panel})


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
    try:
        running: dict[Future[Outcome], Job] = {pool.submit(_train, n, job): job for n, job in enumerate(jobs)}
        while running:
            done, _ = wait(running, timeout=0.1, return_when=FIRST_COMPLETED)
            while not news.empty():
                number, epochs = news.get()
                tick(jobs[number], epochs)
            for future in done:
                yield running.pop(future), future.result()
    finally:
        stop.set()
        pool.shutdown(wait=True, cancel_futures=True)


_news: Queue[tuple[int, int]] | None = None
_stop: Event | None = None


def _settle(news: Queue[tuple[int, int]], stop: Event) -> None:
    """Prepare a worker: one thread, a way to tell of progress, and Ctrl-C left to the parent, who says when to stop."""
    global _news, _stop
    _news, _stop = news, stop
    signal.signal(signal.SIGINT, signal.SIG_IGN)
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


def train_one(job: Job, tick: Callable[[int], None] = lambda epoch: None) -> Outcome:
    """Train one network and count its units and points on the way; `tick(epoch)` after each epoch."""
    data, method = moons(), job.method
    chance = torch.Generator().manual_seed(job.seed)
    model = Rectangular(
        data.inputs,
        data.outputs,
        depth=DEPTH,
        width=WIDTH,
        batch_norm=method.batch_norm,
        init=method.init,
        generator=chance,
    )
    every = max(1, job.epochs // TRACES)
    trace: list[tuple[int, Tally, Tally]] = []

    def count(epoch: int, model: torch.nn.Module) -> None:
        tick(epoch)
        if epoch % every == 0 or epoch == job.epochs - 1:
            found = census(model, data.train_x)
            trace.append((epoch, found.units, found.points))

    attached = Jumpstart(model, WEIGHT, mode=method.mode) if method.mode else None
    with attached or nullcontext():
        settings = Settings(epochs=job.epochs, lr=method.lr, seed=job.seed)
        result = train(model, data, settings, keep=attached, on_epoch=count)
    found = census(model, data.train_x)
    last = result.last or Row(0, float("nan"), 0.0, CHANCE, 0.0)
    return Outcome(
        method.name,
        job.seed,
        (result.best.train_accuracy or 0.0, result.best.test_accuracy or 0.0),
        (last.train_accuracy, last.test_accuracy or 0.0),
        found.units,
        found.points,
        result.stopped,
        result.seconds,
        _panel(method.name, model, data, trace, result.rows),
    )


def _panel(
    name: str, model: torch.nn.Module, data: Data, trace: Sequence[tuple[int, Tally, Tally]], rows: Sequence[Row]
) -> Panel:
    """What is drawn of one network."""
    low, high = data.train_x.amin(0) - 0.1, data.train_x.amax(0) + 0.1
    sides = [np.linspace(float(a), float(b), 120) for a, b in zip(low, high, strict=True)]
    plane = np.stack(np.meshgrid(*sides), axis=-1).reshape(-1, 2)
    (logits,) = logits_of(model, torch.tensor(plane, dtype=torch.float32))
    epochs = np.array([epoch for epoch, _, _ in trace])
    return Panel(
        name,
        logits.sigmoid().reshape(120, 120).double().numpy(),
        (float(low[0]), float(high[0]), float(low[1]), float(high[1])),
        epochs,
        np.array([units.dead / units.total for _, units, _ in trace]),
        np.array([units.linear / units.total for _, units, _ in trace]),
        np.array([points.dead / points.total for _, _, points in trace]),
        np.array([rows[epoch].train_accuracy for epoch in epochs]),
    )


@dataclass(frozen=True, slots=True)
class Summary:
    """One method over all seeds: each pair is (mean, standard deviation), which is 0 for one seed.

    `trained` counts the seeds whose best training accuracy is above chance, the larger class.
    """

    method: str
    seeds: int
    trained: int
    best_train: tuple[float, float]
    best_test: tuple[float, float]
    last_train: tuple[float, float]
    dead_units: tuple[float, float]
    linear_units: tuple[float, float]
    dead_points: tuple[float, float]
    published: tuple[float, float] | None


def summarise(outcomes: Sequence[Outcome]) -> list[Summary]:
    """The methods in their order, over their seeds."""
    return [_summary(method, of) for method in METHODS if (of := [o for o in outcomes if o.method == method.name])]


def _summary(method: Method, outcomes: Sequence[Outcome]) -> Summary:
    return Summary(
        method.name,
        len(outcomes),
        sum(outcome.best[0] > CHANCE + 1e-6 for outcome in outcomes),
        _spread(outcome.best[0] for outcome in outcomes),
        _spread(outcome.best[1] for outcome in outcomes),
        _spread(outcome.last[0] for outcome in outcomes),
        _spread(outcome.units.dead for outcome in outcomes),
        _spread(outcome.units.linear for outcome in outcomes),
        _spread(outcome.points.dead for outcome in outcomes),
        method.published,
    )


def _spread(values: Iterable[float]) -> tuple[float, float]:
    numbers = list(values)
    return statistics.fmean(numbers), statistics.stdev(numbers) if len(numbers) > 1 else 0.0


def table(summaries: Sequence[Summary]) -> Table:
    """The summaries for a terminal, beside the published figures."""
    grid = Table(title="50x4 network on MOONS: accuracies are the best over epochs, as the paper reports them")
    columns = ("trained", "train", "test", "published\ntrain / test", "dead\nunits", "linear\nunits", "dead\npoints")
    for column in ("method", *columns):
        grid.add_column(column, justify="left" if column == "method" else "right")
    for s in summaries:
        published = "·" if s.published is None else f"{s.published[0]:.4f} / {s.published[1]:.4f}"
        counts = [_pair(pair, 0 if s.seeds == 1 else 1) for pair in (s.dead_units, s.linear_units, s.dead_points)]
        accuracies = [_pair(pair, 4 if s.seeds == 1 else 3) for pair in (s.best_train, s.best_test)]
        grid.add_row(s.method, f"{s.trained} of {s.seeds}", *accuracies, published, *counts)
    return grid


def _pair(pair: tuple[float, float], digits: int) -> str:
    mean, deviation = pair
    return f"{mean:.{digits}f} ± {deviation:.{digits}f}" if deviation else f"{mean:.{digits}f}"


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


def write(outcomes: Sequence[Outcome], folder: Path) -> list[Path]:
    """Write the pictures (of the first seed) and all numbers; returns the files."""
    data = moons()
    first = [o.panel for method in METHODS for o in outcomes if (o.method, o.seed) == (method.name, FIRST_SEED)]
    files = [folder / "decision-maps.png", folder / "alive-over-time.png", folder / "results.json"]
    decision_maps(first, data.train_x.double().numpy(), data.train_y.numpy(), files[0])
    lives(first, files[1])
    numbers: dict[str, Any] = {
        "network": f"{DEPTH}x{WIDTH}",
        "weight": WEIGHT,
        "summaries": [asdict(summary) for summary in summarise(outcomes)],
        "outcomes": [
            {"method": o.method, "seed": o.seed, "best": o.best, "last": o.last, "units": o.units._asdict()}
            | {"points": o.points._asdict(), "stopped": o.stopped, "seconds": round(o.seconds, 2)}
            for o in outcomes
        ],
    }
    write_atomically(files[2], json.dumps(numbers, indent=2).encode())
    shutil.rmtree(folder / WAITING, ignore_errors=True)
    return files
