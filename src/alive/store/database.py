"""A file of finished work: SQLite, where several processes may write at once and a kill loses nothing finished."""

from __future__ import annotations

import hashlib
import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, Self

from ..errors import AliveError
from ..processes import Owner

APPLICATION = 0x616C6976  # "aliv": says whose file this is
VERSION = 1
PATIENCE = 60.0  # seconds to wait for another process to finish its write
MAGIC = b"SQLite format 3\0"
CLAIMS = """CREATE TABLE IF NOT EXISTS claims (
    key TEXT PRIMARY KEY, host TEXT NOT NULL, pid INTEGER NOT NULL, birth TEXT NOT NULL, beat REAL NOT NULL
) WITHOUT ROWID"""
KNOWN = {"cells", "runs", "sums", "records", "claims"}  # of all kinds of work: one file may hold several
SAID = 2  # faults to look for: the error names the first, and says that there are more


def sum_of(values: tuple[Any, ...]) -> str:
    """The checksum of a row: a bit that flips on a disk must not become a number in a report."""
    return hashlib.sha256(repr(values).encode(errors="backslashreplace")).hexdigest()


class Database:
    """An open file of ours; a context manager. Every call is one transaction, so that a kill loses nothing finished.

    WAL lets several processes of one machine work on it at once; a network folder is no place for it. Unless it may be
    created it is only read: then its folder need not be writable, and the file stays as it is. What kind of work it
    keeps is said by a subclass: its tables, of which the first has finished work by `key`.
    """

    TABLES: ClassVar[dict[str, str]] = {}
    LATER: ClassVar[dict[str, str]] = {}  # tables that earlier versions had not
    ROW = "key"  # the column by which a fault names a row
    HOLDS = "networks"
    OPTION, FIRST = "--store", "Run `alive reproduce` first"

    def __init__(self, path: Path, *, create: bool = True) -> None:
        self.path = path
        self._expect_file(create=create)
        with self._guarded():
            self._db = _connect(path) if create else _to_read(path)
            try:
                self._settle(create=create)
            except BaseException:
                self._db.close()
                raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._db.close()

    def finished(self, keys: Iterable[str]) -> set[str]:
        """Those of the keys whose work is done."""
        with self._guarded():
            done = {key for (key,) in self._db.execute(f"SELECT key FROM {next(iter(self.TABLES))}")}
        return done.intersection(keys)

    def check(self) -> None:
        """Refuse a store of which any part is damaged: the file, or a row."""
        with self._guarded():
            found = list(islice(self._all_faults(), SAID))
        if found:
            raise self._damaged(found)

    def claim(self, keys: Sequence[str], owner: Owner) -> set[str]:
        """Take those of the keys that are neither done nor held by a living process."""
        free = f"NOT EXISTS (SELECT 1 FROM {next(iter(self.TABLES))} WHERE key = ?)"
        with self._transaction() as db:
            for held in db.execute("SELECT key, host, pid, birth, beat FROM claims").fetchall():
                if not owner.sees_alive(*held[1:]):
                    db.execute("DELETE FROM claims WHERE key = ?", held[:1])
            mine = set()
            for key in keys:
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

    def _faults(self) -> Iterator[str]:
        """All rows that are damaged, in words."""
        raise NotImplementedError

    def _damaged(self, found: Sequence[str]) -> AliveError:
        more = ", and there is more" if len(found) == SAID else ""
        row = found[0].removeprefix("row ").partition(":")[0]
        where = f"DELETE FROM {next(iter(self.TABLES))} WHERE {self.ROW} = '{row}'"
        delete = f"; or delete the row ({where}) to have it trained again"
        cure = self._copy + (delete if found[0].startswith("row ") else "")
        return AliveError(f"the store {self.path} is damaged: {found[0]}{more}", cure)

    def _all_faults(self) -> Iterator[str]:
        said = self._db.execute("PRAGMA integrity_check(1)").fetchone()[0]
        if said != "ok":
            yield " ".join(str(said).split())
            return
        yield from self._faults()

    @property
    def _copy(self) -> str:
        return f"Restore it from a copy, or name another file with {self.OPTION}"

    def _expect_file(self, *, create: bool) -> None:
        """Refuse what cannot keep anything: SQLite's name for no file, folders, devices."""
        name = f"Name a file with {self.OPTION}"
        if str(self.path) == ":memory:":
            raise AliveError("a store :memory: would be gone with the process", name)
        if self.path.is_dir():
            raise AliveError(f"{self.path} is a folder, not a store", name)
        if self.path.exists() and not self.path.is_file():
            raise AliveError(f"{self.path} is a device or a pipe, not a store", name)
        if not create and not self.path.exists():
            raise AliveError(f"there is no store {self.path}", f"{self.FIRST}, or name the file with {self.OPTION}")

    def _settle(self, *, create: bool) -> None:
        """Check that the file is ours, or make it so if it is empty."""
        if create and self._mark() == (0, 0, 0):
            self._patiently("PRAGMA journal_mode = WAL")
            with self._transaction() as db:
                if self._mark() == (0, 0, 0):  # no other process did it first
                    self._make(CLAIMS, *self.TABLES.values(), *self.LATER.values())
                    db.execute(f"PRAGMA application_id = {APPLICATION}")
                    db.execute(f"PRAGMA user_version = {VERSION}")
        application, version, tables = self._mark()
        if (application, version, tables) == (0, 0, 0):
            raise AliveError(f"the store {self.path} is empty", self.FIRST)
        if application != APPLICATION:
            raise AliveError(
                f"{self.path} is a database of another program, or a damaged one",
                f"Name another file with {self.OPTION}",
            )
        if version != VERSION:
            raise AliveError(
                f"{self.path} was made by a newer alive, or is damaged",
                f"Update alive, or name another file with {self.OPTION}",
            )
        if create:
            self._patiently("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = FULL")
        self._expect_tables(create=create)

    def _expect_tables(self, *, create: bool) -> None:
        """Those of this kind are made where they are not there yet; some of them alone are what is left of a damage."""
        there = self._tables()
        mine = there & self.TABLES.keys()
        if "claims" not in there or there - KNOWN or (mine and mine != self.TABLES.keys()):
            raise AliveError(f"{self.path} is not a store of alive, or is damaged (its tables are others)", self._copy)
        if not mine and not create:
            raise AliveError(f"{self.path} holds no {self.HOLDS}", self.FIRST)
        missing = {name: how for name, how in (self.TABLES | self.LATER).items() if name not in there}
        if missing and create:
            with self._transaction():
                self._make(*missing.values())
        for table in ("claims", *self.TABLES):
            self._db.execute(f"SELECT count(*) FROM {table}").fetchone()

    def _make(self, *statements: str) -> None:
        for statement in statements:
            self._db.execute(statement)

    def _tables(self) -> set[str]:
        """What the file is made of, but for what SQLite adds of its own."""
        found = self._db.execute("SELECT type, name FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'").fetchall()
        return {str(name) if kind == "table" else f"{kind} {name}" for kind, name in found}

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
            try:
                self._db.execute("BEGIN IMMEDIATE")
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
        except (sqlite3.Error, UnicodeDecodeError) as error:  # what it says of a damage may be damaged too
            raise self._in_words(error) from None

    def _in_words(self, error: Exception) -> AliveError:
        path, code, said = self.path, getattr(error, "sqlite_errorname", ""), " ".join(str(error).split())
        if code.startswith("SQLITE_FULL"):
            cure = "Free some disk and run again"
            return AliveError(f"no room left to write {path}; all finished rows are safe", cure)
        if code.startswith(("SQLITE_NOTADB", "SQLITE_CORRUPT")) or "no such" in str(error) or "decode" in str(error):
            return AliveError(f"{path} is not a store of alive, or is damaged ({said})", self._copy)
        if code.startswith(("SQLITE_CANTOPEN", "SQLITE_READONLY", "SQLITE_IOERR", "SQLITE_PERM")):
            return AliveError(f"cannot write {path}: {said}", "Choose a folder that exists and can be written")
        if code.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
            return AliveError(f"{path} was locked by another process for {PATIENCE:.0f} seconds", "Run again later")
        return AliveError(f"the store {path} refuses: {said}", self._copy)


def _connect(path: Path | str) -> sqlite3.Connection:
    uri = isinstance(path, str)
    return sqlite3.connect(path, timeout=PATIENCE, isolation_level=None, check_same_thread=False, uri=uri)


def _to_read(path: Path) -> sqlite3.Connection:
    """Open it to be read alone; where nothing may be written beside it and nobody does, without SQLite's own files."""
    place = path.absolute().as_uri()
    db = _connect(f"{place}?mode=rw")  # what is opened as "ro" leaves SQLite's own files behind
    try:
        db.execute("PRAGMA query_only = ON")
        db.execute("PRAGMA schema_version").fetchone()
    except sqlite3.OperationalError:
        db.close()
        if path.with_name(f"{path.name}-wal").exists():  # rows that are not in the file yet
            raise
        return _connect(f"{place}?immutable=1")
    return db
