"""An experiment as far as it is done, and its claims beside our numbers: what pages and the terminal show."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from . import EXPERIMENTS
from .cell import Cell, Row
from .spec import PARTIAL, Claim, Experiment, Measured


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """One experiment at one scale and architecture: the rows there are, of how many asked for."""

    experiment: Experiment
    scale: str
    architecture: str
    seeds: int
    rows: Sequence[Row]
    asked: int

    @property
    def name(self) -> str:
        """Of its files and of its place in the page."""
        return f"{self.experiment.name}-{self.scale}-{self.architecture}"

    @property
    def complete(self) -> bool:
        """Whether all networks that were asked for are there; only then are its numbers to be believed."""
        return len(self.rows) == self.asked

    @property
    def revisions(self) -> dict[str, int]:
        """Which revision of which engine trained the rows there are."""
        return {row.member.engine: row.cell.revision for row in self.rows}

    @property
    def older(self) -> str:
        """In words, the engines that have changed since they trained the rows; nothing where none has."""
        return older(row.cell for row in self.rows)

    @property
    def command(self) -> str:
        """What made it, as far as alive knows."""
        if self.experiment.name not in EXPERIMENTS:
            return "an experiment of your own"
        variant = "" if self.architecture == "dense" else f" --architecture {self.architecture}"
        return f"alive reproduce {self.experiment.name} --scale {self.scale} --seeds {self.seeds}{variant}"


@dataclass(frozen=True, slots=True)
class Judged:
    """A claim beside our number: reproduced, differs, not decided or not run; partial where networks are missing."""

    claim: Claim
    measured: Measured | None
    verdict: str

    @property
    def ours(self) -> str:
        """Our number with its spread, for people."""
        if self.measured is None:
            return "–"
        spread = f" ± {number(self.measured.spread)}" if self.measured.n > 1 else ""
        return f"{number(self.measured.ours)}{spread}"

    @property
    def published(self) -> str:
        """The paper's number; a dash where it gives none."""
        return "–" if self.claim.published is None else number(self.claim.published)


def number(value: float) -> str:
    """Four figures after the point for shares, whole numbers as they are, one figure for depths.

    >>> number(0.51764), number(60.0), number(61.52)
    ('0.5176', '60', '61.5')
    """
    if value == round(value):
        return str(round(value))
    return f"{value:.4f}" if abs(value) < 10 else f"{value:.1f}"


def judge(part: Part) -> list[Judged]:
    """Every claim of an experiment that belongs to this scale, measured on the rows there are."""
    claims = [claim for claim in part.experiment.claims if part.scale in claim.scales]
    found = [(claim, claim.measure(part.rows)) for claim in claims]
    return [Judged(claim, measured, _verdict(part, claim, measured)) for claim, measured in found]


def _verdict(part: Part, claim: Claim, measured: Measured | None) -> str:
    partial = not part.complete and measured is not None
    return PARTIAL if partial else part.experiment.verdict(claim, measured, part.scale)


def older(cells: Iterable[Cell]) -> str:
    """In words, the engines that have changed since the revision of these cells; nothing where none has."""
    past = {cell.engine: cell.revision for cell in cells if cell.revision != cell.engine.revision}
    words = (f"revision {was} of the engine {engine.name}, now {engine.revision}" for engine, was in past.items())
    return f"trained by {' and '.join(words)}" if past else ""
