"""Tables of numbers, .csv and .parquet: a row a point, a column a feature, and one column for the targets if wanted."""

from __future__ import annotations

import csv
import re
import warnings
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import AliveError, near, require
from ..gate import Allowance
from .arrays import number_classes, whole
from .calls import TARGETS
from .files import Contents
from .footer import count

DELIMITERS = (",", ";", "\t")
LEAVE_OUT = "Turn it into numbers, or leave the column out"


def from_csv(path: Path, target: str | None) -> Contents:
    """Read numbers, with a line of names above them or without."""
    try:
        delimiter, names, skip = _head(path)
        index = [0] if names and names[0] in ("", "Unnamed: 0") else []
        at, notes = _target(path, names, target)
        kept = [column for column in range(len(names)) if column != at and column not in index]
        if not kept:
            raise AliveError(f"{path} has no column beside the target", "Give columns of inputs")
        notes += ("left out the first column, which has no name: row numbers",) * bool(index)
        x = _numbers(path, delimiter, skip, kept, names)
        y = None if at is None else _labels(path, delimiter, skip, at, names)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise AliveError(f"cannot read {path}: {error}", "Write it again as text of numbers, with commas") from None
    if not len(x):
        raise AliveError(f"{path} holds no row of numbers", "Give a file with at least one point")
    return _contents(path, x, y, notes)


def _head(path: Path) -> tuple[str, list[str], int]:
    """The delimiter, the names of the columns, and how many lines stand above the numbers."""
    with path.open(newline="", encoding="utf-8-sig") as file:
        line = file.readline()
        if not line.strip():
            raise AliveError(f"{path} is empty", "Give a file with at least one point")
        delimiter = max(DELIMITERS, key=line.count)
        file.seek(0)
        reader = csv.reader(file, delimiter=delimiter)
        first = [cell.strip().removeprefix("#").strip() for cell in next(reader)]
        if all(map(_is_number, first)):
            return delimiter, [str(number) for number in range(len(first))], 0
        return delimiter, first, reader.line_num


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _target(path: Path, names: Sequence[str], target: str | None) -> tuple[int | None, tuple[str, ...]]:
    """The column of the targets, if any, and what to say of it where nobody said which."""
    if target == "":
        return None, ()
    if target is not None:
        if target in names:
            return list(names).index(target), ()
        if re.fullmatch(r"-?\d+", target) and -len(names) <= int(target) < len(names):
            return int(target) % len(names), ()
        raise AliveError(f"{path} has no column {target!r}", near(target, names))
    found = [number for number, name in enumerate(names) if name.lower() in TARGETS]
    if len(found) > 1:
        raise AliveError(
            f"{path} has columns {', '.join(names[n] for n in found)}, of which one may be the target",
            'Say which: --target NAME, or --target "" for none',
        )
    return (found[0], (f"column {names[found[0]]} of {path.name} is the target",)) if found else (None, ())


def _numbers(path: Path, delimiter: str, skip: int, kept: Sequence[int], names: Sequence[str]) -> Any:
    """The columns as an array [N, C]; text and rows of other lengths are refused."""
    try:
        with warnings.catch_warnings(), path.open(encoding="utf-8-sig") as file:
            warnings.simplefilter("ignore", UserWarning)  # about empty files, which the caller reports
            options: dict[str, Any] = {"delimiter": delimiter, "skiprows": skip, "usecols": kept, "quotechar": '"'}
            return np.loadtxt(file, comments=None, ndmin=2, **options)
    except ValueError as error:
        if isinstance(error, UnicodeDecodeError):
            raise
        if found := re.match(r"could not convert string (.*) to float64 at row (\d+), column (\d+)", str(error)):
            text, row, column = found[1], int(found[2]) + skip + 1, names[int(found[3]) - 1]
            what = "has an empty cell" if text == "''" else f"holds {text}, which is not a number,"
            raise AliveError(f"column {column} of {path} {what} in line {row}", LEAVE_OUT) from None
        ragged = re.search(r"at row (\d+)", str(error))
        where = f" at line {int(ragged[1]) + skip}" if ragged else ""
        raise _ragged_fault(path, where) from None


def _ragged_fault(path: Path, where: str) -> AliveError:
    return AliveError(
        f"the rows of {path} have different numbers of columns{where}", "Give every row as many as the first has"
    )


