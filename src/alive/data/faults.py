"""What must hold of a data set, each with the words for when it does not."""

from __future__ import annotations

import math

import torch
from torch import Tensor

IGNORED = -100  # the label of what is left out of a sequence, as in torch's cross_entropy
Faults = list[tuple[bool, str]]


def part_faults(where: str, x: tuple[Tensor, ...], y: Tensor, classes: int) -> Faults:
    """Of one set of points and targets."""
    points = x[0].shape[:1].numel() if x[0].dim() else 0
    return [
        *(fault for each in x for fault in _input_faults(where, each, points)),
        *(_real_faults(where, y, points) if classes == 0 else _label_faults(where, y, points, classes)),
    ]


def pair_faults(name: str, train: tuple[Tensor, ...], test: tuple[Tensor, ...]) -> Faults:
    """Of the test set beside the training set."""
    alike = len(train) == len(test)
    each = list(zip(train, test, strict=False))
    return [
        (
            alike and all(a.shape[1:] == b.shape[1:] for a, b in each),
            f"{name}: test points have another shape than training points",
        ),
        (
            all(kind(a) == kind(b) for a, b in each),
            f"{name}: training and test points must both be floats or both bytes or both whole numbers",
        ),
    ]


def scale_faults(name: str, x: Tensor, mean: tuple[float, ...] | None, std: tuple[float, ...] | None) -> Faults:
    """Images of bytes have a mean and a spread for each channel, floats have neither."""
    if mean is None or std is None:
        return [((mean is None) == (std is None) and not is_bytes(x), f"{name}: bytes need both mean and std")]
    channels = x.shape[1] if x.dim() == 4 else 0
    return [
        (
            is_bytes(x) and x.dim() == 4,
            f"{name}: mean and std are for bytes [N, C, H, W], got {x.dtype} {list(x.shape)}",
        ),
        (len(mean) == len(std) == channels, f"{name}: {channels} channels need as many means and stds"),
        (all(map(math.isfinite, mean)), f"{name}: every mean must be finite, got {mean}"),
        (all(0 < each < math.inf for each in std), f"{name}: every std must be above 0 and finite, got {std}"),
    ]


def is_bytes(x: Tensor) -> bool:
    """Whether these are images of bytes."""
    return x.dtype == torch.uint8


def kind(x: Tensor) -> str:
    """What points are held as: floats, bytes or whole numbers."""
    return "floats" if x.is_floating_point() else "bytes" if is_bytes(x) else "whole numbers"


def _input_faults(where: str, x: Tensor, points: int) -> Faults:
    infinite = _infinite(x)
    whole = x.dtype == torch.int64
    return [
        (
            x.dim() >= 2 - whole and x.numel() > 0,
            f"{where}: expected points [N, ...], at least one, got {list(x.shape)}",
        ),
        (
            x.is_floating_point() or is_bytes(x) or whole,
            f"{where}: points must be floats, bytes or int64, got {x.dtype}",
        ),
        (
            not x.dim() or len(x) == points,
            f"{where}: all inputs need as many points, got {points} and {list(x.shape)[:1]}",
        ),
        (not infinite, f"{where}: {infinite}"),
    ]


def _label_faults(where: str, y: Tensor, points: int, classes: int) -> Faults:
    wrong = (y < 0) | (y >= classes)
    if y.dim() > 1:
        wrong &= y != IGNORED
    return [
        (_fits(y, points), f"{where}: {points} points need labels [{points}], got {list(y.shape)}"),
        (not y.is_floating_point(), f"{where}: labels must be whole numbers, got {y.dtype}"),
        (
            not bool(wrong.any()),
            f"{where}: labels must lie in 0..{classes - 1}, got {y[wrong][:1].tolist()} ({int(wrong.sum())} such); "
            "number classes from 0, and take numbers to predict as real targets (--loss mse)",
        ),
    ]


def _real_faults(where: str, y: Tensor, points: int) -> Faults:
    infinite = _infinite(y)
    return [
        (_fits(y, points), f"{where}: {points} points need targets [{points}, ...], got {list(y.shape)}"),
        (y.is_floating_point(), f"{where}: real targets must be floats, got {y.dtype}"),
        (not infinite, f"{where}, targets: {infinite}"),
    ]


def _fits(y: Tensor, points: int) -> bool:
    return bool(y.dim()) and len(y) == points and y[:1].numel() > 0


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
