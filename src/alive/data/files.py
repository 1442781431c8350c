"""Data from a file that cannot run code: arrays, tensors and tables, never a pickle."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from inspect import signature
from os import PathLike
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile

from ..errors import AliveError, fault, near
from ..gate import Allowance
from ..registry import Registry
from .record import Data, tensors
from .tables import Table, from_csv, from_parquet
from .unpickled import load_tensors, safe_tensors

KEYS = "train_x, train_y and if wanted test_x, test_y; or x, y"
PARTS = {"x_train": "train_x", "y_train": "train_y", "x_test": "test_x", "y_test": "test_y"}
SAVE = "Write it again with numpy.savez or safetensors.torch.save_file, holding arrays of numbers only"


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
        if reader in FORMATS.own.values():
            raise
        raise fault(f"reading {path} with {reader.__module__}", error) from error
    if isinstance(found, Table):
        x, y, notes = found
        train = x if y is None else ({**x, "labels": y} if isinstance(x, dict) else (x, y))
        return Contents(path.stem, train, notes=notes, is_table=True)
    return _sorted(path, found)


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


def _npz(path: Path) -> Any:
    # A damaged archive fails in as many ways as it has parts.
    try:
        allowance = Allowance(path)
        with ZipFile(path) as archive:
            return dict(_arrays(archive, allowance))
    except Exception as error:
        raise _unreadable(path, "it is not an archive of arrays, or holds pickled objects", error) from None


def _arrays(archive: ZipFile, allowance: Allowance) -> Iterator[tuple[str, Any]]:
    for entry in allowance.entries(archive):
        name = entry.filename.removesuffix(".npy")
        with archive.open(entry) as stream:
            yield name, _native(allowance.array(stream, entry.file_size, name))


def _npy(path: Path) -> Any:
    try:
        with path.open("rb") as file:
            if file.read(2) == b"PK":
                raise ValueError("it is an archive; let its name end in .npz")
            file.seek(0)
            return _native(Allowance(path).array(file, path.stat().st_size, "x"))
    except Exception as error:
        raise _unreadable(path, "it is not an array, or holds pickled objects", error) from None


def _native(array: Any) -> Any:
    """The numbers in the byte order of this machine, as torch wants them."""
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def _safetensors(path: Path) -> Any:
    from safetensors import SafetensorError

    try:
        return {key: _as_array(value) for key, value in safe_tensors(path)[1].items()}
    except (OSError, ValueError, KeyError, SafetensorError) as error:
        raise _unreadable(path, "", error) from None


def _torch(path: Path) -> Any:
    found = load_tensors(path, "Save tensors alone: torch.save({'x': x, 'y': y}, path)")
    if isinstance(found, list) and len(found) == 2 and len({getattr(part, "ndim", 0) for part in found}) == 2:
        found = tuple(found)  # inputs and targets, not two batches
    if isinstance(found, tuple) and len(found) == 2:
        return dict(zip("xy", map(_as_array, found), strict=True))
    return {key: _as_array(value) for key, value in found.items()} if isinstance(found, Mapping) else _as_array(found)


def _as_array(value: Any) -> Any:
    """Doubles as arrays, which the model's precision is chosen for; any other tensor as it is."""
    return value.numpy() if str(getattr(value, "dtype", "")) == "torch.float64" else value


FORMATS: Registry[Callable[..., Any]] = Registry(
    "alive.formats",
    "data format",
    {
        "npz": _npz,
        "npy": _npy,
        "safetensors": _safetensors,
        "pt": _torch,
        "pth": _torch,
        "csv": from_csv,
        "parquet": from_parquet,
    },
    fault=lambda name, thing: "" if callable(thing) else f"it is {type(thing).__name__}, which reads no file",
)


def _unreadable(path: Path, otherwise: str, error: Exception) -> AliveError:
    """What to say of a file; `otherwise` where it is of another kind, or holds a pickle."""
    if isinstance(error, AliveError) and error.cure:
        return error
    said = error.cause if isinstance(error, AliveError) else str(error)
    if isinstance(error, TypeError | BadZipFile) or "pickle" in said:
        said = otherwise
    reason = " ".join(said.split()).rstrip(".") or type(error).__name__
    return AliveError(f"cannot read {path}: {reason}", SAVE)


def _sorted(path: Path, found: Any) -> Contents:
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
