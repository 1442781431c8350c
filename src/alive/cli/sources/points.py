"""Data as the command line names them: names, files, and functions or objects of the user's own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ...data import Data, load, tensors
from ...data.files import READERS, Contents, contents
from ...errors import AliveError, expect_one_of
from ...feed import batches
from ...feed.arrays import as_tensor, is_array
from ...feed.raw import Both, follows, of_record
from .folders import PREFIX
from .imports import called, module

MAKE = "make_data"
SPLITS = ("train", "test", "all")


def beside(source: str) -> str | None:
    """The make_data that lies beside a model of the user's own, if there is one."""
    place = source.rpartition(":")[0]
    if source.startswith(PREFIX) or not callable(getattr(module(place), MAKE, None)):
        return None
    return f"{place}:{MAKE}"


def data(source: str, *, target: str | None = None) -> Any:
    """The data behind what was typed: a known set, the contents of a file, or what the user's own function gives."""
    if Path(source).suffix.lower() in READERS:  # a path may hold a colon
        return contents(source, target=target)
    if target is not None:
        raise AliveError("--target names a column of a table", "Leave it out, or give a .csv or .parquet file")
    if ":" not in source:
        return load(source)
    made = called(source)
    if isinstance(made, tuple) and len(made) == 4 and _has_test(*made):
        return Contents(source, tuple(made[:2]), tuple(made[2:]))
    if (
        isinstance(made, Mapping)
        and "train" in made
        and not (isinstance(made["train"], Tensor) or is_array(made["train"]))
    ):
        return Contents(source, made["train"], made.get("test"))
    if made is None or isinstance(made, nn.Module | str | int | float) or not (_is_data(made)):
        raise AliveError(
            f"{source} gave a {type(made).__name__}, not data",
            "Let it return inputs x, (x, y), (x, y, test_x, test_y), a mapping, a data set, a DataLoader or batches",
        )
    return made


def _has_test(x: Any, y: Any, test_x: Any, test_y: Any) -> bool:
    """Whether four parts are a training and a test set, and not four batches, as x.split(5) makes them."""
    if not all(isinstance(part, Tensor) or is_array(part) for part in (x, y, test_x, test_y)):
        return not isinstance(x, tuple)
    x, y, test_x, test_y = (as_tensor(part) for part in (x, y, test_x, test_y))
    if x.shape[1:] != test_x.shape[1:] or y.shape[1:] != test_y.shape[1:]:
        return False
    return x.shape[:1] == y.shape[:1] and test_x.shape[:1] == test_y.shape[:1] and not follows(x, y)


def _is_data(made: Any) -> bool:
    known = isinstance(made, Data | Iterable) or hasattr(made, "__getitem__") or hasattr(made, "__array__")
    return known and not isinstance(made, type)


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


def labelled(
    source: Any,
    *,
    real: bool | None = None,
    target: str | None = None,
    model: nn.Module | None = None,
    name: str | None = None,
) -> Data:
    """Inputs and targets of any source, in memory: a record that can be trained on.

    `real` as in `alive.data.tensors`; with a model, its forward() decides what is an input and what a target. `name` is
    what data without a name of their own are called.
    """
    found = data(source, target=target) if isinstance(source, str) else source
    if isinstance(found, Data):
        return found
    name, (x, y), (test_x, test_y) = _parts(name or source, found, model or nn.Identity())
    if y is None:
        raise AliveError(f"{name} has no targets to train on", "Give (x, y): arrays x and y, or a column named y")
    return tensors(x, y, test_x=test_x, test_y=test_y, name=name, integers=True, real=real)


def record(source: str, found: Any) -> Data:
    """Points as floats for a depth x width network; where they have no targets, they need none."""
    if isinstance(found, Data):
        return found
    name, (x, y), (test_x, test_y) = _parts(source, found, nn.Identity())
    if not isinstance(x, Tensor):
        raise AliveError(f"{name} holds several inputs, and a depth x width network reads one", OWN)
    if y is not None and (test_x is None) == (test_y is None):
        return tensors(x, y, test_x=test_x, test_y=test_y, name=name)
    none, no_test = torch.zeros(len(x), dtype=torch.long), None if test_x is None else torch.zeros(len(test_x)).long()
    return tensors(x, none, test_x=test_x, test_y=no_test, name=name)


OWN = "Give a model of your own: mine:make_model"
Part = tuple[Any, Any]


def _parts(source: Any, found: Any, model: nn.Module) -> tuple[str, Part, Part]:
    """Name, training set and test set of what was found, in memory."""
    name = found.name if isinstance(found, Contents) else source if isinstance(source, str) else "data"
    if not isinstance(found, Contents):
        return name, _collected(name, found, model), (None, None)
    train, test = (None if p is None else replace(found, train=p, test=None) for p in (found.train, found.test))
    return name, _collected(name, train, model), (None, None) if test is None else _collected(name, test, model)


def _collected(name: str, found: Any, model: nn.Module) -> tuple[Any, Any]:
    """All inputs and all targets; targets are None where there are none."""
    read = [(batches.inputs(batch, model), batches.targets(batch, model)) for batch in batches.of(found, model)]
    if not read:
        raise AliveError(f"{name} holds no points", "Give at least one")
    has_targets = read[0][1] is not None
    x = _joined([_without(x, y) for x, y in read])
    return x, _joined([as_tensor(y) for _, y in read]) if has_targets else None


def _without(inputs: Any, targets: Any) -> Any:
    """Inputs by name without the targets, which some models take too, for a loss of their own."""
    if not isinstance(inputs, Mapping):
        return inputs
    return {name: part for name, part in inputs.items() if part is not targets}


def _joined(parts: list[Any]) -> Any:
    first = parts[0]
    if isinstance(first, Mapping):
        return {key: _joined([each[key] for each in parts]) for key in first}
    if isinstance(first, list | tuple):
        return tuple(_joined([each[k] for each in parts]) for k in range(len(first)))
    try:
        return torch.cat(parts) if len(parts) > 1 else first
    except (RuntimeError, TypeError) as error:
        raise AliveError(
            f"the batches cannot be put together: {str(error).splitlines()[0].rstrip('.')}",
            "Give points of one shape, and targets that are tensors",
        ) from None
