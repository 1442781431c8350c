"""The command that shows what the advice was measured on, and measures it again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from alive.cli.words import completing, interruptible, put, show
from alive.errors import expect, expect_one_of

from . import values

if TYPE_CHECKING:
    from ..clinic import Trial


def clinic(
    patients: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="PATIENT",
            help="Such as thin-deep; without one, a list of all and what was measured.",
            autocompletion=completing(values.PATIENTS),
        ),
    ] = None,
    everyone: Annotated[bool, typer.Option("--all", help="Treat every patient.")] = False,
    cures: Annotated[
        list[str] | None, typer.Option("--cure", help="Only this cure, such as mirrored; may be given several times.")
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Networks of each kind.")] = 3,
    seed: Annotated[int, typer.Option(min=0, help="The first seed; the advice has those from ten later on.")] = 0,
    rows: Annotated[Path, typer.Option("--rows", help="File that keeps finished trials.")] = Path(
        "alive-clinic.sqlite"
    ),
    record: Annotated[Path | None, typer.Option(hidden=True, help="File for the book of all rows.")] = None,
    order: Annotated[Path | None, typer.Option(hidden=True, help="File for the order of the cures.")] = None,
    document: Annotated[Path | None, typer.Option(hidden=True, help="Document to write the tables into.")] = None,
) -> None:
    """Try cures on broken networks of many kinds; what is finished is kept, and not tried again."""
    from .. import clinic as ward
    from ..clinic import evidence, tables

    for name in patients or []:
        expect_one_of("patient", name, ward.PATIENTS)
    for name in cures or []:
        expect_one_of("cure", name, [*ward.TRIED, ward.ADVICE])
    expect([(not (patients and everyone), "name patients or say --all, not both")])
    names = list(ward.PATIENTS) if everyone else patients or []
    if not names and not (record or order or document):
        expect([(not cures, "--cure needs a patient; name one, or say --all")])
        _show_recorded()
        return
    if names:
        asked = ward.trials(names, cures or [*ward.TRIED, ward.ADVICE], range(seed, seed + seeds))
        with interruptible():
            done = _treated(asked, rows)
        book = ward.Book(tuple(done))
        for part in _wards(names):
            show(tables.table(book, part))
    if record is not None:
        with ward.Trials(rows) as store:
            ward.made(store.all(), f"alive clinic --all --seeds {seeds} --seed {seed}").write(record)
        put(record)
    if order is not None:
        evidence.write_order(ward.Book.read(record), order)
        put(order)
    if document is not None:
        tables.document(ward.Book.read(record), document)
        put(document)


def _show_recorded() -> None:
    """The patients, and the numbers that come with the package."""
    from ..clinic import Book, tables

    book = Book.read()
    show(tables.listing())
    for part in _wards(book.patients()):
        show(tables.table(book, part))
    put(f"Measured {book.date} by `{book.command}`. `alive clinic PATIENT` measures it anew.")


def _wards(names: Sequence[str]) -> list[list[str]]:
    """The patients by what went wrong with them, few enough for one table."""
    from ..clinic import PATIENTS

    wards: dict[str, list[str]] = {}
    for name in PATIENTS:
        if name in names:
            wards.setdefault(PATIENTS[name].ward, []).append(name)
    return [part[first : first + 4] for part in wards.values() for first in range(0, len(part), 4)]


def _treated(asked: Sequence[tuple[str, str, int]], path: Path) -> list[Trial]:
    """Do the trials, with a bar; Ctrl-C says what is kept."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from alive.screen import Screen

    from ..clinic import Trials, run

    columns = (TextColumn("{task.description:>40}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Trials(path) as store, Progress(*columns, console=Screen(stderr=True)) as bars:
        if store.carried:
            bars.console.print(store.carried, highlight=False, soft_wrap=True)
        task = bars.add_task("", total=len(asked))

        def tick(row: Trial) -> None:
            bars.update(task, advance=1, description=f"{row.patient}, {row.cure}")

        try:
            return run(asked, store, tick)
        except KeyboardInterrupt:
            kept = f"finished trials are in {store.path}; the same command goes on from there"
            raise KeyboardInterrupt(kept) from None
