"""Smaller steps."""

from dataclasses import dataclass
from typing import Any

from .cure import Cure


@dataclass(frozen=True)
class Rate(Cure):
    """A fraction of the learning rate."""

    factor: int
    words: str
    changes = "the steps are smaller"

    def optimiser(self, optimiser: Any) -> Any:
        for group in optimiser.param_groups:
            group["lr"] /= self.factor
        return optimiser


CURES = {
    "rate/10": Rate(10, "take a tenth of the learning rate"),
    "rate/100": Rate(100, "take a hundredth of the learning rate"),
    "rate/1000": Rate(1000, "take a thousandth of the learning rate"),
}
