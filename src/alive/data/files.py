"""Data from a file that cannot run code: arrays, tensors and tables, never a pickle."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from inspect import signature
from os import PathLike
from pathlib import Path
from typing import Any

from ..errors import AliveError, fault, near
from ..registry import Registry
from .record import Data, tensors

KEYS = "train_x, train_y and if wanted test_x, test_y; or x, y"
PARTS = {"x_train": "train_x", "y_train": "train_y", "x_test": "test_x", "y_test": "test_y"}


@dataclass(frozen=True, slots=True, eq=False)
class Contents:
    """What a file holds: an array of inputs, (inputs, targets), or inputs by name; perhaps a test set of the same kind.

    A table has no kinds of numbers: its inputs are floats, or whole numbers for a model that looks them up.
    """

    name: str
    train: Any
    test: Any = None
    notes: tuple[str, ...] = ()
    is_table: bool = False


def contents(path: str | PathLike[str], *, target: str | None = None) -> Contents:
    """Read a file of arrays or a table; `target` names the column of a table that holds the targets, "" for none.

    >>> contents("nowhere.npy")
    Traceback (most recent call last):
    ...
    alive.errors.AliveError: there is no file nowhere.npy. Correct the path.
    """
    path = Path(path)
    if not is_known(path):
        raise AliveError(
            f"cannot read data from {str(path)!r}",
            f'Give a file ending in {endings()}; numpy.savez("data.npz", x=x, y=y) writes one',
        )
    if not path.is_file():
        around = [str(file) for file in path.parent.glob("*") if is_known(file) and file.is_file()]
        close = get_close_matches(str(path), around, n=1, cutoff=0.6)
        raise AliveError(
            f"{path} is a folder" if path.is_dir() else f"there is no file {path}",
            f"did you mean {close[0]!r}?" if close else "Correct the path",
        )
    reader = FORMATS[path.suffix.lower()[1:]]
    is_table = "target" in signature(reader).parameters
    if target is not None and not is_table:
        raise AliveError(
            f"--target names a column of a table, and {path} is not a table", "Name the arrays x and y instead"
        )
    try:
        found = reader(path, target) if is_table else reader(path)
    except Exception as error:
        if path.suffix.lower()[1:] in FORMATS.own:
            raise
        raise fault(f"reading {path} with {reader.__module__}", error) from error
    return found if isinstance(found, Contents) else _sort(path, found)


def is_known(path: str | PathLike[str]) -> bool:
    """Whether a file ends as one of data does."""
    return Path(path).suffix.lower()[1:] in FORMATS


def endings() -> str:
    """What files of data end in, in words."""
    return " or ".join(f".{name}" for name in FORMATS)


def from_file(path: str | PathLike[str], *, target: str | None = None, **options: Any) -> Data:
    """Read inputs and targets as Data: arrays train_x, train_y (with test_x, test_y, or without), x, y, or a table.

    `options` are those of `alive.data.tensors`.
    """
    found = contents(path, target=target)
    if not (isinstance(found.train, tuple) and len(found.train) == 2):
        held = found.train
        holds = (
            ", ".join(held) if isinstance(held, Mapping) else "inputs alone" if not isinstance(held, tuple) else "parts"
        )
        strange = [key for key in held if key not in ("x", "y")] if isinstance(held, Mapping) else []
        hint = near(strange[0], ("x", "y", "test_x", "test_y")) if strange else "Add the labels"
        raise AliveError(f"{path} holds {holds or 'nothing'}, expected {KEYS}", hint)
    x, y = found.train
    test_x, test_y = found.test if isinstance(found.test, tuple) else (found.test, None)
    return tensors(x, y, test_x=test_x, test_y=test_y, name=found.name, **options)


FORMATS: Registry[Callable[..., Any]] = Registry(
    "alive.formats",
    "data format",
    {
        **{name: f"alive.data.unpickled:{name}" for name in ("npz", "npy", "safetensors", "pt", "pth")},
        **{name: f"alive.data.tables:from_{name}" for name in ("csv", "parquet")},
    },
    fault=lambda name, thing: "" if callable(thing) else f"it is {type(thing).__name__}, which reads no file",
)


def _sort(path: Path, found: Any) -> Contents:
    """Training and test set of what was read, by its names."""
    if not isinstance(found, Mapping):
        return Contents(path.stem, found)
    arrays = {PARTS.get(key.lower(), key.lower() if key.lower() in ("x", "y") else key): found[key] for key in found}
    if len(arrays) < len(found) or not found:
        raise AliveError(f"{path} holds {'names that differ in case alone' if found else 'nothing'}", f"Give it {KEYS}")
    if all(key.startswith("arr_") for key in arrays):  # numpy.savez(path, x, y)
        arrays = (
            dict(zip(("x", "y", "test_x", "test_y"), arrays.values(), strict=False)) if len(arrays) <= 4 else arrays
        )
    if "train_x" not in arrays and "train_y" not in arrays and not set(arrays) <= {"x", "y", "test_x", "test_y"}:
        only = len(arrays) == 1
        return Contents(path.stem, next(iter(arrays.values())) if only else arrays)
    first = "train_" if {"train_x", "train_y"} & set(arrays) else ""
    allowed = (f"{first}x", f"{first}y", "test_x", "test_y")
    strange = [key for key in arrays if key not in allowed]
    if strange or allowed[0] not in arrays:
        hint = near(strange[0], allowed) if strange else f"Known: {', '.join(allowed)}"
        raise AliveError(f"{path} holds {', '.join(arrays)}, expected {KEYS}", hint)
    train, test = (_pair(arrays.get(x), arrays.get(y)) for x, y in (allowed[:2], allowed[2:]))
    if test is None and "test_y" in arrays:
        raise AliveError(f"{path} holds test_y without test_x", f"Known: {', '.join(allowed)}")
    return Contents(path.stem, train, test)


def _pair(x: Any, y: Any) -> Any:
    return x if y is None else None if x is None else (x, y)
