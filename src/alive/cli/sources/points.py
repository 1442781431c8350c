"""Data as the command line names them: names, files, and functions or objects of the user's own."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from torch import nn

from ...data import Data, load
from ...data.files import Contents, contents, is_known
from ...data.intake import Both, of_record
from ...data.memory import parted
from ...errors import AliveError, expect_one_of
from .folders import PREFIX
from .imports import called, module

MAKE = "make_data"
SPLITS = ("train", "test", "all")


def beside(source: str) -> str | None:
    """The make_data that lies beside a model of the user's own, if there is one."""
    place = source.rpartition(":")[0]
    if source.startswith(PREFIX) or not place or not callable(getattr(module(place), MAKE, None)):
        return None
    return f"{place}:{MAKE}"


def data(source: str, *, target: str | None = None) -> Any:
    """The data behind what was typed: a known set, the contents of a file, or what the user's own function gives."""
    if is_known(source):  # a path may hold a colon
        return contents(source, target=target)
    if target is not None:
        raise AliveError("--target names a column of a table", "Leave it out, or give a .csv or .parquet file")
    if ":" not in source:
        return load(source)
    made = parted(source, called(source))
    if isinstance(made, Contents):
        return made
    known = isinstance(made, Data | Iterable) or hasattr(made, "__getitem__") or hasattr(made, "__array__")
    if not known or isinstance(made, type | nn.Module | str | int | float):
        raise AliveError(
            f"{source} gave a {type(made).__name__}, not data",
            "Let it return inputs x, (x, y), (x, y, test_x, test_y), a mapping, a data set, a DataLoader or batches",
        )
    return made


def part(found: Any, split: str = "train") -> Any:
    """The training or the test points, or both."""
    expect_one_of("split", split, SPLITS)
    if split == "train":
        return replace(found, test=None) if isinstance(found, Contents) else found
    if isinstance(found, Data):
        test = of_record(found, test=True)
        return test if split == "test" else Both((of_record(found), test))
    if not isinstance(found, Contents) or found.test is None:
        name = found.name if isinstance(found, Contents) else "the data"
        raise AliveError(f"{name} has no test points", "Use --split train")
    if split == "test":
        return replace(found, train=found.test, test=None)
    return Both((replace(found, test=None), replace(found, train=found.test, test=None)))
