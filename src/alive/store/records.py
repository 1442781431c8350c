"""Records by their keys, as JSON with a checksum; what an earlier version kept as lines of JSON is carried over."""

from __future__ import annotations

import hashlib
import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, is_dataclass
from inspect import signature
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, ClassVar, Generic, Protocol, TypeVar, get_args, get_origin, get_type_hints

from ..errors import AliveError
from ..processes import Owner
from .database import MAGIC, SAID, Database, sum_of
from .heart import heart

Key = tuple[str | int, ...]


class Keyed(Protocol):
    """A dataclass whose values say under which key it is kept."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def key(self) -> Key:
        """What was done; done once, it is not done again."""


Kind = TypeVar("Kind", bound=Keyed)


class Records(Database, Generic[Kind]):
    """Finished records of one kind, in the order they came; one that is there stays as it is.

    Lines that an earlier version kept are read once and stay as they are: those of the usual name beside the store, or
    those in the very file that is named; the store of `runs.jsonl` is then `runs.sqlite`. `carried` says so.
    """

    TABLES: ClassVar[dict[str, str]] = {
        "records": """CREATE TABLE IF NOT EXISTS records (
            number INTEGER PRIMARY KEY, kind TEXT NOT NULL, key TEXT NOT NULL UNIQUE, value TEXT NOT NULL,
            finished REAL NOT NULL, sum TEXT NOT NULL
        )"""
    }
    ROW = "number"
    KIND: type[Kind]
    BEFORE: str  # the usual name of what an earlier version kept

    def __init__(self, path: Path, *, create: bool = True) -> None:
        lines = path.with_name(self.BEFORE)
        if _is_lines(path):
            lines, path = path, path.with_suffix(SUFFIX)
        elif path != lines.with_suffix(SUFFIX):
            lines = path
        if not path.exists():
            self._lines(lines)  # refused before there is a store
        super().__init__(path, create=create)
        self.carried = self._carry(lines) if create else ""

    def all(self) -> list[Kind]:
        """All records."""
        with self._guarded():
            found = self._db.execute(f"{SELECT} WHERE kind = ? ORDER BY number", (self.KIND.__name__,)).fetchall()
        if faults := [*_faults(found)]:
            raise self._damaged(faults[:SAID])
        try:
            return [typed(self.KIND, json.loads(values[3])) for values in found]
        except (ValueError, TypeError, RecursionError) as error:
            cause = f"{self.path} holds {self.HOLDS} that cannot be read ({error}); another version of alive wrote them"
            raise AliveError(cause, "Use the alive that wrote it") from None

    def add(self, *records: Kind) -> None:
        """Keep finished records."""
        with self._transaction():
            for record in records:
                self._insert(self.KIND.__name__, text_of(record.key), asdict(record))

    @contextmanager
    def working(self) -> Iterator[Callable[[Key], bool]]:
        """While work is done: what takes a key, if it is neither done nor held; given back at the end."""
        owner = Owner.me()
        with heart(self, owner):
            try:
                yield lambda key: bool(self.claim([text_of(key)], owner))
            finally:
                self.release(owner)

    def _insert(self, kind: str, key: str, value: Any) -> None:
        values = (kind, key, json.dumps(value), time.time())
        insert = "INSERT OR IGNORE INTO records (kind, key, value, finished, sum) VALUES (?, ?, ?, ?, ?)"
        self._db.execute(insert, (*values, sum_of(values)))
        self._db.execute("DELETE FROM claims WHERE key = ?", (key,))

    def _faults(self) -> Iterator[str]:
        yield from _faults(self._db.execute(f"{SELECT} ORDER BY number"))

    def _carry(self, lines: Path) -> str:
        """Take over what an earlier version kept, once; in words, if there was something."""
        if not _is_lines(lines):
            return ""
        mark = text_of(("carried", lines.name))
        with self._guarded():
            if self._db.execute("SELECT 1 FROM records WHERE key = ?", (mark,)).fetchone():
                return ""
        records = self._lines(lines)
        with self._transaction():
            for key, record in records.items():
                self._insert(self.KIND.__name__, key, record)
            self._insert("carried", mark, hashlib.sha256(lines.read_bytes()).hexdigest())
        return (
            f"{len(records)} {self.HOLDS} were carried over from {lines} into {self.path}; the old file is left alone"
        )

    def _lines(self, path: Path) -> dict[str, dict[str, Any]]:
        """What a file of lines holds, by keys; of two, the later one. A name may hold what else would end a line."""
        if not _is_lines(path):
            return {}
        try:
            found = [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line.strip()]
            records: list[Kind] = [typed(self.KIND, each) for each in found]
            return {text_of(record.key): asdict(record) for record in records}  # refuses what is nested too deep
        except OSError as error:
            raise AliveError(f"cannot read {path}: {error.strerror}", f"Name another file with {self.OPTION}") from None
        except (ValueError, TypeError, RecursionError) as error:
            cure = f"Name another file with {self.OPTION}, or remove it"
            raise AliveError(f"{path} holds no {self.HOLDS}: {error}", cure) from None


SUFFIX = ".sqlite"
SELECT = "SELECT number, kind, key, value, finished, sum FROM records"


def _faults(rows: Iterable[tuple[Any, ...]]) -> Iterator[str]:
    return (
        f"row {number}: it is not what was written" for number, *values, total in rows if sum_of((*values,)) != total
    )


def _is_lines(path: Path) -> bool:
    """Whether a file is there that has something in it, and is no database."""
    if not path.is_file() or path.suffix == SUFFIX:
        return False
    with suppress(OSError), path.open("rb") as file:
        start = file.read(len(MAGIC))
        return bool(start) and start != MAGIC
    return False


def text_of(key: Key) -> str:
    """A key as text, in plain letters whatever is in it."""
    return json.dumps(list(key))


def typed(kind: Any, value: Any, name: str = "it") -> Any:
    """A value that JSON gave as what it was when it was written; an error that names it where it is something else.

    >>> typed(tuple[int | None, ...], [1, None])
    (1, None)
    """
    origin, inner = get_origin(kind), get_args(kind)
    if kind is Any or (kind is NoneType and value is None):
        return value
    if origin is UnionType:
        return typed(next(each for each in inner if (each is NoneType) == (value is None)), value, name)
    if (hasattr(kind, "_fields") and isinstance(value, list)) or (is_dataclass(kind) and isinstance(value, dict)):
        hints, parts = get_type_hints(kind), signature(kind)
        given = (parts.bind(*value) if isinstance(value, list) else parts.bind(**value)).arguments
        return kind(**{part: typed(hints[part], each, part) for part, each in given.items()})
    if origin is tuple and isinstance(value, list):
        return tuple(typed(inner[0], each, f"each of {name}") for each in value)
    if kind is float and type(value) is int and abs(value) <= sys.float_info.max:
        return float(value)
    if type(value) is not (origin or kind):
        raise ValueError(f"{name} must be {getattr(kind, '__name__', kind)}, got {repr(value)[:40]}")
    return value
