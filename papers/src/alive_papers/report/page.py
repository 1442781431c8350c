"""The report: figures as PNG and one self-contained HTML page, every claim a row, from stored rows alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from jinja2 import Environment, PackageLoader

from alive.files import write_atomically

from ..experiments import Row
from ..experiments.papers import PAPERS
from ..experiments.verdicts import Part, judge
from .curves import curves, learning, rates
from .dying import courses, measures
from .heat import heat
from .inside import activations, layers, traces
from .moons import decisions, lives
from .save import inlined, make_folder
from .tables import depths, ranks
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
        "measures": measures,
        "courses": courses,
        "ranks": ranks,
        "depths": depths,
        "rates": rates,
    }
)


def write_pictures(parts: Sequence[Part], folder: Path, kind: str) -> list[Path]:
    """Draw all figures into the folder, as png, svg or pdf; returns the files."""
    make_folder(folder)
    files = []
    for part in parts:
        for figure in part.experiment.figures if part.rows else ():
            files.append(folder / f"{part.name}-{figure.name}.{kind}")
            DRAW[figure.kind](part.rows, files[-1])
    return files


def write_report(
    parts: Sequence[Part], made_on: Sequence[Mapping[str, Any]], folder: Path, *, note: str = ""
) -> list[Path]:
    """Draw all figures into the folder and write the page, the note at its end; returns the files."""
    make_folder(folder)
    files: list[Path] = []
    sections = []
    for part in parts:
        pictures = []
        for figure in part.experiment.figures if part.rows else ():
            path = folder / f"{part.name}-{figure.name}.png"
            DRAW[figure.kind](part.rows, path)
            files.append(path)
            pictures.append({"source": inlined(path), "caption": figure.caption})
        sections.append({"part": part, "claims": judge(part), "pictures": pictures})
    environment = Environment(loader=PackageLoader("alive_papers.report", "templates"), autoescape=True)
    page = environment.get_template("report.html").render(sections=sections, made_on=made_on, note=note, papers=PAPERS)
    write_atomically(folder / PAGE, page.encode())
    return [*files, folder / PAGE]