def _labels(path: Path, delimiter: str, skip: int, at: int, names: Sequence[str]) -> Any:
    """One column [N]: whole numbers or real ones, or texts, which are numbered in their order."""
    try:
        return whole(_numbers(path, delimiter, skip, [at], names)[:, 0])
    except AliveError:
        return number_classes(_texts(path, delimiter, skip, at))


def _texts(path: Path, delimiter: str, skip: int, at: int) -> list[str]:
    """One column as it is written: numpy would make every text as long as the longest."""
    with path.open(newline="", encoding="utf-8-sig") as file:
        for _ in range(skip):
            next(file)
        reader = csv.reader(file, delimiter=delimiter)
        try:
            return [row[at] for row in reader if row]
        except IndexError:
            raise _ragged_fault(path, f" at line {reader.line_num + skip}") from None


def from_parquet(path: Path, target: str | None) -> Contents:
    """Read columns of numbers, or of lists of numbers: those keep their names."""
    with require("reading .parquet", "alive[data]"):
        parquet = import_module("pyarrow.parquet")
    try:
        count(Allowance(path), path)
        with parquet.ParquetFile(path) as file:
            schema = file.schema_arrow
        names = [name for name in schema.names if not re.fullmatch(r"__index_level_\d+__", name)]
        if len(set(schema.names)) < len(schema.names):
            raise AliveError(f"{path} has two columns of one name", "Name each by itself")
        if not names:
            raise _no_row(path)
        at, notes = _target(path, names, target)
        for number, name in enumerate(names):
            if number != at and not _is_numbers(schema.field(name).type):
                raise _no_number(path, name, schema.field(name).type)
        texts = [] if at is None or _is_numbers(schema.field(names[at]).type) else [names[at]]
        with parquet.ParquetFile(path, read_dictionary=texts) as file:
            table = file.read(names)
    except AliveError:
        raise
    except Exception as error:  # a damaged file fails in as many ways as it has parts
        raise AliveError(f"cannot read {path}: {' '.join(str(error).split()).rstrip('.')}", "Write it again") from None
    if not table.num_rows:
        raise _no_row(path)
    columns = {name: _column(path, table, name, at == n) for n, name in enumerate(names)}
    y = None if at is None else columns.pop(names[at])
    if not columns:
        raise AliveError(f"{path} has no column beside the target", "Give columns of inputs")
    if any(part.ndim > 1 for part in columns.values()):
        return _contents(path, columns, y, notes)
    return _contents(path, np.stack([part.astype(float) for part in columns.values()], 1), y, notes)


def _contents(path: Path, x: Any, y: Any, notes: tuple[str, ...]) -> Contents:
    """Features [N, C], or columns of lists by name; targets [N], or None; and what was decided, in words."""
    train = x if y is None else ({**x, "labels": y} if isinstance(x, dict) else (x, y))
    return Contents(path.stem, train, notes=notes, is_table=True)


def _is_numbers(kind: Any) -> bool:
    types = import_module("pyarrow").types
    while types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        kind = kind.value_type
    kind = kind.value_type if types.is_dictionary(kind) else kind
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind))


def _no_row(path: Path) -> AliveError:
    return AliveError(f"{path} holds no row of numbers", "Give a file with at least one point")


def _no_number(path: Path, name: str, kind: Any) -> AliveError:
    return AliveError(f"column {name} of {path} holds {str(kind)[:80]}, which is not a number", LEAVE_OUT)


def _column(path: Path, table: Any, name: str, is_target: bool) -> Any:
    """One column as an array [N], or [N, ...] if it holds lists."""
    column = table.column(name)
    if column.null_count:
        raise AliveError(f"column {name} of {path} has {column.null_count} empty cells", "Fill them, or leave them out")
    if is_target and not _is_numbers(column.type):
        return number_classes(_words(column))
    try:
        found = np.array(column.to_pylist() if "list" in str(column.type) else column.to_numpy())
    except ValueError:
        raise AliveError(
            f"column {name} of {path} holds lists of different lengths", "Pad them to one length"
        ) from None
    if found.dtype.kind not in "biuf":
        raise _no_number(path, name, column.type)
    return whole(found) if is_target else found


def _words(column: Any) -> list[str]:
    """A column as texts; one that is written by its numbers in a dictionary has each text once."""
    if not hasattr(column.type, "index_type"):
        return list(map(str, column.to_pylist()))
    found: list[str] = []
    for chunk in column.chunks:
        texts = list(map(str, chunk.dictionary.to_pylist()))
        found += [texts[number] for number in chunk.indices.to_pylist()]
    return found
