"""The command that takes things out of a store: rows as tables, pictures in other formats."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from alive.cli.words import Stored, choice, wrote

from . import values

OUT = "File for rows, folder for pictures; by default rows.csv, rows.parquet or pictures."


def export(
    format: Annotated[str, choice("Rows as csv or parquet, pictures as png, svg or pdf", values.EXPORTS)] = "csv",
    out: Annotated[Path | None, typer.Option(help=OUT)] = None,
    store: Stored = Path("alive.sqlite"),
    traces: Annotated[bool, typer.Option("--traces", help="Of rows: a line for each epoch that was kept.")] = False,
) -> None:
    """Write the rows of a store as CSV or Parquet, or its pictures as PNG, SVG or PDF."""
    from alive.errors import expect

    from .. import study
    from ..run.rows import TABLES

    is_table = format in TABLES
    expect([(is_table or not traces, f"--traces is for rows, and {format} is of pictures")])
    place = out or Path(f"rows.{format}" if is_table else "pictures")
    files = [study.rows(store, place, format, traces=traces)] if is_table else study.pictures(store, place, format)
    for file in files:
        wrote(file)
