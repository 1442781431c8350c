"""The evidence: one page with every figure, table and claim of the papers and ours beside it, or what it would take."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from jinja2 import Environment, PackageLoader

from alive._version import __version__
from alive.files import write_atomically

from ..experiments.papers import PAPERS
from ..experiments.recorded import Book
from ..experiments.spec import REPRODUCED
from .ledger import VERDICTS, Section, Source, order, paper_of, sections
from .page import DRAW
from .save import inlined, make_folder

PAGE = "evidence.html"


@dataclass(frozen=True, slots=True)
class Picture:
    """A figure of rows in a store, as a data URI."""

    source: str
    caption: str


def write_evidence(sources: Sequence[Source], book: Book, folder: Path) -> Path:
    """Write the page into the folder, with the pictures of the sources inside it; returns its path."""
    make_folder(folder)
    found = sections(sources, book)
    pictures = {each.name: _pictures(each.name, sources) for each in found}
    environment = Environment(loader=PackageLoader("alive_papers.report", "templates"), autoescape=True)
    page = environment.get_template("evidence.html").render(
        sections=found,
        pictures=pictures,
        papers=_papers(found),
        cited=PAPERS,
        index=_index(found),
        summary=summary(found),
        verdicts=VERDICTS,
        version=__version__,
    )
    write_atomically(folder / PAGE, page.encode())
    return folder / PAGE


def summary(found: Iterable[Section]) -> dict[str, dict[str, int]]:
    """For each paper how many claims have which verdict, and how many are reproduced at the paper's scale."""
    counts: dict[str, dict[str, int]] = {}
    for line in (line for section in found for line in section.lines):
        count = counts.setdefault(line.paper, dict.fromkeys((*VERDICTS, "full"), 0))
        count[line.verdict] += 1
        count["full"] += line.verdict == REPRODUCED and line.lead is not None and line.lead.number.scale == "paper"
    return counts


def _index(found: Sequence[Section]) -> dict[str, dict[str, str]]:
    """For each paper its figures, tables and theorems, and the section that shows each."""
    places = {each: section.name for section in reversed(found) for each in section.shows}
    index: dict[str, dict[str, str]] = {}
    for each in sorted(places, key=order):
        index.setdefault(paper_of(each), {})[each] = places[each]
    return index


def _papers(found: Sequence[Section]) -> dict[str, str]:
    """Names of the papers."""
    return {section.paper: section.subject.paper.partition(",")[0] for section in found}


def _pictures(name: str, sources: Sequence[Source]) -> list[Picture]:
    """The figures of an experiment, of each scale and architecture in the store that has most of it."""
    most: dict[str, Source] = {}
    for source in sources:
        rows = len(source.part.rows)
        held = len(most[source.part.name].part.rows) if source.part.name in most else 0
        if source.part.experiment.name == name and rows > held:
            most[source.part.name] = source
    pictures = []
    with TemporaryDirectory() as folder:
        for source in most.values():
            part, path = source.part, Path(folder) / "figure.svg"
            some = "" if part.complete else f"; partial, {len(part.rows):,} of {part.asked:,} networks"
            where = part.scale + ("" if part.architecture == "dense" else f", {part.architecture}")
            for figure in part.experiment.figures:
                DRAW[figure.kind](part.rows, path)
                pictures.append(Picture(inlined(path), f"{figure.caption} ({where}{some})"))
    return pictures
