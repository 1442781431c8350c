"""The race: all cures that apply to a model, at equal budget, on the user's own data and loss; losers stop early.

Rates, clipping and warm-up come first. All other cures run at the best of these rates, so that no architecture is
blamed for a rate. Who is left goes on from where it stands.
"""

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
from ..cures.rate import Rate
from ..data.calls import few_threads
from ..diagnosis import Census, census
from ..errors import AliveError, expect
from ..interrupts import word
from ..processes import LOOK, cores
from ..screen import Screen, bars
from ..train.losses import Loss
from .crew import Crew, TimeUp
from .entry import Entry, Own, opened
from .judge import better_half, conclude, is_small, judge_of, rank
from .lap import LOOKED_AT, Runs, pace
from .laps import Job, Lap, Laps
from .result import Arm, Outcome, scored

NAMED = 2  # cures of the advice that are raced, as many as a census speaks of
MOST, FEWEST, MINUTES = 1000, 120, 5.0  # steps, where only the time is given
DEARER = 1.5  # times a plain step: one with a penalty, or of a network with more layers
PART = 0.8  # of the time, that the steps are planned for


def cure(
    make_model: Callable[[], nn.Module],
    data: Any,
    *,
    loss: str | Loss | None = None,
    steps: int | None = None,
    minutes: float | None = None,
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
    steps       of every cure that is not stopped as a loser, after a quarter or half of them; by default as many as
                the time allows, 1000 at most
    minutes     after which the race ends and says what it knows; by default 5, and no limit where steps are given
    seeds, seed how many networks of each cure, and the first seed
    optimiser   "adam", "sgd", or a function of the parameters that makes one; `lr` is for those by name
    batch_size  by default that of a DataLoader, else 64
    points      so many training points at most
    cures       only these, by name; "as it is" always runs
    store       a file for finished runs: what was interrupted goes on from there
    jobs        processes; by default one a core. For given steps the result is the same for any number
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
            (
                steps is None or (isinstance(steps, int) and steps >= 1),
                f"steps must be a whole number of at least 1, got {steps!r}",
            ),
            (minutes is None or minutes >= 0, f"minutes must be at least 0, got {minutes!r}"),
        ]
    )
    if minutes is None:
        minutes = math.inf if steps else MINUTES
    until = time.monotonic() + 60 * minutes
    name = name or getattr(make_model, "__name__", type(make_model).__name__).replace("<lambda>", "your model")
    kept = None if store is None else Laps(Path(store))
    given: dict[str, Any] = {"loss": loss, "lr": lr, "optimiser": optimiser, "batch_size": batch_size}
    with kept or nullcontext():
        with torch.random.fork_rng(devices=[]):
            entry, model = opened(make_model, data, name=name, source=source, points=points, **given)
            with few_threads(model):
                found = census(model, entry.looked_at(LOOKED_AT), gradient=True)
        if kept is not None and kept.carried:
            entry = replace(entry, notes=(*entry.notes, kept.carried))
        names = _choose(found, cures)
        on_cpu = all(p.device.type == "cpu" for p in model.parameters())
        race = _Race(entry, range(seed, seed + seeds), kept, (jobs or cores()) if on_cpu else 1)
        race.entry = replace(entry, steps=steps or race.affordable(len(names), 60 * minutes))
        how = optimiser if isinstance(optimiser, str) else "an optimiser of your own"
        rate = f" at {lr:g}" if isinstance(optimiser, str) else ""
        settings = f"{how}{rate}, batches of {entry.batch_size}"
        try:
            with bars(show=progress) as bar:
                race.run(names, until, bar, rates=cures is None)
        except TimeUp:
            why = f"The {minutes:g} minutes are over, and the race is not"
            return race.outcome(settings, f"{why}; the same command goes on from here." if kept else f"{why}.")
        except KeyboardInterrupt:
            if race.has_begun:
                Screen(stderr=True).print(race.outcome(settings, f"So far, {word()}."))
            where = f"finished runs are in {kept.path}; the same command goes on from there" if kept else ""
            raise KeyboardInterrupt(where) from None
        return race.outcome(settings)


