"""What was run: one lap for each arm, seed and number of steps, kept as they finish."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from ..store import Records

Job = tuple[str, int, int]  # arm, seed, steps


class Mark(NamedTuple):
    """A network on its way: steps made, mean loss since the last mark, score, and which share of it is dead."""

    step: int
    loss: float | None
    score: float | None
    dead_units: float | None
    dead_points: float | None


@dataclass(frozen=True, slots=True)
class Lap:
    """One network, trained for so many steps under one arm and one seed.

    race     what was raced, as a sum of model, data and settings: laps of another race are none of this one's
    marks    how it went
    before, after  what a census with its gradient says of it: verdict, units and points
    refused  why the arm cannot be applied; stopped: why it did not reach the end
    """

    race: str
    arm: str
    seed: int
    steps: int
    marks: tuple[Mark, ...] = ()
    before: dict[str, Any] | None = None
    after: dict[str, Any] | None = None
    refused: str = ""
    stopped: str = ""
    seconds: float = 0.0

    @property
    def job(self) -> Job:
        """What was done."""
        return self.arm, self.seed, self.steps

    def at(self, steps: int) -> Lap:
        """The same, called a lap of so many steps: one that was refused, or stopped, gets no further."""
        return replace(self, steps=steps, seconds=0.0)

    @property
    def key(self) -> tuple[str | int, ...]:
        """What was done, of all races."""
        return self.race, *self.job

    @property
    def score(self) -> float | None:
        """The score at the end; None where it did not get there."""
        return None if self.refused or self.stopped or not self.marks else self.marks[-1].score


class Laps(Records[Lap]):
    """The store of laps, of any number of races."""

    KIND, HOLDS, BEFORE = Lap, "runs of a race", "alive-cure.jsonl"
    FIRST = "Run `alive cure` first"
