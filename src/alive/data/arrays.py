"""From arrays, lists and tensors as people have them to the points and targets of a data set."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..errors import AliveError

MANY = 10_000  # classes that even a smaller number of points may have
Inputs = tuple[Tensor, ...]


def inputs(name: str, what: str, values: Any, *, integers: bool) -> tuple[tuple[str, ...], Inputs]:
    """The keywords and tensors of what a model is called with: one array, a tuple of tensors, or a mapping.

    >>> inputs("toy", "x", {"ids": [[1, 2]], "mask": [[1, 0]]}, integers=True)
    (('ids', 'mask'), (tensor([[1, 2]]), tensor([[1, 0]])))
    """
    if isinstance(values, Mapping):
        if not values:
            raise AliveError(f"{name}: {what} is empty", "Give at least one input")
        made = tuple(points(name, f"{what}[{key!r}]", value, integers=integers) for key, value in values.items())
        return tuple(map(str, values)), made
    if isinstance(values, tuple) and values and all(isinstance(value, Tensor) and value.dim() for value in values):
        return (), tuple(points(name, f"{what}[{at}]", value, integers=integers) for at, value in enumerate(values))
    return (), (points(name, what, values, integers=integers),)


def points(name: str, what: str, values: Any, *, integers: bool = False) -> Tensor:
    """Numbers as floats; with `integers` whole numbers, such as token ids, stay whole."""
    given = tensor(name, what, values)
    whole = not given.is_floating_point() and given.dtype != torch.bool
    return given.long() if integers and whole else _floats(name, what, given)


def targets(name: str, y: Any, test_y: Any, *, real: bool | None) -> tuple[Tensor, Tensor | None]:
    """Training and test targets: labels if all are whole numbers, else real numbers; with `real` real in any case.

    A column of labels [N, 1] is the labels [N]. Whole numbers held as floats are real if they cannot be labels: some
    are negative, or too large for classes of so few points.

    >>> targets("toy", [0, 1], [[2], [0]], real=None)
    (tensor([0, 1]), tensor([2, 0]))
    >>> targets("toy", [0, 1], [0.5], real=None)
    (tensor([0., 1.]), tensor([0.5000]))
    """
    if y is None:
        raise AliveError(f"{name} has no targets", "Give y beside x: labels 0, 1, 2 and so on, or real numbers")
    parts = {"y": tensor(name, "y", y)} | ({} if test_y is None else {"test_y": tensor(name, "test_y", test_y)})
    if real is None:
        real = not all(_may_be_labels(part) for part in parts.values())
    for what, part in parts.items():
        if not real and not _is_whole(part):
            raise AliveError(f"{name}: {what} must hold whole numbers", "Number the classes 0, 1, 2 and so on")
    made = {what: _floats(name, what, part) if real else _labels(part) for what, part in parts.items()}
    return made["y"], made.get("test_y")


def classes_of(name: str, train_y: Tensor, test_y: Tensor | None) -> int:
    """One more than the largest label, at least two, and 0 for real targets; labels too large for classes are refused.

    In labels of sequences, [N, ...], any number may be a word.
    """
    if train_y.is_floating_point():
        return 0
    seen = (train_y,) if test_y is None else (train_y, test_y)
    classes = max([2, *(int(labels.max()) + 1 for labels in seen if labels.numel())])
    if train_y.dim() < 2 and classes > max(MANY, len(train_y) if train_y.dim() else 0):
        raise AliveError(
            f"{name}: labels go up to {classes - 1}, and there are {train_y.numel()} training points",
            "Number the classes 0, 1, 2 and so on, or say how many classes there are; numbers to predict are real "
            "targets, which --loss mse and tensors(..., real=True) take",
        )
    return classes


def _is_whole(y: Tensor) -> bool:
    """Whether all are whole numbers, in whatever type they are held."""
    return not y.is_floating_point() or torch.equal(y.long().to(y.dtype), y)


def _may_be_labels(y: Tensor) -> bool:
    if not y.is_floating_point() or not y.numel():
        return True
    most = max(MANY, len(y) if y.dim() else 0)
    return _is_whole(y) and bool(y.min() >= 0) and bool(y.max() < most)


def tensor(name: str, what: str, values: Any) -> Tensor:
    """Whatever torch can make a tensor of, real numbers only."""
    try:
        made = torch.as_tensor(values)
    except (TypeError, ValueError, RuntimeError) as error:
        reason = str(error).split(". ")[0].rstrip(".")
        raise AliveError(
            f"{name}: {what} is not an array of numbers ({reason})", "Turn text and dates into numbers"
        ) from None
    if made.is_complex():
        raise AliveError(f"{name}: {what} is complex", "Give real numbers")
    return made


def _floats(name: str, what: str, given: Tensor) -> Tensor:
    made = given.to(torch.get_default_dtype())
    if given.is_floating_point() and bool((given.isfinite() & ~made.isfinite()).any()):
        raise AliveError(f"{name}: {what} holds numbers too large for {made.dtype}", "Scale them")
    return made


def _labels(given: Tensor) -> Tensor:
    return given.long()[:, 0] if given.dim() == 2 and given.shape[1] == 1 else given.long()


def whole(y: Any) -> Any:
    """Numbers as integers, if all of them are whole.

    >>> whole(np.array([1.0, 2.0])).dtype.kind, whole(np.array([1.5])).dtype.kind
    ('i', 'f')
    """
    return y.astype(np.int64) if y.dtype.kind == "f" and np.isfinite(y).all() and (y == np.rint(y)).all() else y


def number_classes(y: Iterable[str]) -> Any:
    """Texts as class numbers, in the order of the alphabet.

    >>> number_classes(["b", "a", "b"]).tolist()
    [1, 0, 1]
    """
    order = {text: number for number, text in enumerate(sorted(set(y)))}
    return np.array([order[text] for text in y], dtype=np.int64)