def _choose(found: Census, wanted: Sequence[str] | None) -> tuple[str, ...]:
    """The cures of a race: those asked for, or all that are raced and the first of those advised; and the control.

    A race makes every network anew, which is no cure of its own here.
    """
    if wanted is None:
        advised = next((each.cures for each in found.findings if each.cures and each.grave), ())
        advised = tuple(cure.removeprefix("anew, ") for cure in advised[:NAMED])
        wanted = (*(name for name, each in CURES.items() if each.raced), BOTH, *advised)
    for cure in wanted:
        find(cure)  # refuses what is not known
    return tuple(dict.fromkeys((AS_IS, *wanted)))


class _Race:
    """Arms by seeds, round by round.

    left   the arms that are going on, the best first; lost: those that were stopped, or cannot be applied
    """

    def __init__(self, entry: Entry, seeds: Sequence[int], store: Laps | None, processes: int) -> None:
        self.entry, self.seeds, self.store, self.processes = entry, seeds, store, processes
        self.laps: dict[Job, Lap] = {}
        self.left: list[str] = []
        self.lost: list[str] = []
        self._read()

    def affordable(self, arms: int, seconds: float) -> int:
        """The steps that fit into the time; those of an earlier try are taken up again.

        A quarter of them for all arms, then a quarter for half of these, and a half for a quarter of these.
        """
        if known := [lap.steps for lap in self.laps.values()]:
            return 4 * min(known)
        look, step = pace(self.entry)
        every = arms * len(self.seeds) / self.processes
        steps = MOST
        while steps > FEWEST and every * (DEARER * step * steps / 2 + 4 * look) > PART * seconds:
            steps = steps // 16 * 8  # so that the rungs and all looks of fewer steps are those of more
        return steps

    def run(self, names: Sequence[str], until: float, bar: Any, *, rates: bool) -> None:
        """All arms; with `rates`, first those that change the steps alone, then all others at the best rate."""
        first = [name for name in names if not rates or is_small(name)]
        others = [name for name in names if name not in first]
        first_rung, *rungs = self.entry.rungs
        self.bar, self.task, self.made, self.said = bar, bar.add_task(""), 0, ""
        with Crew(Runs(self.entry, self.processes), self.processes, until) as self.crew:
            self._round(first, first_rung, len(others))
            if others:
                self._round([self._at_best_rate(name) for name in others], first_rung)
            self._expect_some()
            for steps in rungs:
                self._stop_losers()
                self._round(list(self.left), steps)

    @property
    def has_begun(self) -> bool:
        """Whether anything can be said of it."""
        return bool(self._arm(AS_IS).laps)

    def outcome(self, settings: str, unfinished: str = "") -> Outcome:
        """What came of it, as far as it got."""
        if not self.has_begun:
            raise AliveError(
                "the time was over before one network had made its first quarter of the steps",
                "Give it more --minutes, fewer --points, a smaller --batch-size, or single cures by --cure",
            )
        known = dict.fromkeys((*self.left, *(arm for arm, seed, _ in self.laps if seed in self.seeds)))
        going = [self._arm(name) for name in known if name not in self.lost]
        lost = [self._arm(name) for name in self.lost]
        return conclude(self.entry, going, lost, tuple(self.seeds), settings, unfinished)

    def _round(self, names: list[str], steps: int, waiting: int = 0) -> None:
        """Bring the networks of these arms to so many steps; `waiting` arms do so in the next round."""
        self.left = list(dict.fromkeys((*self.left, *names)))
        asked = [(name, seed, steps) for seed in self.seeds for name in names]
        ahead = [job for job in asked if job not in self.laps]
        self._plan(steps, len(ahead), waiting)
        working = self.store.working() if self.store is not None else nullcontext(lambda key: True)
        with working as free:

            def take(job: Job) -> Lap | None:
                if not free((self.entry.key, *job)):
                    raise KeyError(job)
                before = [lap for lap in self.laps.values() if lap.job[:2] == job[:2] and lap.steps < steps]
                return max(before, key=lambda lap: lap.steps, default=None)

            while ahead:
                before = len(self.laps)
                self.crew.run(ahead, take, self._done, self._tell)
                self._read()
                ahead = [job for job in ahead if job not in self.laps]
                if ahead and len(self.laps) == before:
                    self._tell(0)
                    time.sleep(LOOK)  # other processes hold the rest: they finish it, or die

    def _at_best_rate(self, name: str) -> str:
        """An arm at the rate that learns, and clearly more than that of the model's owner, if there is one."""
        if any(isinstance(each, Rate) for each in find(name)):
            return name
        rates = [each for each in self.left if each == AS_IS or isinstance(CURES.get(each), Rate)]
        arms = [arm for arm in map(self._arm, rates) if arm.laps]
        judge = judge_of(self.entry).among(arms)
        best = rank(judge, arms)[0]
        learns = not judge.in_vain(best) and judge.clearly_below(self._arm(AS_IS), best)
        return f"{name}, {best.name}" if learns else name

    def _stop_losers(self) -> None:
        arms = [self._arm(name) for name in self.left]
        judge = judge_of(self.entry).among(arms)
        going = rank(judge, [arm for arm in arms if not arm.refused])
        kept = [arm.name for arm in better_half(judge, going)]
        lost = [arm.name for arm in going if arm.name not in kept]
        self.left, self.lost = kept, [*lost, *self.lost, *(arm.name for arm in arms if arm.refused)]

    def _arm(self, name: str) -> Arm:
        """An arm as far as all its networks are, or most."""
        by_steps: dict[int, list[Lap]] = {}
        for seed in self.seeds:
            for lap in (lap for lap in self.laps.values() if (lap.arm, lap.seed) == (name, seed)):
                by_steps.setdefault(lap.steps, []).append(lap)
        steps = max(by_steps, key=lambda steps: (len(by_steps[steps]), steps), default=0)
        return Arm(name, tuple(by_steps.get(steps, ())), steps)

    def _expect_some(self) -> None:
        """Refuse a race in which no network could be trained."""
        arms = [arm for arm in map(self._arm, self.left) if not arm.refused]
        if any(arm.scores for arm in arms):
            return
        why = self._arm(AS_IS).laps[0].stopped or "no output was finite"
        raise AliveError(
            f"no network could be trained, under any cure ({', '.join(arm.name for arm in arms)}): as it is, {why}",
            "Look at the scale of inputs and targets, the loss and the learning rate",
        )

    def _plan(self, steps: int, networks: int, waiting: int) -> None:
        """One bar for the whole race: what is known to be ahead, and of later rounds that half of the arms go on."""
        step = steps if steps == self.entry.rungs[0] else steps // 2
        arms, later = len(self.left) + waiting, [rung for rung in self.entry.rungs if rung > steps]
        ahead = step * (networks + waiting * len(self.seeds))
        for place, rung in enumerate(later, start=1):
            ahead += max(1, math.ceil(arms / 2**place)) * len(self.seeds) * (rung // 2)
        self.bar.update(self.task, total=max(1, self.made + ahead), completed=self.made)

    def _tell(self, steps: int) -> None:
        self.made += steps
        self.bar.update(self.task, completed=self.made, description=self.said)

    def _done(self, lap: Lap) -> None:
        self.laps[lap.job] = lap
        if self.store is not None:
            self.store.add(lap)
        self.said = f"{len(self.left)} cures, {lap.steps:,} steps"
        arms = [arm for arm in map(self._arm, self.left) if arm.scores]
        if arms:
            best = rank(judge_of(self.entry).among(arms), arms)[0]
            self.said += f"; so far {best.name}: {self.entry.task.score.name} {scored(best)}"

    def _read(self) -> None:
        """Take what is kept of this race, by whomever."""
        kept = [] if self.store is None else self.store.all()
        self.laps |= {lap.job: lap for lap in kept if lap.race == self.entry.key}
