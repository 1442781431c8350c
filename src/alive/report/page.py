"""The report: figures as PNG and one self-contained HTML page, every claim a row, from stored rows alone."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from jinja2 import Environment, PackageLoader

from ..errors import AliveError
from ..experiments import EXPERIMENTS, Claim, Experiment, Measured, Row
from ..experiments.papers import PAPERS
from ..files import write_atomically
from .curves import curves, learning
from .heat import heat
from .inside import activations, layers, traces
from .moons import decisions, lives
from .winners import winners

PAGE = "index.html"
DRAW: Mapping[str, Callable[[Sequence[Row], Path], None]] = MappingProxyType(
    {
        "heat": heat,
        "activations": activations,
        "decisions": decisions,
        "lives": lives,
        "traces": traces,
        "layers": layers,
        "winners": winners,
        "curves": curves,
        "learning": learning,
    }
)


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
    def command(self) -> str:
        """What made it, as far as alive knows."""
        if self.experiment.name not in EXPERIMENTS:
            return "an experiment of your own"
        variant = "" if self.architecture == "dense" else f" --architecture {self.architecture}"
        return f"alive reproduce {self.experiment.name} --scale {self.scale} --seeds {self.seeds}{variant}"


@dataclass(frozen=True, slots=True)
class Judged:
    """A claim beside our number."""

    claim: Claim
    measured: Measured | None

    @property
    def verdict(self) -> str:
        """Reproduced, differs or not run."""
        return self.claim.verdict(self.measured)

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
    claims = [claim for claim in part.experiment.claims if claim.scale in (None, part.scale)]
    return [Judged(claim, claim.measure(part.rows)) for claim in claims]


def write_report(
    parts: Sequence[Part], made_on: Sequence[Mapping[str, Any]], folder: Path, *, note: str = ""
) -> list[Path]:
    """Draw all figures into the folder and write the page, the note at its end; returns the files."""
    _make(folder)
    files: list[Path] = []
    sections = []
    for part in parts:
        pictures = []
        for figure in part.experiment.figures if part.rows else ():
            path = folder / f"{part.name}-{figure.name}.png"
            DRAW[figure.kind](part.rows, path)
            files.append(path)
            pictures.append({"source": _inlined(path), "caption": figure.caption})
        sections.append({"part": part, "claims": judge(part), "pictures": pictures})
    environment = Environment(loader=PackageLoader("alive.report", "templates"), autoescape=True)
    page = environment.get_template("report.html").render(sections=sections, made_on=made_on, note=note, papers=PAPERS)
    write_atomically(folder / PAGE, page.encode())
    return [*files, folder / PAGE]


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise AliveError(
            f"cannot make the folder {folder}: {error.strerror}", "Choose a folder that can be written"
        ) from None


def _inlined(path: Path) -> str:
    return f"data:image/png;base64,{b64encode(path.read_bytes()).decode()}"
