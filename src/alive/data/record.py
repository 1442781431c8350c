"""The record every data set becomes, checked once so that nothing downstream has to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..errors import AliveError, expect


@dataclass(frozen=True, slots=True, eq=False)
class Data:
    """Points [N, ...] and their labels [N] in 0..classes-1; a test set is optional, both parts or neither.

    >>> data = Data("line", torch.tensor([[0.0], [1.0]]), torch.tensor([0, 1]), None, None, 2)
    >>> data.inputs, data.outputs
    (1, 1)
    """

    name: str
    train_x: Tensor
    train_y: Tensor
    test_x: Tensor | None
    test_y: Tensor | None
    classes: int

    def __post_init__(self) -> None:
        expect(
            [
                (self.classes >= 2, f"{self.name}: there must be at least two classes, got {self.classes}"),
                (
                    (self.test_x is None) == (self.test_y is None),
                    f"{self.name}: test points and test labels go together",
                ),
                *_faults(f"{self.name}, training set", self.train_x, self.train_y, self.classes),
                *(
                    _faults(f"{self.name}, test set", self.test_x, self.test_y, self.classes)
                    if self.test_x is not None and self.test_y is not None
                    else []
                ),
                (
                    self.test_x is None or self.test_x.shape[1:] == self.train_x.shape[1:],
                    f"{self.name}: test points have another shape than training points",
                ),
            ]
        )

    @property
    def inputs(self) -> int:
        """Features of one point."""
        return self.train_x.shape[1:].numel()

    @property
    def outputs(self) -> int:
        """Logits a network needs: one for two classes, else one a class."""
        return 1 if self.classes == 2 else self.classes

    @property
    def train(self) -> tuple[Tensor, Tensor]:
        """Training points and labels."""
        return self.train_x, self.train_y

    @property
    def test(self) -> tuple[Tensor, Tensor] | None:
        """Test points and labels, where there are any."""
        return None if self.test_x is None or self.test_y is None else (self.test_x, self.test_y)


def tensors(
    x: Any,
    y: Any,
    *,
    test_x: Any = None,
    test_y: Any = None,
    classes: int | None = None,
    name: str = "tensors",
) -> Data:
    """Make Data of arrays, lists or tensors; points become floats as they are, without scaling.

    The number of classes is one more than the largest label unless given.

    >>> tensors([[0, 1], [2, 3], [4, 5]], [0, 1, 2]).classes
    3
    """
    train_x, train_y = _points(name, "x", x), _labels(name, "y", y)
    test_x = None if test_x is None else _points(name, "test_x", test_x)
    test_y = None if test_y is None else _labels(name, "test_y", test_y)
    if classes is None:
        seen = (train_y, test_y) if isinstance(test_y, Tensor) else (train_y,)
        classes = max([2, *(int(labels.max()) + 1 for labels in seen if labels.numel())])
    return Data(name, train_x, train_y, test_x, test_y, classes)


def _points(name: str, what: str, values: Any) -> Tensor:
    return _tensor(name, what, values).to(torch.get_default_dtype())


def _labels(name: str, what: str, values: Any) -> Tensor:
    labels = _tensor(name, what, values)
    whole = labels.long()
    if not torch.equal(whole.to(labels.dtype), labels):
        raise AliveError(f"{name}: {what} must hold whole numbers", "Number the classes 0, 1, 2 ...")
    return whole


def _tensor(name: str, what: str, values: Any) -> Tensor:
    try:
        tensor = torch.as_tensor(values)
    except (TypeError, ValueError, RuntimeError) as error:
        raise AliveError(f"{name}: {what} is no array of numbers ({error})") from None
    if tensor.is_complex():
        raise AliveError(f"{name}: {what} is complex", "Give real numbers")
    return tensor


def _faults(where: str, x: Tensor, y: Tensor, classes: int) -> list[tuple[bool, str]]:
    """What must hold of one set of points and labels."""
    wrong = (y < 0) | (y >= classes)
    infinite = _infinite(x)
    points = x.shape[:1].numel() if x.dim() else 0
    return [
        (x.dim() >= 2 and x.numel() > 0, f"{where}: expected points [N, ...], at least one, got {list(x.shape)}"),
        (x.is_floating_point(), f"{where}: points must be floats, got {x.dtype}"),
        (not infinite, f"{where}: {infinite}"),
        (y.shape == (points,), f"{where}: {points} points need labels [{points}], got {list(y.shape)}"),
        (not y.is_floating_point(), f"{where}: labels must be whole numbers, got {y.dtype}"),
        (
            not bool(wrong.any()),
            f"{where}: labels must lie in 0..{classes - 1}, got {y[wrong][:1].tolist()} ({int(wrong.sum())} such)",
        ),
    ]


def _infinite(x: Tensor) -> str:
    """Say how many numbers are NaN or infinite and where the first stands; nothing if all is well."""
    wrong = ~torch.isfinite(x)
    count = int(wrong.sum())
    if count == 0:
        return ""
    return f"{count} of {x.numel()} numbers are NaN or infinite, the first at index {wrong.nonzero()[0].tolist()}"
