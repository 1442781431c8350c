"""The trials as tables: for a terminal, and in Markdown for docs/advice.md."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from rich.table import Table

from alive.cures import ORDER
from alive.errors import AliveError
from alive.files import write_atomically

from .book import Book, Summary
from .evidence import ranking, shown_by
from .patients import PATIENTS
from .trial import ADVICE, HEALTHY, TRIED, Trial

START, END = "<!-- measured -->", "<!-- /measured -->"


def listing() -> Table:
    """The patients."""
    grid = Table(title="Patients: networks that do not train as their owner has them")
    for column in ("patient", "kind", "why it does not train"):
        grid.add_column(column)
    for patient in PATIENTS.values():
        grid.add_row(patient.name, patient.kind, patient.cause)
    return grid


def table(book: Book, names: Sequence[str]) -> Table:
    """Cures by patients: the mean score with its spread, and in how many seeds it trains."""
    grid = Table(caption="score on test points (networks that train)")
    grid.add_column("cure")
    for name in names:
        grid.add_column(name, justify="right")
    for cure in tried(book, names):
        grid.add_row(cure, *(_cell(book.summary(name, cure)) for name in names))
    if ADVICE in tried(book, names):
        grid.add_row("which was", *(_said(book.of(name, ADVICE), "note") for name in names), style="dim")
    grid.add_section()
    grid.add_row("trains from", *(f"{book.bar(name):.2f}" for name in names), style="dim")
    return grid


def tried(book: Book, names: Sequence[str]) -> list[str]:
    """The cures that were tried on some of these patients, in their order."""
    known = {row.cure for row in book.rows if row.patient in names}
    return [cure for cure in (HEALTHY, *TRIED, ADVICE) if cure in known]


def _cell(summary: Summary) -> str:
    if not summary.scores:
        return "·"
    spread = f" ± {summary.spread:.2f}" if len(summary.scores) > 1 else ""
    return f"{summary.mean:.2f}{spread} ({summary.trains})"


def document(book: Book, path: Path) -> None:
    """Write the tables into a document, between its two marks."""
    text = path.read_text(encoding="utf-8")
    if text.count(START) != 1 or text.count(END) != 1:
        raise AliveError(f"{path} has no place for the tables", f"Write a line {START} and a line {END} into it")
    before, after = text.split(START)[0], text.split(END)[1]
    write_atomically(path, f"{before}{START}\n\n{markdown(book)}\n{END}{after}".encode())


def markdown(book: Book) -> str:
    """All tables: a ward each, the cures over all, their order for each finding, and what the first choice did."""
    wards = [_ward(book, ward) for ward in _wards(book)]
    return "\n".join([_made(book), *wards, _overall(book), _orders(book), _choices(book)])


def _made(book: Book) -> str:
    seeds = len({row.seed for row in book.rows if row.cure != ADVICE})
    networks = sum(row.score is not None for row in book.rows)
    return f"`{book.command}`, {book.date}, {seeds} seeds, {networks} networks; {book.hardware}; {book.versions}.\n"


def _wards(book: Book) -> list[str]:
    return list(dict.fromkeys(PATIENTS[name].ward for name in book.patients()))


def _ward(book: Book, ward: str) -> str:
    """One table: cures by the patients of a ward. Bold where every network trains."""
    names = [name for name in book.patients() if PATIENTS[name].ward == ward]
    lines = [f"## {ward}\n", *(f"- **{name}** ({_of(name)}): {PATIENTS[name].cause}." for name in names), ""]
    lines += [_line("cure", *names), _line("---", *["--:"] * len(names))]
    for cure in tried(book, names):
        if cure != ADVICE:
            lines.append(_line(cure, *(_bold(book.summary(name, cure)) for name in names)))
    lines.append(_line("*trains from*", *(f"*{book.bar(name):.2f}*" for name in names)))
    return "\n".join([*lines, ""])


def _of(name: str) -> str:
    patient = PATIENTS[name]
    return f"{patient.kind}; {patient.sample.name}, {patient.sample.measure}"


def _bold(summary: Summary) -> str:
    cell = _cell(summary)
    return f"**{cell}**" if summary.scores and summary.trains == len(summary.scores) else cell


def _overall(book: Book) -> str:
    """Each cure over all patients: how many networks it trains, and whose."""
    lines = ["## What each cure does, over all patients\n", _line("cure", "trains", "all three of", "some of")]
    lines.append(_line("---", "--:", "---", "---"))
    for cure in TRIED:
        told = [book.summary(name, cure) for name in book.patients()]
        all_of = [each.patient for each in told if each.scores and each.trains == len(each.scores)]
        some_of = [each.patient for each in told if 0 < each.trains < len(each.scores)]
        count = f"{sum(each.trains for each in told)} of {sum(len(each.scores) for each in told)}"
        lines.append(_line(cure, count, ", ".join(all_of) or "·", ", ".join(some_of) or "·"))
    return "\n".join([*lines, ""])


def _orders(book: Book) -> str:
    lines = ["## Which cure for which finding\n", _line("finding", "seen in", "cures, the best first")]
    lines.append(_line("---", "---", "---"))
    lines += [_line(finding, ", ".join(shown_by(finding)), "; ".join(ranking(book, finding))) for finding in ORDER]
    return "\n".join([*lines, ""])


def _choices(book: Book) -> str:
    """What the advice named first for each patient, and what came of it."""
    head = [
        "## The advice's first choice, on seeds that no order was chosen on\n",
        _line("patient", "found", "first choice", "score", "trains"),
    ]
    head.append(_line("---", "---", "---", "--:", "--:"))
    lines, cured, runs, trained = [], 0, 0, 0
    for name in book.patients():
        rows, told = book.of(name, ADVICE), book.summary(name, ADVICE)
        if not rows:
            continue
        cured, runs, trained = cured + (told.trains == len(rows)), runs + len(rows), trained + told.trains
        found, named = _said(rows, "finding"), _said(rows, "note")
        score = re.sub(r" \(\d+\)$", "", _cell(told))
        lines.append(_line(name, found, named, score, f"{told.trains} of {len(rows)}"))
    sums = f"It trains every network of {cured} of the {len(lines)} patients; {trained} of {runs} networks.\n"
    return "\n".join([*head, *lines, "", sums])


def _said(rows: Sequence[Trial], of: str) -> str:
    """What was said in some trials: once where it was always the same."""
    return " / ".join(dict.fromkeys(getattr(row, of) for row in rows))


def _line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"
