"""The store: one SQLite file, a row a finished cell, and who is at work on which."""

from __future__ import annotations

import json
import sqlite3
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from ..errors import AliveError
from ..experiments import Cell, Row
from ..experiments.cell import canonical
from .machine import hardware, versions
from .owner import Owner
from .sums import CELL, RUN, TABLE, fault_of, faults, has_sums, name_of, write_sum

APPLICATION = 0x616C6976  # "aliv": says whose file this is
VERSION = 1
PATIENCE = 60.0  # seconds to wait for another process to finish its write
SCHEMA = (
    """CREATE TABLE cells (
        key TEXT PRIMARY KEY, settings TEXT NOT NULL, seed INTEGER NOT NULL, result TEXT NOT NULL, weights BLOB,
        versions TEXT NOT NULL, hardware TEXT NOT NULL, seconds REAL NOT NULL, finished REAL NOT NULL
    ) WITHOUT ROWID""",
    """CREATE TABLE claims (
        key TEXT PRIMARY KEY, host TEXT NOT NULL, pid INTEGER NOT NULL, birth TEXT NOT NULL, beat REAL NOT NULL
    ) WITHOUT ROWID""",
    """CREATE TABLE runs (
        experiment TEXT NOT NULL, scale TEXT NOT NULL, architecture TEXT NOT NULL, seeds INTEGER NOT NULL,
        asked REAL NOT NULL, PRIMARY KEY (experiment, scale, architecture)
    ) WITHOUT ROWID""",
    TABLE,
)
SAID = 2  # faults to look for: the error names the first, and says that there are more
COPY = "Restore it from a copy, or name another file with --store"


@dataclass(frozen=True, slots=True)
class Run:
    """An experiment that was asked for, at the most seeds so far."""

    experiment: str
    scale: str
    architecture: str
    seeds: int


