"""The record every data set becomes, checked once so that nothing downstream has to."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from ..errors import AliveError, expect
from .choice import choose

MANY = 10_000  # classes that even a smaller number of points may have


@dataclass(frozen=True, slots=True, eq=False)
class Data:
    """Points [N, ...] and their labels [N] in 0..classes-1; a test set is optional, both parts or neither.

    Points are floats, or images [N, C, H, W] of bytes with the mean and spread of each channel on the scale 0..1:
    a quarter of the memory. Networks read `pixels(batch)`, which is the batch itself where points are floats.

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
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        expect(
            [
                *_scale_faults(self.name, self.train_x, self.mean, self.std),
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
                (
                    self.test_x is None or _bytes(self.test_x) == _bytes(self.train_x),
                    f"{self.name}: training and test points must both be floats or both bytes",
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

    def pixels(self, x: Tensor, dtype: torch.dtype | None = None) -> Tensor:
        """What networks read of stored points x: floats as they are, bytes as (x / 255 - mean) / std.

        >>> data = images(torch.tensor([[[[0, 255]]], [[[255, 0]]]], dtype=torch.uint8), [0, 1])
        >>> data.pixels(data.train_x).flatten().tolist()
        [-1.0, 1.0, 1.0, -1.0]
        """
        if self.mean is None or self.std is None:
            return x if dtype is None else x.to(dtype)
        if not _bytes(x):
            raise AliveError(
                f"{self.name}: pixels expects stored bytes, got {x.dtype}", "Give a part of train_x or test_x"
            )
        x = x.to(dtype or torch.get_default_dtype())
        mean, std = (x.new_tensor(part)[:, None, None] for part in (self.mean, self.std))
        return x.mul_(1 / (255 * std)).sub_(mean / std)

    def unscaled(self) -> Data:
        """The same images read as x / 255, without mean and spread; float data as they are."""
        if self.mean is None:
            return self
        return replace(self, mean=(0.0,) * len(self.mean), std=(1.0,) * len(self.mean))

    def subset(
        self,
        train: int | Sequence[int] | Tensor,
        *,
        test: int | Sequence[int] | Tensor | None = None,
        seed: int | None = None,
    ) -> Data:
        """Fewer points: a count, spread evenly over classes, or the point numbers themselves.

        Of each class the first points are taken, or with a seed any; they stay in their order. All test points are
        kept unless `test` says otherwise. Mean and spread stay those of the whole set.

        >>> data = tensors([[0.0], [1.0], [2.0], [3.0], [4.0]], [0, 0, 0, 1, 1])
        >>> data.subset(4).train_x.flatten().tolist()
        [0.0, 1.0, 3.0, 4.0]
        """
        kept = choose(self.name, "training", self.train_y, train, seed=seed)
        name = (
            self.name if len(kept) == len(self.train_y) else f"{self.name}, {len(kept)} of {len(self.train_y)} points"
        )
        part = replace(self, name=name, train_x=self.train_x[kept], train_y=self.train_y[kept])
        if test is None:
            return part
        if self.test_x is None or self.test_y is None:
            raise AliveError(f"{self.name} has no test points to choose from", "Leave test out")
        kept = choose(self.name, "test", self.test_y, test, seed=seed)
        return replace(part, test_x=self.test_x[kept], test_y=self.test_y[kept])


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
        classes = _classes(name, train_y, test_y)
    return Data(name, train_x, train_y, test_x, test_y, classes)


def images(
    x: Tensor,
    y: Any,
    *,
    test_x: Tensor | None = None,
    test_y: Any = None,
    classes: int | None = None,
    name: str = "images",
) -> Data:
    """Make Data of images of bytes [N, C, H, W], held as they are; mean and spread are those of the training set.

    >>> images(torch.tensor([[[[0, 255]]], [[[255, 255]]]], dtype=torch.uint8), [0, 1]).mean
    (0.75,)
    """
    train_y = _labels(name, "y", y)
    test_y = None if test_y is None else _labels(name, "test_y", test_y)
    if classes is None:
        classes = _classes(name, train_y, test_y)
    mean, std = channel_scale(x) if _bytes(x) and x.dim() == 4 and x.numel() else (None, None)
    return Data(name, x, train_y, test_x, test_y, classes, mean, std)


def channel_scale(x: Tensor) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and spread of each channel of bytes [N, C, H, W], on the scale 0..1; a channel without spread has spread 1.

    Counted exactly: how often each of the 256 values occurs says all.

    >>> channel_scale(torch.tensor([[[[0, 255]], [[51, 51]]]], dtype=torch.uint8))
    ((0.5, 0.2), (0.5, 1.0))
    """
    values = torch.arange(256, dtype=torch.float64) / 255
    means, stds = [], []
    for channel in x.unbind(1):
        part = torch.bincount(channel.flatten(), minlength=256).double() / channel.numel()
        mean = float((part * values).sum())
        spread = float((part * (values - mean) ** 2).sum().sqrt())
        means.append(mean)
        stds.append(spread if spread > 1e-6 else 1.0)
    return tuple(means), tuple(stds)


def _points(name: str, what: str, values: Any) -> Tensor:
    given = _tensor(name, what, values)
    points = given.to(torch.get_default_dtype())
    if given.is_floating_point() and bool((given.isfinite() & ~points.isfinite()).any()):
        raise AliveError(f"{name}: {what} holds numbers too large for {points.dtype}", "Scale them")
    return points


def _labels(name: str, what: str, values: Any) -> Tensor:
    labels = _tensor(name, what, values)
    whole = labels.long()
    if not torch.equal(whole.to(labels.dtype), labels):
        raise AliveError(f"{name}: {what} must hold whole numbers", "Number the classes 0, 1, 2 and so on")
    return whole


def _classes(name: str, train_y: Tensor, test_y: Tensor | None) -> int:
    """One more than the largest label, at least two; labels that cannot be class numbers are refused."""
    seen = (train_y,) if test_y is None else (train_y, test_y)
    classes = max([2, *(int(labels.max()) + 1 for labels in seen if labels.numel())])
    if classes > max(MANY, len(train_y) if train_y.dim() else 0):
        raise AliveError(
            f"{name}: labels go up to {classes - 1}, and there are {train_y.numel()} training points",
            "Number the classes 0, 1, 2 and so on, or say how many classes there are",
        )
    return classes


def _tensor(name: str, what: str, values: Any) -> Tensor:
    try:
        tensor = torch.as_tensor(values)
    except (TypeError, ValueError, RuntimeError) as error:
        reason = str(error).split(". ")[0].rstrip(".")
        raise AliveError(
            f"{name}: {what} is no array of numbers ({reason})", "Turn text and dates into numbers"
        ) from None
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
        (x.is_floating_point() or _bytes(x), f"{where}: points must be floats or bytes, got {x.dtype}"),
        (not infinite, f"{where}: {infinite}"),
        (y.shape == (points,), f"{where}: {points} points need labels [{points}], got {list(y.shape)}"),
        (not y.is_floating_point(), f"{where}: labels must be whole numbers, got {y.dtype}"),
        (
            not bool(wrong.any()),
            f"{where}: labels must lie in 0..{classes - 1}, got {y[wrong][:1].tolist()} ({int(wrong.sum())} such)",
        ),
    ]


def _scale_faults(
    name: str, x: Tensor, mean: tuple[float, ...] | None, std: tuple[float, ...] | None
) -> list[tuple[bool, str]]:
    """Images of bytes have a mean and a spread for each channel, floats have neither."""
    if mean is None or std is None:
        return [((mean is None) == (std is None) and not _bytes(x), f"{name}: bytes need both mean and std")]
    channels = x.shape[1] if x.dim() == 4 else 0
    return [
        (_bytes(x) and x.dim() == 4, f"{name}: mean and std are for bytes [N, C, H, W], got {x.dtype} {list(x.shape)}"),
        (len(mean) == len(std) == channels, f"{name}: {channels} channels need as many means and stds"),
        (all(map(math.isfinite, mean)), f"{name}: every mean must be finite, got {mean}"),
        (all(0 < each < math.inf for each in std), f"{name}: every std must be above 0 and finite, got {std}"),
    ]


def _bytes(x: Tensor) -> bool:
    return x.dtype == torch.uint8


def _infinite(x: Tensor) -> str:
    """Say how many numbers are NaN or infinite and where the first stands; nothing if all is well."""
    if not x.is_floating_point():
        return ""
    wrong = ~torch.isfinite(x)
    count = int(wrong.sum())
    if count == 0:
        return ""
    first = wrong.nonzero()[0].tolist()
    return f"{count} of {x.numel()} numbers are NaN or infinite, the first at index {first}; leave such points out"
