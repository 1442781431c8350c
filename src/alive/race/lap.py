"""One lap: a fresh network under one seed and one arm, trained for so many steps and looked at on the way."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Iterator
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
from .crew import Tell
from .entry import Entry, trained
from .laps import Job, Lap, Mark

AT_ONCE = 1000  # points of one pass that is not learned from
LOOKED_AT = 256  # training points of a census on the way


def raced(entry: Entry, job: Job, earlier: Lap | None, tell: Tell) -> Lap:
    """Make, treat and train a network; what an earlier lap of fewer steps knows of it is not measured again."""
    arm, seed, steps = job
    began = time.perf_counter()
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # such as: a layer of one unit cannot be separated
        torch.manual_seed(seed)
        model = entry.fresh(seed)
        try:
            with Treatment(find(arm), model, entry.optimiser, entry.x) as treatment:
                run = _Run(entry, treatment, seed, earlier.marks if earlier else ())
                before = earlier.before if earlier else _summarise(entry, run.model)
                marks, stopped = run.to(steps, tell)
                after = None if stopped else _summarise(entry, run.model)
        except AliveError as refused:
            if arm == AS_IS:
                raise
            return Lap(entry.key, arm, seed, steps, refused=refused.cause)
    seconds = round(time.perf_counter() - began, 2)
    return Lap(entry.key, arm, seed, steps, tuple(marks), before, after, stopped=stopped, seconds=seconds)


class _Run:
    """A network on its way."""

    def __init__(self, entry: Entry, treatment: Treatment, seed: int, known: tuple[Mark, ...]) -> None:
        self.entry, self.treatment, self.model = entry, treatment, treatment.model
        self.known = {mark.step: mark for mark in known}
        self.points = Points(entry.data, trained(self.model)[0])
        self.batches = _batches(len(entry.data.train_y), entry.batch_size, seed)

    def to(self, steps: int, tell: Tell) -> tuple[list[Mark], str]:
        """Train for so many steps in all; the marks, and why it stopped if it did."""
        marks, losses = [self._mark(0, [])], list[float]()
        for step in range(1, steps + 1):
            value = self._step(next(self.batches))
            tell(1)
            if not math.isfinite(value):
                return marks, f"the loss was {value} in step {step}"
            losses.append(value)
            if step in self.entry.marks:
                marks.append(self._mark(step, losses))
                losses.clear()
        if marks[-1].score is None:
            return marks, f"the output was not finite after step {steps}"
        return marks, ""

    def _step(self, numbers: Tensor) -> float:
        """One step, as any script takes it; the loss of the task, or the whole loss where that is not finite."""
        self.model.train()
        inputs, y = self.points.batch(numbers)
        task = self.entry.task.loss(self.points.answer(self.model, inputs), y)
        loss = self.treatment.step(task)
        return float(task if loss.isfinite() else loss)

    def _mark(self, step: int, losses: list[float]) -> Mark:
        """How it stands; chance is left as it was, so that looking changes nothing."""
        if step in self.known:
            return self.known[step]
        loss = sum(losses) / len(losses) if losses else None
        with torch.random.fork_rng(devices=[]):
            try:
                found = census(self.model, self.entry.looked_at(LOOKED_AT))
                dead = _part(found.units), _part(found.points)
            except AliveError:  # it cannot be counted; the race goes on
                dead = None, None
            return Mark(step, loss, score(self.entry, self.model, self.points), *dead)


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
