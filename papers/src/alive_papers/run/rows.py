"""The rows of a store as a table, one line a network: CSV and Parquet."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from alive.errors import AliveError, require
from alive.files import write_atomically

from .store import Store

TABLES = ("csv", "parquet")


def table(store: Store, *, traces: bool = False) -> list[dict[str, Any]]:
    """Every finished network: its settings, its result, who made it; with `traces` a line for each epoch kept."""
    store.check()
    lines = [line for kept in store.kept() for line in (_epochs(kept) if traces else [_line(kept)])]
    names = list(dict.fromkeys(name for line in lines for name in line))
    return [{name: line.get(name) for name in names} for line in lines]


def _line(kept: Mapping[str, Any]) -> dict[str, Any]:
    result = {name: value for name, value in kept["result"].items() if name != "trace"}
    return _flat({**kept, "result": result})


def _epochs(kept: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    trace: Mapping[str, list[float]] = kept["result"]["trace"]
    for values in zip(*trace.values(), strict=True):
        yield {"key": kept["key"], **dict(zip(trace, values, strict=True))}


def _flat(value: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Inner records as columns with dots in their names; lists as text."""
    found: dict[str, Any] = {}
    for name, inner in value.items():
        if isinstance(inner, Mapping):
            found |= _flat(inner, f"{prefix}{name}.")
        else:
            found[f"{prefix}{name}"] = str(inner) if isinstance(inner, list | tuple) else inner
    return found


def write_table(lines: list[dict[str, Any]], path: Path, kind: str) -> None:
    """Write the lines; an empty cell is unknown or not asked for."""
    if not lines:
        raise AliveError("the store holds no finished network", "Run `alive reproduce 001-T1` first")
    write_atomically(path, _csv(lines).encode() if kind == "csv" else _parquet(lines))


def _csv(lines: Iterable[Mapping[str, Any]]) -> str:
    rows = list(lines)
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _parquet(lines: list[dict[str, Any]]) -> bytes:
    with require("writing .parquet", "alive-papers[data]"):
        import pyarrow
        from pyarrow import parquet
    columns = {name: _alike([line[name] for line in lines]) for name in lines[0]}
    buffer = io.BytesIO()
    parquet.write_table(pyarrow.table(columns), buffer)
    return buffer.getvalue()


def _alike(values: list[Any]) -> list[Any]:
    """Values of one type: numbers stay numbers, a mixture becomes text."""
    kinds = {type(value) for value in values if value is not None}
    if kinds <= {int, float} and len(kinds) == 2:
        return [None if value is None else float(value) for value in values]
    return values if len(kinds) <= 1 else [None if value is None else str(value) for value in values]
