"""The record every data set becomes, checked once so that nothing downstream has to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from ..errors import AliveError, expect
from .arrays import Inputs, classes_of, inputs, targets
from .choice import choose
from .faults import is_bytes, kind, pair_faults, part_faults, scale_faults

Part = tuple[Inputs, Tensor]


@dataclass(frozen=True, slots=True, eq=False)
class Data:
    """Points [N, ...] and their targets [N, ...]; a test set is optional, both parts or neither.

    Targets are labels in 0..classes-1, or real numbers: then `classes` is 0. Labels [N] are the classes of points; the
    labels of parts of points, such as words, are [N, ...], and -100 there is left out.

    Points are floats, or images [N, C, H, W] of bytes with the mean and spread of each channel on the scale 0..1:
    a quarter of the memory. Networks read `pixels(batch)`, which is the batch itself where points are floats. Whole
    numbers (int64), such as token ids, stay whole. Further inputs of the model are `train_more` and `test_more`;
    `names` are the keywords of all its inputs, none if they go by position.

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
    names: tuple[str, ...] = ()
    train_more: Inputs = ()
    test_more: Inputs = ()

    def __post_init__(self) -> None:
        given = (self.train_x, *self.train_more)
        faults = [
            *scale_faults(self.name, self.train_x, self.mean, self.std),
            (
                self.classes == 0 or self.classes >= 2,
                f"{self.name}: there must be at least two classes, got {self.classes}",
            ),
            ((self.test_x is None) == (self.test_y is None), f"{self.name}: test points and test labels go together"),
            (len(self.names) in (0, len(given)), f"{self.name}: {len(given)} inputs need as many names"),
            *part_faults(f"{self.name}, training set", given, self.train_y, self.classes),
        ]
        if self.test_x is not None and self.test_y is not None:
            tested = (self.test_x, *self.test_more)
            faults += part_faults(f"{self.name}, test set", tested, self.test_y, self.classes)
            faults += pair_faults(self.name, given, tested)
            alike = self.test_y.shape[1:] == self.train_y.shape[1:]
            faults.append((alike, f"{self.name}: test targets have another shape than training targets"))
        expect(faults)

    @property
    def inputs(self) -> int:
        """Features of one point."""
        return self.train_x.shape[1:].numel()

    @property
    def outputs(self) -> int:
        """Outputs a network needs: one for two classes, else one a class; one for each real target."""
        if self.classes > 2 or (self.classes == 2 and self.train_y.dim() == 1):
            return 1 if self.classes == 2 else self.classes
        return self.train_y.shape[1:].numel()

    @property
    def is_real(self) -> bool:
        """Whether the targets are real numbers, not labels."""
        return self.classes == 0

    @property
    def train(self) -> tuple[Tensor, Tensor]:
        """Training points and targets."""
        return self.train_x, self.train_y

    @property
    def test(self) -> tuple[Tensor, Tensor] | None:
        """Test points and targets, where there are any."""
        return None if self.test_x is None or self.test_y is None else (self.test_x, self.test_y)

    @property
    def parts(self) -> list[Part]:
        """All inputs and the targets of the training set, and of the test set where there is one."""
        found = [((self.train_x, *self.train_more), self.train_y)]
        if self.test is not None:
            found.append(((self.test[0], *self.test_more), self.test[1]))
        return found

    def with_parts(self, train: Part, test: Part | None = None, **changes: Any) -> Data:
        """The same with other points."""
        (x, *more), y = train
        (test_x, *test_more), test_y = test or ((None,), None)
        tested: dict[str, Any] = {"test_x": test_x, "test_y": test_y, "test_more": tuple(test_more)}
        return replace(self, train_x=x, train_y=y, train_more=tuple(more), **tested, **changes)

    def expect_classes(self, what: str) -> None:
        """Refuse real targets, and labels of parts of points, for what is made for the classes of points."""
        if self.is_real or self.train_y.dim() > 1:
            held = "real targets" if self.is_real else "labels"
            raise AliveError(
                f"{what} needs one label a point, and {self.name} has {held} {list(self.train_y.shape)}",
                "Number the classes of the points 0, 1, 2 and so on, or train with alive.train.train",
            )

    def as_real(self) -> Data:
        """The same data with its labels as numbers to predict.

        >>> tensors([[0.0], [1.0]], [3, 5]).as_real().train_y
        tensor([3., 5.])
        """
        if self.is_real:
            return self
        dtype = torch.get_default_dtype()
        return self.with_parts(*((given, y.to(dtype)) for given, y in self.parts), classes=0)

    def as_floats(self) -> Data:
        """The same data with whole-number inputs as floats."""
        dtype = torch.get_default_dtype()

        def floats(x: Tensor) -> Tensor:
            return x.to(dtype) if kind(x) == "whole numbers" else x

        return self.with_parts(*((tuple(map(floats, given)), y) for given, y in self.parts))

    def pixels(self, x: Tensor, dtype: torch.dtype | None = None) -> Tensor:
        """What networks read of stored points x: numbers as they are, bytes as (x / 255 - mean) / std.

        >>> data = images(torch.tensor([[[[0, 255]]], [[[255, 0]]]], dtype=torch.uint8), [0, 1])
        >>> data.pixels(data.train_x).flatten().tolist()
        [-1.0, 1.0, 1.0, -1.0]
        """
        if self.mean is None or self.std is None:
            return x if dtype is None or not x.is_floating_point() else x.to(dtype)
        if not is_bytes(x):
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

        Of each class the first points are taken, or with a seed any; they stay in their order. Without one
        label a point, all points count as one class. All test points are kept unless `test` says otherwise. Mean and
        spread stay those of the whole set.

        >>> data = tensors([[0.0], [1.0], [2.0], [3.0], [4.0]], [0, 0, 0, 1, 1])
        >>> data.subset(4).train_x.flatten().tolist()
        [0.0, 1.0, 3.0, 4.0]
        """
        kept = choose(self.name, "training", self.train_y, train, seed=seed)
        name = (
            self.name if len(kept) == len(self.train_y) else f"{self.name}, {len(kept)} of {len(self.train_y)} points"
        )
        part, *tested = self.parts
        if test is not None:
            if self.test_y is None:
                raise AliveError(f"{self.name} has no test points to choose from", "Leave test out")
            tested = [rows(tested[0], choose(self.name, "test", self.test_y, test, seed=seed))]
        return self.with_parts(rows(part, kept), *tested, name=name)


def rows(part: Part, numbers: Tensor) -> Part:
    """The points of these numbers."""
    given, y = part
    return tuple(x[numbers] for x in given), y[numbers]


def tensors(
    x: Any,
    y: Any,
    *,
    test_x: Any = None,
    test_y: Any = None,
    classes: int | None = None,
    name: str = "tensors",
    integers: bool = False,
    real: bool | None = None,
) -> Data:
    """Make Data of arrays, lists or tensors; points become floats as they are, without scaling.

    A mapping or a tuple of tensors x holds several inputs of the model, passed by keyword or by position. With
    `integers` whole-number inputs, such as token ids, stay whole. Targets that are all whole numbers are labels, and
    the number of classes is one more than the largest unless given; others are real targets, and with `real` all are.

    >>> tensors([[0, 1], [2, 3], [4, 5]], [0, 1, 2]).classes
    3
    >>> tensors([[0, 1], [2, 3], [4, 5]], [[0.5, 1], [1, 2], [3, 4]]).outputs
    2
    """
    names, train = inputs(name, "x", x, integers=integers)
    tested, test = ((), ()) if test_x is None else inputs(name, "test_x", test_x, integers=integers)
    if test and set(names) != set(tested):
        raise AliveError(
            f"{name}: training inputs are named {', '.join(names) or 'nothing'}, test inputs {', '.join(tested)}",
            "Name them alike",
        )
    if names and test:
        test = tuple(dict(zip(tested, test, strict=True))[each] for each in names)
    train_y, test_y = targets(name, y, test_y, real=False if classes else real)
    if classes is None:
        classes = classes_of(name, train_y, test_y)
    first = test[0] if test else None
    return Data(name, train[0], train_y, first, test_y, classes, None, None, names, train[1:], test[1:])


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
    train_y, test_y = targets(name, y, test_y, real=False if classes else None)
    if classes is None:
        classes = classes_of(name, train_y, test_y)
    mean, std = channel_scale(x) if is_bytes(x) and x.dim() == 4 and x.numel() else (None, None)
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
