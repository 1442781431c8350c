"""How arms are compared, who goes on, who wins, and what that means in words."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..cures import AS_IS, find
from .entry import Entry
from .result import BETTER, CURED, IN_VAIN, UNKNOWN, WELL, Arm, Outcome, number, scored

CLEAR = 2.0  # standard errors: the best of several arms is ahead of the others by one or two through chance alone
LITTLE = 0.1  # of the way from chance to perfect: less is nothing learned


@dataclass(frozen=True, slots=True)
class Judge:
    """How arms are compared: by the mean score over seeds; a network that diverged is worth no more than the worst.

    worst  what that is worth, of all networks of the race that did not diverge, and of chance
    """

    larger: bool
    chance: float | None
    perfect: float | None
    judges: int
    measure: str
    worst: float = -math.inf

    def among(self, arms: Sequence[Arm]) -> Judge:
        """The same, who has seen these arms."""
        known = [
            score for score in (self.chance, *(score for arm in arms for score in arm.scores)) if score is not None
        ]
        return replace(self, worst=min(map(self.worth, known), default=-math.inf))

    def worth(self, score: float | None) -> float:
        """A score on a scale on which more is better."""
        if score is None:
            return self.worst
        return score if self.larger else -score

    def mean(self, arm: Arm) -> float:
        """What an arm is worth."""
        return statistics.fmean(self.worth(lap.score) for lap in arm.laps)

    def noise(self, arm: Arm) -> float:
        """The standard error of an arm's mean score: of so many seeds, and for accuracy of so many points."""
        drawn = 0.0
        if self.measure == "accuracy" and arm.mean is not None and self.judges:
            drawn = math.sqrt(max(0.0, arm.mean * (1 - arm.mean)) / self.judges)
        return math.hypot(arm.spread / math.sqrt(max(1, len(arm.scores))), drawn)

    def clearly_below(self, arm: Arm, best: Arm) -> bool:
        """Whether an arm is worse than another by more than two standard errors of the difference."""
        if not arm.scores:
            return bool(best.scores)
        return self.mean(arm) + CLEAR * math.hypot(self.noise(arm), self.noise(best)) < self.mean(best)

    def trains(self, arm: Arm, best: Arm) -> int | None:
        """Networks that are at least half way from chance to the best arm; none of them where that is at chance too."""
        if self.chance is None:
            return None
        if self.in_vain(best):
            return 0
        bar = self.worth(self.chance) + (self.mean(best) - self.worth(self.chance)) / 2
        return sum(self.worth(score) >= bar for score in arm.scores)

    def in_vain(self, best: Arm) -> bool:
        """Whether even the best has learned next to nothing."""
        if not best.scores or self.chance is None:
            return not best.scores
        least = LITTLE * (self.perfect - self.chance) if self.perfect is not None else 0.0
        return self.mean(best) - self.worth(self.chance) <= max(least, CLEAR * self.noise(best))


def judge_of(entry: Entry) -> Judge:
    """How the arms of an entry are compared."""
    perfect = 1.0 if entry.larger else None
    return Judge(entry.larger, entry.chance, perfect, len(entry.data.parts[-1][1]), entry.task.score.name)


def is_small(name: str) -> bool:
    """Whether an arm changes the steps alone, or nothing."""
    return name == AS_IS or all(each.small for each in find(name))


def rank(judge: Judge, arms: Sequence[Arm]) -> list[Arm]:
    """The best first: of equals who diverged least, then no cure, then the cheaper one."""
    return sorted(arms, key=lambda arm: (-judge.mean(arm), arm.stopped, arm.name != AS_IS))


def better_half(judge: Judge, arms: Sequence[Arm]) -> list[Arm]:
    """Of rank arms the better half, who is not clearly below the best, the control, and the best that is small."""
    better, best = arms[: math.ceil(len(arms) / 2)], arms[0]
    always = (AS_IS, next((arm.name for arm in arms if is_small(arm.name) and arm.name != AS_IS), ""))
    return [arm for arm in arms if arm in better or arm.name in always or not judge.clearly_below(arm, best)]


def winner(judge: Judge, arms: Sequence[Arm]) -> Arm:
    """Of rank arms the best; but one that changes the steps alone, if it trains as many and the network as it is does
    not, or is not clearly below: then the network is not to blame."""
    best = arms[0]
    control = next(arm for arm in arms if arm.name == AS_IS)
    most = judge.trains(best, best) or 0
    trains = (judge.trains(control, best) or 0) >= most
    for arm in (arm for arm in arms if is_small(arm.name) and arm is not control):
        as_many = (judge.trains(arm, best) or 0) >= most
        if as_many and not (trains and judge.clearly_below(arm, best)):
            return arm
    return best


def conclude(
    entry: Entry, going: Sequence[Arm], lost: Sequence[Arm], seeds: tuple[int, ...], settings: str, unfinished: str
) -> Outcome:
    """The outcome of a race: of the arms that are still going, and of those that were stopped or refused."""
    refused = [arm for arm in (*going, *lost) if arm.refused]
    going = [arm for arm in going if arm.laps and not arm.refused]
    judge = judge_of(entry).among(going)
    going = rank(judge, going)
    best = winner(judge, going)
    arms = [*going, *(arm for arm in lost if not arm.refused), *refused]
    top = going[0]
    told = [replace(arm, trains=0 if arm.refused else judge.trains(arm, top)) for arm in arms]
    control, best = (next(arm for arm in told if arm.name == name) for name in (AS_IS, best.name))
    kind, verdict = _word(entry, judge, control, best)
    if kind in (CURED, BETTER):
        names = {arm.name for arm in going} - {AS_IS, best.name}
        verdict += _near(judge, best, [arm for arm in told if arm.name in names])
    if kind == CURED and judge.clearly_below(best, top):
        verdict += f" {top.name} does better still, and changes more than the steps: {scored(top)}."
    return Outcome(
        kind=kind,
        winner=best.name if kind in (CURED, BETTER) else AS_IS,
        verdict=f"{unfinished} {verdict}".strip(),
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


def _near(judge: Judge, best: Arm, others: Sequence[Arm]) -> str:
    """The others that ran as far, train as many and are not clearly below: it may be chance that they do not win."""
    near = [arm.name for arm in others if arm.trains == best.trains and not judge.clearly_below(arm, best)]
    return f" Not clearly below it: {'; '.join(near)}." if near else ""


def _word(entry: Entry, judge: Judge, control: Arm, best: Arm) -> tuple[str, str]:
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
