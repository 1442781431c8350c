"""Smaller steps: all the way, or at first."""

from dataclasses import dataclass
from typing import Any

from .cure import Cure


@dataclass(frozen=True)
class Rate(Cure):
    """A fraction of the learning rate."""

    factor: int
    words: str
    changes = "the steps are smaller"
    small = True

    def optimiser(self, optimiser: Any) -> Any:
        for group in optimiser.param_groups:
            group["lr"] /= self.factor
        return optimiser


class WarmUp(Cure):
    """A rate that grows from a hundredth to what it is."""

    words = "let the learning rate grow over the first 100 steps"
    changes = "the first 100 steps are smaller"
    small = True

    def schedule(self, optimiser: Any) -> Any:
        import torch

        return torch.optim.lr_scheduler.LinearLR(optimiser, start_factor=0.01, total_iters=100)

    def stepped(self, schedule: Any) -> None:
        schedule.step()


CURES: dict[str, Cure] = {
    "rate/10": Rate(10, "take a tenth of the learning rate"),
    "rate/100": Rate(100, "take a hundredth of the learning rate"),
    "rate/1000": Rate(1000, "take a thousandth of the learning rate"),
    "warm-up": WarmUp(),
}
