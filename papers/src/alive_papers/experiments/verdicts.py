"""An experiment as far as it is done, and its claims beside our numbers: what pages and the terminal show."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from . import EXPERIMENTS
from .cell import Cell, Row
from .spec import PARTIAL, Claim, Experiment, Measured


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """One experiment at one scale and architecture: the rows there are, of the cells asked for."""

    experiment: Experiment
    scale: str
    architecture: str
    seeds: int
    rows: Sequence[Row]
    cells: Sequence[Cell]

    @property
    def asked(self) -> int:
        """How many networks there are to be."""
        return len(self.cells)

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

    def read_by(self, claim: Claim) -> Part:
        """What a claim is measured on: the cells it reads, of those seeds that have all of them; else of all seeds."""
        done, by_seed = {row.cell.key for row in self.rows}, defaultdict[int, list[Cell]](list)
        for cell in claim.reads(self.cells):
            by_seed[cell.member.seed].append(cell)
        whole = [some for some in by_seed.values() if done.issuperset(cell.key for cell in some)]
        cells = [cell for some in (whole or by_seed.values()) for cell in some]
        wanted = {cell.key for cell in cells}
        rows = [row for row in self.rows if row.cell.key in wanted]
        return replace(self, seeds=len(whole) or self.seeds, rows=rows, cells=cells)


@dataclass(frozen=True, slots=True)
class Judged:
    """A claim beside our number: reproduced, differs, not decided or not run; partial where networks are missing."""

    claim: Claim
    measured: Measured | None
    verdict: str
    part: Part

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
    return [_judge(part, claim) for claim in part.experiment.claims if part.scale in claim.scales]


def _judge(part: Part, claim: Claim) -> Judged:
    some = part.read_by(claim)
    measured = claim.measure(some.rows) if some.rows else None
    partial = not some.complete and measured is not None
    return Judged(claim, measured, PARTIAL if partial else part.experiment.verdict(claim, measured, part.scale), some)


def older(cells: Iterable[Cell]) -> str:
    """In words, the engines that have changed since the revision of these cells; nothing where none has."""
    past = {cell.engine: cell.revision for cell in cells if cell.revision != cell.engine.revision}
    words = (f"revision {was} of the engine {engine.name}, now {engine.revision}" for engine, was in past.items())
    return f"trained by {' and '.join(words)}" if past else ""
