"""A penalty that keeps units and points alive: at its default, by the aggregates of the papers, lighter, or none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import alive

from .cure import Cure


class Jumpstart(Cure):
    """The penalty at its default."""

    words = "keep units and points alive while it trains"
    changes = "the loss has one more term"

    def keep(self, model: Any) -> alive.Jumpstart:
        return alive.Jumpstart(model)

    def loss(self, loss: Any, keep: alive.Jumpstart) -> Any:
        return loss + keep.penalty()


@dataclass(frozen=True)
class Weighed(Jumpstart):
    """The penalty with a weight and an aggregate."""

    mode: str
    aggregate: str
    weight: float
    words: str = Jumpstart.words
    raced = False

    def keep(self, model: Any) -> alive.Jumpstart:
        return alive.Jumpstart(model, weight=self.weight, mode=self.mode, aggregate=self.aggregate)


class Lighter(Cure):
    """A penalty that is there weighs less."""

    words = "take a hundredth of the penalty's weight"
    changes = "one term of the loss is smaller"
    raced = False

    def keep(self, keep: alive.Jumpstart) -> alive.Jumpstart:
        keep.weight /= 100
        return keep


class Without(Cure):
    """A penalty that is there goes."""

    words = "train without the penalty"
    changes = "the loss has one term less"
    raced = False

    def keep(self, keep: alive.Jumpstart) -> None:
        keep.detach()


UNITS, POINTS = "keep units alive while it trains", "keep points alive while it trains"

CURES: dict[str, Cure] = {
    "jumpstart": Jumpstart(),
    "U sum": Weighed("U", "sumsq", 1e-4, UNITS),
    "P sum": Weighed("P", "sumsq", 1e-4, POINTS),
    "UP sum": Weighed("UP", "sumsq", 1e-4),
    "U mean": Weighed("U", "mean", 0.3, UNITS),
    "UP mean": Weighed("UP", "mean", 0.3),
    "weight/100": Lighter(),
    "no penalty": Without(),
}
