"""The store of experiments: a row a finished cell, and what was asked for."""

from __future__ import annotations

import hashlib
import json
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from alive.errors import AliveError
from alive.store import Database
from alive.store.database import sum_of

from ..experiments import Cell, Row
from ..experiments.cell import canonical
from .machine import hardware, versions

CELL = "key, settings, seed, result, weights, versions, hardware, seconds, finished"
RUN = "experiment, scale, architecture, seeds, asked"
FORMS = {"cells": (str, str, int, str, bytes, str, str, float, float), "runs": (str, str, str, int, float)}


@dataclass(frozen=True, slots=True)
class Run:
    """An experiment that was asked for, at the most seeds so far."""

    experiment: str
    scale: str
    architecture: str
    seeds: int


class Store(Database):
    """Finished networks of experiments. Of a row without a sum, of an early version, only the form is looked at."""

    TABLES: ClassVar[dict[str, str]] = {
        "cells": """CREATE TABLE IF NOT EXISTS cells (
            key TEXT PRIMARY KEY, settings TEXT NOT NULL, seed INTEGER NOT NULL, result TEXT NOT NULL, weights BLOB,
            versions TEXT NOT NULL, hardware TEXT NOT NULL, seconds REAL NOT NULL, finished REAL NOT NULL
        ) WITHOUT ROWID""",
        "runs": """CREATE TABLE IF NOT EXISTS runs (
            experiment TEXT NOT NULL, scale TEXT NOT NULL, architecture TEXT NOT NULL, seeds INTEGER NOT NULL,
            asked REAL NOT NULL, PRIMARY KEY (experiment, scale, architecture)
        ) WITHOUT ROWID""",
    }
    LATER: ClassVar[dict[str, str]] = {
        "sums": "CREATE TABLE IF NOT EXISTS sums (name TEXT PRIMARY KEY, sum TEXT NOT NULL) WITHOUT ROWID"
    }

    def rows(self, cells: Iterable[Cell]) -> list[Row]:
        """The rows of these cells, as far as they are done, in the order of the cells."""
        found = []
        with self._guarded():
            kept = "(SELECT sum FROM sums WHERE name = key)" if "sums" in self._tables() else "NULL"
            for cell in cells:
                for *values, total in self._db.execute(f"SELECT {CELL}, {kept} FROM cells WHERE key = ?", (cell.key,)):
                    found.append(self._read(cell, tuple(values), total))
        return found

    def _read(self, cell: Cell, values: tuple[Any, ...], total: str | None) -> Row:
        """One row; refuses one that another version wrote, or that is damaged."""
        try:
            row = Row.read(cell, json.loads(values[3]), values[4])
            if fault := _fault_of("cells", values, total):
                raise ValueError(fault)
            return row
        except (ValueError, TypeError) as error:  # among them what json cannot read
            net = f"{cell.label} {cell.member.depth}x{cell.member.width}, seed {cell.member.seed}"
            raise AliveError(
                f"{self.path}: the row of {net} cannot be read ({error}); another version of alive wrote it, or it is "
                "damaged",
                f"Use the alive that wrote it; if it is damaged: {self._copy[0].lower()}{self._copy[1:]}",
            ) from None

    def kept(self) -> list[dict[str, Any]]:
        """Every finished row as plain values: its settings, result, versions and hardware; not its weights."""
        columns = "key, settings, seed, result, versions, hardware, seconds, finished"
        with self._guarded():
            found = self._db.execute(f"SELECT {columns} FROM cells ORDER BY finished, key").fetchall()
        return [
            {"key": key, "seed": seed, "settings": json.loads(settings), "result": json.loads(result),
             "seconds": seconds, "finished": finished, "versions": json.loads(made), "hardware": json.loads(hard)}
            for key, settings, seed, result, made, hard, seconds, finished in found
        ]  # fmt: skip

    def holds(self, *, but: Collection[str] = ()) -> dict[str, int]:
        """How many finished networks of which method it holds, but for those of some keys."""
        with self._guarded():
            stored = self._db.execute("SELECT key, settings FROM cells").fetchall()
        return dict(Counter(json.loads(text)["member"]["method"] for key, text in stored if key not in but))

    def write(
        self, rows: Sequence[Row], *, seconds: float | Sequence[float], on: dict[str, str | int] | None = None
    ) -> None:
        """Add finished rows, and how many seconds each took; a row that is there already stays as it is.

        `on` is the hardware that made them, by default that of this process.
        """
        made, where, now = canonical(versions()), canonical(on or hardware()), time.time()
        each = seconds if isinstance(seconds, Sequence) else [seconds] * len(rows)
        with self._transaction() as db:
            for row, took in zip(rows, each, strict=True):
                key, settings, result = row.cell.key, canonical(row.cell.settings), canonical(row.result)
                values = (key, settings, row.member.seed, result, row.weights, made, where, float(took), now)
                if db.execute("INSERT OR IGNORE INTO cells VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", values).rowcount:
                    self._write_sum(key, values)
                db.execute("DELETE FROM claims WHERE key = ?", (key,))

    def ask(self, run: Run) -> None:
        """Remember what was asked for, so that a report knows what to show."""
        with self._transaction() as db:
            db.execute(
                "INSERT INTO runs VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET seeds = max(seeds, excluded.seeds)",
                (run.experiment, run.scale, run.architecture, run.seeds, time.time()),
            )
            for values in db.execute(f"SELECT {RUN} FROM runs").fetchall():
                if values[:3] == (run.experiment, run.scale, run.architecture):
                    self._write_sum(_name_of(values), values)

    def runs(self) -> list[Run]:
        """All that was asked for, oldest first."""
        with self._guarded():
            found = self._db.execute(f"SELECT {RUN} FROM runs ORDER BY asked, experiment").fetchall()
        for values in found:
            if fault := _fault_of("runs", values, None):
                raise AliveError(f"the store {self.path} is damaged: the run {values[0]!r}: {fault}", self._copy)
        return [Run(*values[:4]) for values in found]

    def made_on(self) -> list[dict[str, Any]]:
        """The machines and versions that made the rows: each kind once."""
        with self._guarded():
            kinds = self._db.execute("SELECT DISTINCT hardware, versions FROM cells ORDER BY 1, 2").fetchall()
        return [json.loads(hard) | json.loads(soft) for hard, soft in kinds]

    def made(self, keys: Iterable[str]) -> list[tuple[float, dict[str, Any], dict[str, Any]]]:
        """When, on what and with what the rows of these keys were made: the last moment of each kind, newest first."""
        wanted, last = set(keys), dict[tuple[str, str], float]()
        with self._guarded():
            for key, moment, *kind in self._db.execute("SELECT key, finished, hardware, versions FROM cells"):
                if key in wanted:
                    last[kind[0], kind[1]] = max(moment, last.get((kind[0], kind[1]), moment))
        newest = sorted(last.items(), key=lambda each: -each[1])
        return [(moment, json.loads(hard), json.loads(soft)) for (hard, soft), moment in newest]

    def _write_sum(self, name: str, values: tuple[Any, ...]) -> None:
        """Keep the sum of a row that was just written."""
        self._db.execute("INSERT OR REPLACE INTO sums VALUES (?, ?)", (name, sum_of(values)))

    def _faults(self) -> Iterator[str]:
        """A row that is damaged, or the order of rows."""
        sums = dict(self._db.execute("SELECT name, sum FROM sums").fetchall()) if "sums" in self._tables() else {}
        before = ""
        for values in self._db.execute(f"SELECT {CELL} FROM cells"):
            if fault := _fault_of("cells", values, sums.pop(values[0], None)):
                yield f"row {values[0]}: {fault}"
            elif values[0] <= before:
                yield f"row {values[0]}: it is out of order"
            else:
                before = values[0]
        for values in self._db.execute(f"SELECT {RUN} FROM runs"):
            if fault := _fault_of("runs", values, sums.pop(_name_of(values), None)):
                yield f"the run {values[0]!r}: {fault}"


def _name_of(run: tuple[Any, ...]) -> str:
    """Under which name the sum of a run is kept; cells have their keys."""
    return "run " + " ".join(map(str, run[:3]))


def _fault_of(table: str, values: tuple[Any, ...], kept: str | None) -> str:
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
