"""Inputs and targets of any source, in memory: what can be trained on, and a test set where there is one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from os import PathLike
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import AliveError
from . import calls
from .convert import as_tensor, inner, is_array
from .files import Contents
from .intake import by_name, follows, read
from .record import Data, tensors


def labelled(
    found: Any,
    *,
    real: bool | None = None,
    model: nn.Module | None = None,
    name: str | None = None,
    targets: bool = True,
) -> Data:
    """Inputs and targets of whatever people call data, as a record that can be trained on.

    `real` as in `alive.data.tensors`; with a model, by its forward() what is an input and what is a target. `name` is
    what data without a name of their own are called. Where nobody needs `targets`, those that lack are zeros.

    >>> labelled(([[0.0], [1.0], [2.0]], [0, 1, 1])).classes
    2
    """
    found = split_off_test(name or "data", by_name(found) if isinstance(found, str | PathLike) else found)
    if isinstance(found, Data):
        return found.as_real() if real else found
    found, model = found if isinstance(found, Contents) else Contents(name or "data", found), model or nn.Identity()
    name, (x, y) = found.name, _collect(found, model)
    test_x, test_y = (None, None) if found.test is None else _collect(replace(found, train=found.test), model)
    if y is None and targets:
        raise AliveError(f"{name} has no targets to train on", "Give (x, y): arrays x and y, or a column named y")
    if not targets and (y is None or (test_x is None) != (test_y is None)):
        y, test_y = (None if part is None else torch.zeros(len(inner(part)[0])).long() for part in (x, test_x))
    return tensors(x, y, test_x=test_x, test_y=test_y, name=name, integers=True, real=real)


def split_off_test(name: str, made: Any) -> Any:
    """Data that come with a test set, (x, y, test_x, test_y) or {"train": ..., "test": ...}, as such; others as is."""
    if isinstance(made, tuple) and len(made) == 4 and _has_test(*made):
        return Contents(name, tuple(made[:2]), tuple(made[2:]))
    if (
        isinstance(made, Mapping)
        and "train" in made
        and not (isinstance(made["train"], Tensor) or is_array(made["train"]))
    ):
        return Contents(name, made["train"], made.get("test"))
    return made


def _has_test(x: Any, y: Any, test_x: Any, test_y: Any) -> bool:
    """Whether four parts are a training and a test set, and not four batches, as x.split(5) makes them."""
    if not all(isinstance(part, Tensor) or is_array(part) for part in (x, y, test_x, test_y)):
        return not isinstance(x, tuple)
    x, y, test_x, test_y = (as_tensor(part) for part in (x, y, test_x, test_y))
    if x.shape[1:] != test_x.shape[1:] or y.shape[1:] != test_y.shape[1:]:
        return False
    return x.shape[:1] == y.shape[:1] and test_x.shape[:1] == test_y.shape[:1] and not follows(x, y)


def _collect(found: Contents, model: nn.Module) -> tuple[Any, Any]:
    """All inputs and all targets; targets are None where there are none."""
    all_parts = [(calls.inputs(batch, model), calls.targets(batch, model)) for batch in read(found, model)]
    if not all_parts:
        raise AliveError(f"{found.name} holds no points", "Give at least one")
    has_targets = all_parts[0][1] is not None
    for at, (x, y) in enumerate(all_parts):  # some models take the targets too, for a loss of their own
        if isinstance(x, Mapping):
            all_parts[at] = {key: part for key, part in x.items() if part is not y}, y
    x = _join([x for x, _ in all_parts])
    return x, _join([as_tensor(y) for _, y in all_parts]) if has_targets else None


def _join(parts: list[Any]) -> Any:
    first = parts[0]
    if isinstance(first, Mapping):
        return {key: _join([each[key] for each in parts]) for key in first}
    if isinstance(first, list | tuple):
        return tuple(_join([each[k] for each in parts]) for k in range(len(first)))
    try:
        return torch.cat(parts) if len(parts) > 1 else first
    except (RuntimeError, TypeError) as error:
        raise AliveError(
            f"the batches cannot be put together: {str(error).splitlines()[0].rstrip('.')}",
            "Give points of one shape, and targets that are tensors",
        ) from None
