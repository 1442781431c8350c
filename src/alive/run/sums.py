"""Checksums of what a store holds: a bit that flips on a disk must not become a number in a report.

A store of an earlier version has no sums: of its rows only the form is known to be right.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sqlite3 import Connection

TABLE = "CREATE TABLE IF NOT EXISTS sums (name TEXT PRIMARY KEY, sum TEXT NOT NULL) WITHOUT ROWID"
CELL = "key, settings, seed, result, weights, versions, hardware, seconds, finished"
RUN = "experiment, scale, architecture, seeds, asked"
FORMS = {"cells": (str, str, int, str, bytes, str, str, float, float), "runs": (str, str, str, int, float)}


def sum_of(values: tuple[Any, ...]) -> str:
    """The sum of a row, of whatever types its columns have turned into."""
    return hashlib.sha256(repr(values).encode(errors="backslashreplace")).hexdigest()


def name_of(run: tuple[Any, ...]) -> str:
    """Under which name the sum of a run is kept; cells have their keys."""
    return "run " + " ".join(map(str, run[:3]))


def write_sum(db: Connection, name: str, values: tuple[Any, ...]) -> None:
    """Keep the sum of a row that was just written."""
    db.execute("INSERT OR REPLACE INTO sums VALUES (?, ?)", (name, sum_of(values)))


def has_sums(db: Connection) -> bool:
    """Whether the store is of a version that keeps sums."""
    return db.execute("SELECT 1 FROM sqlite_master WHERE name = 'sums'").fetchone() is not None


def fault_of(table: str, values: tuple[Any, ...], kept: str | None) -> str:
    """What is wrong with a row, given the sum that was kept of it; nothing if all is well, as far as can be told."""
    if kept is not None and kept != sum_of(values):
        return "it is not what was written"
    wrong = [not isinstance(value, form) for value, form in zip(values, FORMS[table], strict=True)]
    if table == "cells":
        wrong[4] = wrong[4] and values[4] is not None
        settings = str(values[1]).encode(errors="replace")
        if not any(wrong) and hashlib.sha256(settings).hexdigest()[:32] != values[0]:
            return "its settings are those of another row"
    return "a column is of another kind" if any(wrong) else ""


def faults(db: Connection) -> Iterator[str]:
    """All that is damaged, in words: the file itself, a row, or the order of rows."""
    said = db.execute("PRAGMA integrity_check(1)").fetchone()[0]
    if said != "ok":
        yield " ".join(str(said).split())
        return
    sums = dict(db.execute("SELECT name, sum FROM sums").fetchall()) if has_sums(db) else {}
    before = ""
    for values in db.execute(f"SELECT {CELL} FROM cells"):
        if fault := fault_of("cells", values, sums.pop(values[0], None)):
            yield f"row {values[0]}: {fault}"
        elif values[0] <= before:
            yield f"row {values[0]}: it is out of order"
        else:
            before = values[0]
    for values in db.execute(f"SELECT {RUN} FROM runs"):
        if fault := fault_of("runs", values, sums.pop(name_of(values), None)):
            yield f"the run {values[0]!r}: {fault}"
