"""The race: all cures that apply to a model, at equal budget, on the user's own data and loss; losers stop early."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ..cures import AS_IS, BOTH, CURES, find
from ..data.calls import few_threads
from ..diagnosis import Census, census
from ..errors import AliveError, expect
from ..processes import LOOK, cores
from ..screen import bars
from ..train.losses import Loss
from . import crew
from .entry import Entry, Own, opened
from .lap import LOOKED_AT, raced
from .laps import Job, Lap, Laps
from .result import BETTER, CURED, IN_VAIN, UNKNOWN, WELL, Arm, Judge, Outcome, number, scored

NAMED = 2  # cures of the advice that are raced, as many as a census speaks of


def cure(
    make_model: Callable[[], nn.Module],
    data: Any,
    *,
    loss: str | Loss | None = None,
    steps: int = 1000,
    seeds: int = 3,
    seed: int = 0,
    lr: float = 1e-3,
    optimiser: str | Own = "adam",
    batch_size: int | None = None,
    points: int | None = None,
    cures: Sequence[str] | None = None,
    store: str | PathLike[str] | None = None,
    jobs: int | None = None,
    progress: bool | None = None,
    name: str = "",
    source: str | None = None,
) -> Outcome:
    """Race the cures that apply to a model at equal budget, on its own data and loss, and say which wins by how much.

    make_model  makes the model anew; called under each seed for each cure
    data        inputs and targets as `alive.census` takes them; with test points, (x, y, test_x, test_y), those judge,
                else a fifth that is held out
    loss        "ce", "bce", "mse" or loss(output, targets); by default what the targets ask for
    steps       of every cure that is not stopped as a loser, after a quarter or half of them
    seeds, seed how many networks of each cure, and the first seed
    optimiser   "adam", "sgd", or a function of the parameters that makes one; `lr` is for those by name
    batch_size  by default that of a DataLoader, else 64
    points      so many training points at most
    cures       only these, by name; "as it is" always runs
    store       a file for finished runs: what was interrupted goes on from there
    jobs        processes; by default one a core. The result is the same for any number
    progress    a bar: True, False, or None for one on a terminal
    name, source   what model and data are called in the outcome

    >>> def make_model():
    ...     return nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 1))
    >>> x = torch.randn(60, 2)
    >>> cure(make_model, (x, x.sum(1)), steps=8, seeds=1, cures=["mirrored"], jobs=1).seeds
    (0,)
    """
    expect(
        [
            (isinstance(seeds, int) and seeds >= 1, f"seeds must be a whole number of at least 1, got {seeds!r}"),
            (isinstance(seed, int) and seed >= 0, f"seed must be a whole number of at least 0, got {seed!r}"),
            (jobs is None or (isinstance(jobs, int) and jobs >= 1), f"jobs must be at least 1, got {jobs!r}"),
        ]
    )
    name = name or getattr(make_model, "__name__", type(make_model).__name__).replace("<lambda>", "your model")
    kept = None if store is None else Laps(Path(store))
    given: dict[str, Any] = {"loss": loss, "steps": steps, "lr": lr, "optimiser": optimiser, "batch_size": batch_size}
    with kept or nullcontext():
        with torch.random.fork_rng(devices=[]):
            entry, model = opened(make_model, data, name=name, source=source, points=points, **given)
            with few_threads(model):
                found = census(model, entry.looked_at(LOOKED_AT), gradient=True)
        if kept is not None and kept.carried:
            entry = replace(entry, notes=(*entry.notes, kept.carried))
        on_cpu = all(p.device.type == "cpu" for p in model.parameters())
        race = _Race(entry, range(seed, seed + seeds), kept, (jobs or cores()) if on_cpu else 1, progress)
        done = race.run(_choose(found, cures))
    how = optimiser if isinstance(optimiser, str) else "an optimiser of your own"
    rate = f" at {lr:g}" if isinstance(optimiser, str) else ""
    return _outcome(entry, done, tuple(race.seeds), f"{how}{rate}, batches of {entry.batch_size}")


def judge_of(entry: Entry) -> Judge:
    """How the arms of an entry are compared."""
    perfect = 1.0 if entry.larger else None
    judges = len(entry.data.parts[-1][1])
    return Judge(entry.larger, entry.chance, perfect, judges, entry.task.score.name)


def _choose(found: Census, wanted: Sequence[str] | None) -> tuple[str, ...]:
    """The cures of a race: those asked for, or all that are raced and the first of those advised; and the control."""
    if wanted is None:
        advised = next((each.cures for each in found.findings if each.cures and each.grave), ())
        wanted = (*(name for name, each in CURES.items() if each.raced), BOTH, *advised[:NAMED])
    for name in wanted:
        find(name)  # refuses what is not known
    return tuple(dict.fromkeys((AS_IS, *wanted)))


class _Race:
    """Arms by seeds, rung by rung."""

    def __init__(
        self, entry: Entry, seeds: Sequence[int], store: Laps | None, processes: int, progress: bool | None
    ) -> None:
        self.entry, self.seeds, self.store, self.processes = entry, seeds, store, processes
        self.laps: dict[Job, Lap] = {}
        self._read()
        self.bar = bars(show=progress)

    def run(self, names: Sequence[str]) -> list[Arm]:
        """All arms, the best first; those that were stopped as losers behind those that were not."""
        left, done = list(names), list[Arm]()
        total = len(names) * len(self.seeds) * self.entry.rungs[0]
        with self.bar:
            task = self.bar.add_task("", total=total)
            for steps in self.entry.rungs:
                self._rung(left, steps, task)
                arms = [self._arm(arm, steps) for arm in left]
                _expect_some(arms)
                refused = [arm for arm in arms if arm.refused]
                judge = judge_of(self.entry).among(arms)
                going = _rank(judge, [arm for arm in arms if not arm.refused])
                kept = going if steps == self.entry.steps else _better_half(judge, going)
                done = [*(arm for arm in going if arm not in kept), *done, *refused]
                left = [arm.name for arm in kept]
        return [*kept, *done]

    def _rung(self, names: Sequence[str], steps: int, task: Any) -> None:
        """Bring the networks of these arms to so many steps."""
        asked = [(name, seed, steps) for seed in self.seeds for name in names]
        ahead = [job for job in asked if job not in self.laps]
        rung = self.entry.rungs.index(steps) + 1
        said = f"round {rung} of {len(self.entry.rungs)}: {len(names)} cures, {steps:,} steps"
        made = {"steps": 0}
        self.bar.update(task, total=max(1, len(ahead) * steps), completed=0, description=said)

        def tell(number: int) -> None:
            made["steps"] += number
            self.bar.update(task, completed=made["steps"], description=said)

        def done(lap: Lap) -> None:
            self.laps[lap.job] = lap
            if self.store is not None:
                self.store.add(lap)

        try:
            with self.store.working() if self.store is not None else nullcontext(lambda key: True) as free:
                while ahead:
                    before, jobs = len(self.laps), (job for job in ahead if free((self.entry.key, *job)))
                    crew.run(self._lap, jobs, min(self.processes, len(ahead)), done, tell)
                    self._read()
                    ahead = [job for job in ahead if job not in self.laps]
                    if ahead and len(self.laps) == before:
                        time.sleep(LOOK)  # other processes hold the rest: they finish it, or die
        except KeyboardInterrupt:
            kept = f"finished runs are in {self.store.path}; the same command goes on from there" if self.store else ""
            raise KeyboardInterrupt(kept) from None

    def _read(self) -> None:
        """Take what is kept of this race, by whomever."""
        kept = [] if self.store is None else self.store.all()
        self.laps |= {lap.job: lap for lap in kept if lap.race == self.entry.key}

    def _lap(self, job: Job, tell: crew.Tell) -> Lap:
        """One network; what was measured of it in an earlier round is not measured again."""
        arm, seed, steps = job
        before = [lap for lap in self.laps.values() if lap.job[:2] == (arm, seed) and lap.steps < steps]
        longest = max(before, key=lambda lap: lap.steps, default=None)
        if longest is not None and (longest.refused or longest.stopped):
            return replace(longest, steps=steps)
        return raced(self.entry, job, longest, tell)

    def _arm(self, name: str, steps: int) -> Arm:
        return Arm(name, tuple(self.laps[name, seed, steps] for seed in self.seeds), steps)


def _rank(judge: Judge, arms: Sequence[Arm]) -> list[Arm]:
    """The best first: of equals who diverged least, then no cure, then the cheaper one."""
    return sorted(arms, key=lambda arm: (-judge.mean(arm), arm.stopped, arm.name != AS_IS))


def _better_half(judge: Judge, ranked: Sequence[Arm]) -> list[Arm]:
    """The better half, who is not clearly below the best, and the control."""
    half, best = math.ceil(len(ranked) / 2), ranked[0]
    return [
        arm
        for place, arm in enumerate(ranked)
        if place < half or arm.name == AS_IS or not judge.clearly_below(arm, best)
    ]


def _expect_some(arms: Sequence[Arm]) -> None:
    """Refuse a race in which no network could be trained."""
    if any(arm.scores for arm in arms):
        return
    control = next(arm for arm in arms if arm.name == AS_IS)
    why = control.laps[0].stopped or "no output was finite"
    tried = ", ".join(arm.name for arm in arms if not arm.refused)
    raise AliveError(
        f"no network could be trained, under any cure ({tried}): as it is, {why}",
        "Look at the scale of inputs and targets, the loss and the learning rate",
    )


def _outcome(entry: Entry, arms: Sequence[Arm], seeds: tuple[int, ...], settings: str) -> Outcome:
    finals = [arm for arm in arms if not arm.refused and arm.steps == entry.steps]
    judge = judge_of(entry).among(finals)
    best = finals[0]
    told = [replace(arm, trains=0 if arm.refused else judge.trains(arm, best)) for arm in arms]
    control = next(arm for arm in told if arm.name == AS_IS)
    best = next(arm for arm in told if arm.name == best.name)
    kind, verdict = _judge(entry, judge, control, best)
    if kind in (CURED, BETTER):
        verdict += _near(judge, best, [arm for arm in told if arm.steps == entry.steps and not arm.refused])
    return Outcome(
        kind=kind,
        winner=best.name if kind in (CURED, BETTER) else AS_IS,
        verdict=verdict,
        model=entry.name,
        data=entry.data.name,
        measure=entry.task.score.name,
        chance=entry.chance,
        points=len(entry.data.train_y),
        judges=0 if entry.data.test is None else judge.judges,
        steps=entry.steps,
        seeds=seeds,
        settings=settings,
        arms=tuple(told),
        notes=entry.notes,
    )


def _near(judge: Judge, best: Arm, finals: Sequence[Arm]) -> str:
    """The others that ran to the end and are not clearly below the winner: it may be chance that they are not it."""
    near = [arm.name for arm in finals if arm.name not in (best.name, AS_IS) and not judge.clearly_below(arm, best)]
    return f" Not clearly below it: {'; '.join(near)}." if near else ""


def _judge(entry: Entry, judge: Judge, control: Arm, best: Arm) -> tuple[str, str]:
    """What it all means, and in words."""
    what = entry.task.score.name
    if judge.in_vain(best):
        return IN_VAIN, (
            f"Nothing helps: under no cure does it learn more than chance in {entry.steps:,} steps (the best, "
            f"{best.name}: {what} {scored(best)}, chance {number(entry.chance)}). Look at the targets, at the learning "
            "rate, and whether more steps change it."
        )
    gain = f"{what} {scored(best)} instead of {scored(control)}"
    if judge.chance is None:
        cannot = "Whether it trains cannot be told, for it is not known what one answer for all points can reach; "
        if judge.clearly_below(control, best):
            return BETTER, f"{cannot}{best.name} does better than the network as it is: {gain}."
        return UNKNOWN, f"{cannot}no cure is clearly better than the network as it is ({what} {scored(control)})."
    n = len(control.laps)
    if control.trains == n and not judge.clearly_below(control, best):
        rest = "" if best.name == AS_IS else f"; the best, {best.name}, has {scored(best)}, which is not clearly better"
        return WELL, f"Nothing is wrong: as it is, it trains to {what} {scored(control)}{rest}."
    if control.trains == n:
        return BETTER, f"It trains as it is, and {best.name} trains it better: {gain}."
    how = "does not train" if not control.trains else f"trains in {control.trains} of {n} seeds"
    return CURED, f"As it is, it {how}; {best.name} trains it in {best.trains} of {n} seeds: {gain}."