class Store:
    """An open store; a context manager. Every call is one transaction, so that a kill loses nothing finished.

    WAL lets several processes of one machine work on it at once; a network folder is no place for it. Unless it may be
    created it is only read: then its folder need not be writable, and the file stays as it is.
    """

    def __init__(self, path: Path, *, create: bool = True) -> None:
        self.path = path
        if not create and not path.exists():
            raise AliveError(f"there is no store {path}", "Run `alive reproduce` first, or name the file with --store")
        if path.is_dir():
            raise AliveError(f"{path} is a folder, not a store", "Name a file with --store")
        with self._guarded():
            self._db = _connected(path) if create else _to_read(path)
            try:
                self._settle(create=create)
            except BaseException:
                self._db.close()
                raise

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self._db.close()

    def finished(self, keys: Iterable[str]) -> set[str]:
        """Those of the keys whose cells are done."""
        with self._guarded():
            done = {key for (key,) in self._db.execute("SELECT key FROM cells")}
        return done.intersection(keys)

    def rows(self, cells: Iterable[Cell]) -> list[Row]:
        """The rows of these cells, as far as they are done, in the order of the cells."""
        found = []
        with self._guarded():
            kept = "(SELECT sum FROM sums WHERE name = key)" if has_sums(self._db) else "NULL"
            for cell in cells:
                for *values, total in self._db.execute(f"SELECT {CELL}, {kept} FROM cells WHERE key = ?", (cell.key,)):
                    found.append(self._read(cell, tuple(values), total))
        return found

    def _read(self, cell: Cell, values: tuple[Any, ...], total: str | None) -> Row:
        """One row; refuses one that another version wrote, or that is damaged."""
        try:
            row = Row.read(cell, json.loads(values[3]), values[4])
            if fault := fault_of("cells", values, total):
                raise ValueError(fault)
            return row
        except (ValueError, TypeError) as error:  # among them what json cannot read
            net = f"{cell.label} {cell.member.depth}x{cell.member.width}, seed {cell.member.seed}"
            raise AliveError(
                f"{self.path}: the row of {net} cannot be read ({error}); another version of alive wrote it, or it is "
                "damaged",
                f"Use the alive that wrote it; if it is damaged: {COPY[0].lower()}{COPY[1:]}",
            ) from None

    def check(self) -> None:
        """Refuse a store of which any part is damaged: the file, or a row."""
        with self._guarded():
            found = list(islice(faults(self._db), SAID))
        if found:
            more = ", and there is more" if len(found) == SAID else ""
            key = found[0].removeprefix("row ").partition(":")[0]
            delete = f"; or delete the row (DELETE FROM cells WHERE key = '{key}') to have it trained again"
            cure = COPY + (delete if found[0].startswith("row ") else "")
            raise AliveError(f"the store {self.path} is damaged: {found[0]}{more}", cure)

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

    def claim(self, keys: Sequence[str], owner: Owner) -> set[str]:
        """Take those of the keys that are neither done nor held by a living process."""
        with self._transaction() as db:
            for held in db.execute("SELECT key, host, pid, birth, beat FROM claims").fetchall():
                if not owner.sees_alive(*held[1:]):
                    db.execute("DELETE FROM claims WHERE key = ?", held[:1])
            mine = set()
            for key in keys:
                free = "NOT EXISTS (SELECT 1 FROM cells WHERE key = ?)"
                claim = f"INSERT OR IGNORE INTO claims SELECT ?, ?, ?, ?, ? WHERE {free}"
                if db.execute(claim, (key, owner.host, owner.pid, owner.birth, time.time(), key)).rowcount:
                    mine.add(key)
            return mine

    def claimed(self) -> set[str]:
        """Keys held by some process."""
        with self._guarded():
            return {key for (key,) in self._db.execute("SELECT key FROM claims")}

    def beat(self, owner: Owner) -> None:
        """Say that the owner is still at work."""
        with self._transaction() as db:
            db.execute(
                "UPDATE claims SET beat = ? WHERE host = ? AND pid = ? AND birth = ?",
                (time.time(), owner.host, owner.pid, owner.birth),
            )

    def release(self, owner: Owner) -> None:
        """Give back all that the owner holds and has not done."""
        with self._transaction() as db:
            db.execute(
                "DELETE FROM claims WHERE host = ? AND pid = ? AND birth = ?", (owner.host, owner.pid, owner.birth)
            )

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
                    write_sum(db, key, values)
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
                    write_sum(db, name_of(values), values)

    def runs(self) -> list[Run]:
        """All that was asked for, oldest first."""
        with self._guarded():
            found = self._db.execute(f"SELECT {RUN} FROM runs ORDER BY asked, experiment").fetchall()
        for values in found:
            if fault := fault_of("runs", values, None):
                raise AliveError(f"the store {self.path} is damaged: the run {values[0]!r}: {fault}", COPY)
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

    def _settle(self, *, create: bool) -> None:
        """Check that the file is ours, or make it so if it is empty."""
        if create and self._mark() == (0, 0, 0):
            self._patiently("PRAGMA journal_mode = WAL")
            with self._transaction() as db:
                if self._mark() == (0, 0, 0):  # no other process did it first
                    for statement in SCHEMA:
                        db.execute(statement)
                    db.execute(f"PRAGMA application_id = {APPLICATION}")
                    db.execute(f"PRAGMA user_version = {VERSION}")
        application, version, tables = self._mark()
        if (application, version, tables) == (0, 0, 0):
            raise AliveError(f"the store {self.path} is empty", "Run `alive reproduce` first")
        if application != APPLICATION:
            raise AliveError(
                f"{self.path} is a database of another program, or a damaged one", "Name another file with --store"
            )
        if version != VERSION:
            raise AliveError(
                f"{self.path} was made by a newer alive, or is damaged",
                "Update alive, or name another file with --store",
            )
        if create:
            self._patiently("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = FULL")
            if not has_sums(self._db):  # of an earlier version
                with self._transaction() as db:
                    db.execute(TABLE)
        for table in ("cells", "claims", "runs"):
            self._db.execute(f"SELECT count(*) FROM {table}").fetchone()

    def _mark(self) -> tuple[int, int, int]:
        """Whose file it is, which version of the schema, and how many tables."""
        one = [self._db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")]
        return one[0], one[1], self._db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]

    def _patiently(self, statement: str) -> None:
        """A change of the journal does not wait for others by itself."""
        end = time.monotonic() + PATIENCE
        while True:
            try:
                self._db.execute(statement)
                return
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or time.monotonic() > end:
                    raise
                time.sleep(0.05)

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """All or nothing, begun as a writer so that no other can come between a look and a change."""
        with self._guarded():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        """Say in one sentence what SQLite refuses."""
        try:
            yield
        except sqlite3.Error as error:
            raise _worded(self.path, error) from None


def _connected(path: Path | str) -> sqlite3.Connection:
    uri = isinstance(path, str)
    return sqlite3.connect(path, timeout=PATIENCE, isolation_level=None, check_same_thread=False, uri=uri)


def _to_read(path: Path) -> sqlite3.Connection:
    """Open it to be read alone; where nothing may be written beside it and nobody does, without SQLite's own files."""
    place = path.absolute().as_uri()
    db = _connected(f"{place}?mode=rw")  # what is opened as "ro" leaves SQLite's own files behind
    try:
        db.execute("PRAGMA query_only = ON")
        db.execute("PRAGMA schema_version").fetchone()
    except sqlite3.OperationalError:
        db.close()
        if path.with_name(f"{path.name}-wal").exists():  # rows that are not in the file yet
            raise
        return _connected(f"{place}?immutable=1")
    return db


def _worded(path: Path, error: sqlite3.Error) -> AliveError:
    code, said = getattr(error, "sqlite_errorname", ""), " ".join(str(error).split())
    if code.startswith("SQLITE_FULL"):
        return AliveError(f"no room left to write {path}; all finished rows are safe", "Free some disk and run again")
    if code.startswith(("SQLITE_NOTADB", "SQLITE_CORRUPT")) or "no such" in str(error) or "decode" in str(error):
        return AliveError(f"{path} is not a store of alive, or is damaged ({said})", COPY)
    if code.startswith(("SQLITE_CANTOPEN", "SQLITE_READONLY", "SQLITE_IOERR", "SQLITE_PERM")):
        return AliveError(f"cannot write {path}: {said}", "Choose a folder that exists and can be written")
    if code.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return AliveError(f"{path} was locked by another process for {PATIENCE:.0f} seconds", "Run again later")
    return AliveError(f"the store {path} refuses: {said}", COPY)
