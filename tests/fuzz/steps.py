"""What a program is made of: steps on one tensor, and the owners of every entry beside it."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any

import numpy as np
import torch
from case import Layer
from owners import MANY, MIXED, NONE, RAW, Labels, settled
from torch import Tensor, nn

SIZES = (1, 2, 3, 4, 6)
LARGEST = 1200  # entries of one tensor


@dataclass(frozen=True)
class Known:
    """A tensor, and the point and the unit of every entry."""

    value: Tensor
    point: Labels
    unit: Labels

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.value.shape)

    @property
    def ndim(self) -> int:
        return self.value.ndim


Before = Sequence[Known]
Owners = tuple[Labels, Labels]
Run = Callable[["Step", Tensor, Sequence[Tensor]], Tensor]
Who = Callable[["Step", Known, Before], Owners]


class Step(nn.Module):
    """One step of a program: what it does to a tensor, and, by rules of its own, to the owners of its entries."""

    def __init__(self, text: str, run: Run, who: Who, **parts: Any) -> None:
        super().__init__()
        self.number = 0
        self.text, self.run, self.who = text, run, who
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, h: Tensor, before: Sequence[Tensor]) -> Tensor:
        return self.run(self, h, before)

    def track(self, h: Known, before: Before, seen: list[Layer]) -> Known:
        """The step with the owners of what it makes; activations are added to what was seen."""
        point, unit = self.who(self, h, before)
        value = self(h.value, [k.value for k in before])
        assert value.shape == point.shape == unit.shape, f"{self.text}: {value.shape}, {point.shape}, {unit.shape}"
        return Known(value, point, unit)


def seen_as(name: str, h: Known, cutoff: float = 0.0, ceiling: float = inf) -> list[Layer]:
    """What an activation sees, as the judge takes it: no layer if it depends on no point."""
    if (h.point == NONE).all():
        return []
    point, unit = (torch.from_numpy(settled(labels).copy()) for labels in (h.point, h.unit))
    return [Layer(h.value.clone(), point, unit, cutoff, ceiling, name)]


def said(layer: Layer, points: int) -> Layer:
    """The layer with what can be said of it: where some entry is nobody's, nothing of all points, or of all units.

    A statistic is of no point; beside entries of every point it is left out, elsewhere it may hide some.
    """
    point, unit = layer.point, layer.unit
    hides = (point == MANY).any() and len(point[point >= 0].unique()) < points
    if hides or (point == MIXED).any():
        point = torch.full_like(point, NONE)
    if (unit < 0).any():
        unit = torch.full_like(unit, NONE)
    return replace(layer, point=point.clamp(min=NONE), unit=unit)


class Draw:
    """Chance: sizes that often coincide, axes, weights."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.torch = torch.Generator().manual_seed(seed)
        self.steps: Sequence[Step] = ()  # those before
        self.first_unit = 0

    @classmethod
    def after(cls, steps: Sequence[Step], seed: int) -> Draw:
        """For the next step, whose units are others than those of the steps before."""
        draw = cls(seed)
        draw.steps, draw.first_unit = steps, 1000 * (1 + len(steps))
        return draw

    def size(self) -> int:
        return self.chance.choice(SIZES)

    def one_of(self, options: Sequence[Any]) -> Any:
        return self.chance.choice(options)

    def axis(self, ndim: int) -> int:
        return self.chance.randrange(ndim)

    def maybe(self, share: float = 0.5) -> bool:
        return self.chance.random() < share

    def weight(self, *shape: int) -> nn.Parameter:
        return nn.Parameter(torch.randn(*shape, generator=self.torch) / max(1.0, shape[-1] ** 0.5))

    def bias(self, *shape: int) -> nn.Parameter:
        """Some units far below zero, some far above."""
        offsets = torch.tensor([-2.5, 0.0, 0.0, 0.0, 2.5])[torch.randint(5, shape, generator=self.torch)]
        return nn.Parameter(offsets + 0.3 * torch.randn(*shape, generator=self.torch))

    def with_weights(self, module: nn.Module) -> nn.Module:
        """The module with weights and biases of ours."""
        for name, p in module.named_parameters():
            with torch.no_grad():
                p.copy_(self.bias(*p.shape) if "bias" in name else self.weight(*p.shape) * 1.5)
        return module

    def units(self, count: int, operation: int = 0) -> Labels:
        """Labels for the output features of one weighted operation of the step."""
        return self.first_unit + 100 * operation + np.arange(count)


Maker = Callable[[Draw, Known, Before], Step | None]


def keep(me: Step, h: Known, before: Before) -> Owners:
    """Whose the entries were, they are."""
    return h.point, h.unit


def is_raw(h: Known) -> bool:
    """Whether some entry has seen no weighted operation yet."""
    return bool((h.unit == RAW).any())
