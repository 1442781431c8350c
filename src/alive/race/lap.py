"""Laps: a network under one arm and one seed, brought to so many steps and looked at on the way."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Collection, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from ..cures import AS_IS, find
from ..cures.treatment import Treatment
from ..diagnosis import Census, census
from ..diagnosis.record import Tally
from ..errors import AliveError
from ..findings.rules import verdict
from ..train import Points
from .entry import Entry, trained
from .laps import Job, Lap, Mark

Tell = Callable[[int], None]  # how many steps were made since it was told last
AT_ONCE = 1000  # points of one pass that is not learned from
LOOKED_AT = 256  # training points of a census on the way
HELD = 2e9  # bytes of networks that wait for their next lap, over all processes
COPIES = 4  # of its weights, that a network takes: with gradients and what an optimiser remembers


class Runs:
    """The networks of a race on their way: each waits where it stands until it goes on, or is let go of."""

    def __init__(self, entry: Entry, processes: int) -> None:
        self._entry, self._processes = entry, processes
        self._held: dict[tuple[str, int], _Run] = {}

    def lap(self, job: Job, earlier: Lap | None, tell: Tell) -> Lap:
        """Bring a network to so many steps; what an earlier lap knows of it is not measured again."""
        arm, seed, steps = job
        if earlier is not None and (earlier.refused or earlier.stopped):
            return earlier.at(steps)
        began = time.perf_counter()
        with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # such as: a layer of one unit cannot be separated
            try:
                run = self._held.pop((arm, seed), None) or _Run(self._entry, arm, seed, earlier)
                stopped = run.to(steps, tell)
                after = None if stopped else _summarise(self._entry, run.model)
            except AliveError as refused:
                if arm == AS_IS:
                    raise
                return Lap(self._entry.key, arm, seed, steps, refused=refused.cause)
        if not stopped and (len(self._held) + 1) * self._processes * run.bytes < HELD:
            self._held[arm, seed] = run
        else:
            run.end()
        seconds = round(time.perf_counter() - began, 2)
        marks, before = tuple(run.marks), run.before
        return Lap(self._entry.key, arm, seed, steps, marks, before, after, stopped=stopped, seconds=seconds)

    def keep(self, wanted: Collection[tuple[str, int]]) -> None:
        """Let go of all others."""
        for key in self._held.keys() - set(wanted):
            self._held.pop(key).end()


def pace(entry: Entry) -> tuple[float, float]:
    """The seconds of a look at the network as it is, and of a step, by a few of them."""
    began = time.perf_counter()
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run = _Run(entry, AS_IS, 0, None)
        looked = time.perf_counter()
        clock: list[float] = []
        while len(clock) < 3 or (len(clock) < 20 and time.perf_counter() - looked < 2):
            run.advance(next(run.batches))
            clock.append(time.perf_counter())
        run.end()
    return looked - began, (clock[-1] - clock[0]) / (len(clock) - 1)


class _Run:
    """A network on its way, from its first step."""

    def __init__(self, entry: Entry, arm: str, seed: int, earlier: Lap | None) -> None:
        torch.manual_seed(seed)
        self.entry, self.marks, self.step = entry, list[Mark](), 0
        model, again = entry.fresh(seed), lambda: entry.fresh(seed)
        self.treatment = Treatment(find(arm), model, entry.optimiser, entry.x, again)
        self.model = self.treatment.model
        self.known = {mark.step: mark for mark in earlier.marks if mark.step} if earlier else {}
        self.points = Points(entry.data, trained(self.model)[0])
        self.batches = _batches(len(entry.data.train_y), entry.batch_size, seed)
        self.before = _summarise(entry, self.model)  # each time: a penalty follows its first pass where no census has
        self.bytes = COPIES * sum(p.numel() * p.element_size() for p in self.model.parameters())
        self.losses = list[float]()
        self.chance = torch.get_rng_state()
        self._look()

    def to(self, steps: int, tell: Tell) -> str:
        """Train until so many steps are made in all; why it stopped, if it did."""
        torch.set_rng_state(self.chance)
        while self.step < steps:
            self.step += 1
            value = self.advance(next(self.batches))
            tell(1)
            if not math.isfinite(value):
                return f"the loss was {value} in step {self.step}"
            self.losses.append(value)
            if self.step in self.entry.marks:
                self._look()
        self.chance = torch.get_rng_state()
        return f"the output was not finite after step {steps}" if self.marks[-1].score is None else ""

    def end(self) -> None:
        """Let go of what the cures attached."""
        self.treatment.__exit__()

    def advance(self, numbers: Tensor) -> float:
        """One step, as any script takes it; the loss of the task, or the whole loss where that is not finite."""
        self.model.train()
        inputs, y = self.points.batch(numbers)
        task = self.entry.task.loss(self.points.answer(self.model, inputs), y)
        loss = self.treatment.step(task)
        return float(task if loss.isfinite() else loss)

    def _look(self) -> None:
        """Note how it stands."""
        self.marks.append(self.known.get(self.step) or self._mark())
        self.losses.clear()

    def _mark(self) -> Mark:
        """How it stands; chance is left as it was, so that looking changes nothing."""
        loss = sum(self.losses) / len(self.losses) if self.losses else None
        with torch.random.fork_rng(devices=[]):
            try:
                found = census(self.model, self.entry.looked_at(LOOKED_AT))
                dead = _part(found.units), _part(found.points)
            except AliveError:  # it cannot be counted; the race goes on
                dead = None, None
            return Mark(self.step, loss, score(self.entry, self.model, self.points), *dead)


def _part(tally: Tally) -> float | None:
    return tally.dead / tally.total if tally.total else None


def score(entry: Entry, model: nn.Module, points: Points) -> float | None:
    """The score on the points that judge; None where it is not finite."""
    was = model.training
    model.eval()
    try:
        with torch.no_grad():
            inputs, y = points.parts[-1]
            sums: Any = sum(_pieces(entry, model, points, inputs, y))
            value = entry.task.score.value(sums, y)
    finally:
        model.train(was)
    return None if value is None or not math.isfinite(value) else value


def _pieces(entry: Entry, model: nn.Module, points: Points, inputs: tuple[Tensor, ...], y: Tensor) -> Iterator[Tensor]:
    for *some, wanted in zip(*(part.split(AT_ONCE) for part in (*inputs, y)), strict=True):
        output = points.answer(model, (points.read(some[0]), *some[1:]))
        yield entry.task.score.sums(output, wanted)


def _batches(points: int, size: int, seed: int) -> Iterator[Tensor]:
    """Whole batches of point numbers, in a new order each time over the data; what is left over waits for the next."""
    chance = torch.Generator().manual_seed(seed)
    while True:
        yield from (part for part in torch.randperm(points, generator=chance).split(size) if len(part) == size)


def _summarise(entry: Entry, model: nn.Module) -> dict[str, Any] | None:
    """What a census with the gradient says of a network, in few words."""
    with torch.random.fork_rng(devices=[]):
        try:
            return summary(census(model, entry.looked_at(LOOKED_AT), gradient=True))
        except AliveError:
            return None


def summary(found: Census) -> dict[str, Any]:
    """Verdict, units and points of a census."""
    return {
        "verdict": verdict(found)[0],
        "found": found.findings[0].found if found.findings else "",
        "units": {"dead": found.units.dead, "linear": found.units.linear, "total": found.units.total},
        "points": {"dead": found.points.dead, "total": found.points.total},
    }
