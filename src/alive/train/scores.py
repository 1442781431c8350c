"""How good a network is, in sums that add up over parts of the data and over ranks: accuracy, R², or the loss."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from ..data.faults import IGNORED
from .losses import Loss, classes_last, paired, tensor_of


class Score(Protocol):
    """A number that grades a network on a set of points."""

    @property
    def name(self) -> str:
        """What its columns are called: accuracy, r2 or loss."""

    def sums(self, output: Any, y: Tensor) -> Tensor:
        """Of some points: float64, and NaN if the output is not finite; sums of all points are the sum of these."""

    def value(self, sums: Tensor, y: Tensor) -> float | None:
        """The score of all points, whose targets are y; None where it is not defined."""

    def chance(self, y: Tensor) -> float | None:
        """The score of the best answer that is the same for all points, 1 being perfect; None if it is not known."""


def right_class(output: Any, y: Tensor) -> tuple[Tensor, Tensor]:
    """Logits, and whether they name the class of each point: the sign of one logit, else the largest."""
    logits = tensor_of(output)
    one = logits if logits.dim() == 1 else logits[:, 0] if logits.shape[1] == 1 else None
    return logits, (logits.argmax(1) if one is None else (one > 0).long()) == y


def right_labels(output: Any, y: Tensor) -> tuple[Tensor, Tensor]:
    """Logits, and whether the largest is that of the label, for all labels that are not left out."""
    logits = classes_last(tensor_of(output), y)
    return logits, (logits.argmax(-1) == y)[y != IGNORED]


def right_signs(output: Any, y: Tensor) -> tuple[Tensor, Tensor]:
    """Logits, and whether each is above 0 where its target is above a half, and not elsewhere."""
    logits, wanted = paired(tensor_of(output), y, "bce")
    return logits, (logits > 0) == (wanted > 0.5)


@dataclass(frozen=True, slots=True)
class Accuracy:
    """The share of labels that are right.

    >>> score = Accuracy(right_signs)
    >>> y = torch.tensor([[0, 1], [1, 1]])
    >>> score.value(score.sums(torch.tensor([[-1.0, 2.0], [3.0, -1.0]]), y), y)
    0.75
    """

    right: Callable[[Any, Tensor], tuple[Tensor, Tensor]]
    name: str = "accuracy"

    def sums(self, output: Any, y: Tensor) -> Tensor:
        """How many are right, of how many."""
        logits, right = self.right(output, y)
        if not bool(logits.isfinite().all()):
            return torch.full((2,), torch.nan, dtype=torch.float64)
        return torch.tensor([int(right.sum()), right.numel()], dtype=torch.float64)

    def value(self, sums: Tensor, y: Tensor) -> float | None:
        """The share of those that count."""
        return float(sums[0] / sums[1]) if sums[1] else None

    def chance(self, y: Tensor) -> float | None:
        """The share of the commonest label; of several labels a point, each with a logit of its own, the mean of these.

        >>> Accuracy(right_class).chance(torch.tensor([0, 2, 2, 1]))
        0.5
        """
        if self.right is right_signs:
            share = (y.reshape(len(y), -1) > 0.5).double().mean(0)
            return torch.maximum(share, 1 - share).mean().item()
        counted = y[y >= 0]
        return counted.bincount().max().item() / counted.numel() if counted.numel() else None


@dataclass(frozen=True, slots=True)
class Fit:
    """R² of each output, 1 − Σ(y − ŷ)² / Σ(y − ȳ)², averaged over the outputs whose targets are not constant.

    >>> y = torch.tensor([[1.0, 7.0], [3.0, 7.0]])
    >>> Fit().value(Fit().sums(torch.tensor([[1.0, 9.0], [2.0, 9.0]]), y), y)
    0.5
    """

    name: str = "r2"

    def sums(self, output: Any, y: Tensor) -> Tensor:
        """Squared differences of each output."""
        answer, wanted = paired(tensor_of(output), y, "mse")
        return _columns(answer).sub(_columns(wanted)).square().sum(0).cpu()

    def value(self, sums: Tensor, y: Tensor) -> float | None:
        """The mean over outputs that have a spread to explain."""
        total = spreads(y)
        varies = total > 0
        return (1 - sums[varies] / total[varies]).mean().item() if bool(varies.any()) else None

    def chance(self, y: Tensor) -> float | None:
        """The mean of the targets explains nothing."""
        return 0.0


@dataclass(frozen=True, slots=True)
class Cost:
    """The loss itself, taken to be a mean over points."""

    loss: Loss
    name: str = "loss"

    def sums(self, output: Any, y: Tensor) -> Tensor:
        """Loss times points, and points."""
        return torch.tensor([self.loss(output, y).item() * len(y), len(y)], dtype=torch.float64)

    def value(self, sums: Tensor, y: Tensor) -> float | None:
        """The mean over all points."""
        return float(sums[0] / sums[1])

    def chance(self, y: Tensor) -> float | None:
        """Unknown."""
        return None


def spreads(y: Tensor) -> Tensor:
    """Σ(y − ȳ)² of each target, 0 if and only if it is constant.

    >>> spreads(torch.tensor([[0.1, 0.0], [0.1, 2.0], [0.1, 4.0]]))
    tensor([0., 8.], dtype=torch.float64)
    """
    flat = _columns(y).cpu()
    total = (flat - flat.mean(0)).square().sum(0)
    varies = flat.amax(0) > flat.amin(0)
    return torch.where(varies, total.clamp(min=torch.finfo(total.dtype).tiny), 0.0)


def _columns(y: Tensor) -> Tensor:
    """One column for each output, in float64: differences of large numbers keep their digits."""
    return y.detach().double().reshape(len(y), -1)
