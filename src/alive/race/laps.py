"""What was run: one lap for each arm, seed and number of steps, kept in a file as they finish."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import AliveError
from ..files import write_atomically

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

    @property
    def score(self) -> float | None:
        """The score at the end; None where it did not get there."""
        return None if self.refused or self.stopped or not self.marks else self.marks[-1].score


def read_laps(path: Path) -> list[Lap]:
    """The laps of a file of JSON lines; none where there is no file yet."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as error:
        raise AliveError(f"cannot read {path}: {error}", "Name another file") from None
    try:
        return [_lap_of(json.loads(line)) for line in text.splitlines()]
    except (ValueError, TypeError, KeyError) as error:
        raise AliveError(f"{path} holds no runs of a race: {error}", "Name another file, or remove it") from None


def _lap_of(found: dict[str, Any]) -> Lap:
    return Lap(**found | {"marks": tuple(Mark(*mark) for mark in found["marks"])})


def add_lap(path: Path, lap: Lap) -> None:
    """Add a lap to what the file holds now, whoever wrote it."""
    write_laps(path, [*(old for old in read_laps(path) if (old.race, *old.job) != (lap.race, *lap.job)), lap])


def write_laps(path: Path, laps: Iterable[Lap]) -> None:
    """All laps, a line each."""
    write_atomically(path, "".join(f"{json.dumps(asdict(lap), ensure_ascii=False)}\n" for lap in laps).encode())
