"""What a loss says of a model on some points: its value, what one answer for all points reaches, and how it pulls."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

LEARNED = 0.02  # of the way from chance to a loss of 0: less is nothing learned
ENOUGH = 1000  # points, from which chance is sought


@dataclass(frozen=True, slots=True)
class Task:
    """The loss of a model over some points. Parts of the data add up: `a.plus(b)`.

    value   its mean over batches
    chance  what the best answer that is the same for all points reaches; None where that is not known
    pull    the size of its gradient, in shares of the size of the weights; the mean over batches
    is_sum  whether it grows with the number of points, as a sum does; None where that is not known
    """

    value: float
    chance: float | None
    pull: float | None
    is_sum: bool | None
    points: int

    def plus(self, other: Task) -> Task:
        """Both parts of the data."""
        share = other.points / (self.points + other.points)

        def mean(a: float | None, b: float | None) -> float | None:
            return None if a is None or b is None else a + share * (b - a)

        value = self.value + share * (other.value - self.value)
        pull, chance = mean(self.pull, other.pull), mean(self.chance, other.chance)
        return Task(value, chance, pull, self.is_sum, self.points + other.points)

    @property
    def is_at_chance(self) -> bool:
        """Whether next to nothing is learned."""
        return self.chance is not None and not self.value < self.chance * (1 - LEARNED)

    @property
    def sentence(self) -> str:
        """All of it in words."""
        if not math.isfinite(self.value):
            return f"The loss is {self.value}."
        beside = "" if self.chance is None else f"; one answer for all points reaches {self.chance:.3g}"
        pull = "" if self.pull is None else f" Its gradient has {self.pull:.1e} of the size of the weights."
        total = " It grows with the number of points: it is a sum, not a mean." if self.is_sum else ""
        return f"The loss is {self.value:.3g}{beside}.{pull}{total}"


def task(
    loss: Callable[[Any, Any], Tensor], value: Tensor, output: Any, y: Any, gradients: Sequence[Tensor | None],
    weights: Sequence[Tensor],
) -> Task:  # fmt: skip
    """The task of one batch, from its loss, what made it, and the gradients of the weights."""
    points = len(y) if isinstance(y, Tensor) and y.ndim else 1
    known = isinstance(output, Tensor) and isinstance(y, Tensor) and output.ndim > 0 and len(output) == points > 1
    size = _norm(weights)
    pull = _norm([g for g in gradients if g is not None]) / size if size else None
    chance = constant(loss, output, y, ENOUGH) if known and math.isfinite(float(value)) else None
    return Task(float(value), chance, pull, _is_sum(loss, float(value), output, y) if known else None, points)


def constant(
    loss: Callable[[Any, Any], Tensor], output: Tensor, y: Tensor, most: int, judges: Tensor | None = None
) -> float | None:  # fmt: skip
    """The loss of the best constant answer, sought downhill; on `judges`, if they are given, else on y."""
    answer = nn.Parameter(output.detach().nan_to_num(0.0, 0.0, 0.0).mean(0))
    some, judges = y[:most].to(answer.device), (y if judges is None else judges).to(answer.device)
    optimiser = torch.optim.LBFGS([answer], max_iter=100, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        optimiser.zero_grad()
        value = loss(answer.expand(len(some), *answer.shape), some)
        value.backward()
        return value

    try:
        with torch.enable_grad():
            optimiser.step(closure)
        value = float(loss(answer.detach().expand(len(judges), *answer.shape), judges))
    except Exception:  # a loss that wants more than answers and targets of these shapes
        return None
    return value if math.isfinite(value) else None


def _is_sum(loss: Callable[[Any, Any], Tensor], value: float, output: Tensor, y: Tensor) -> bool | None:
    """Whether two halves of the points have the loss of all together, rather than each about as much."""
    half = len(y) // 2
    try:
        with torch.no_grad():
            parts = [float(loss(output[part].detach(), y[part])) for part in (slice(half), slice(half, None))]
    except Exception:  # a loss that wants all of them
        return None
    return abs(sum(parts) - value) < abs(sum(parts) / 2 - value) if value else None


def _norm(parts: Sequence[Tensor]) -> float:
    return math.sqrt(sum(float(part.detach().double().square().sum()) for part in parts))
