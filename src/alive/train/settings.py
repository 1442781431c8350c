"""What decides a training run besides the model and the data."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from torch import nn, optim

from ..errors import expect, near


@dataclass(frozen=True, slots=True)
class Settings:
    """One run, by default the papers' on MOONS: Adam as Keras sets it, full batches, data in order, seed 10.

    `batch_size` None takes all points at once. `momentum` is for sgd, `eps` for adam.

    >>> Settings(epochs=0, lr=-1)
    Traceback (most recent call last):
    ...
    alive.errors.AliveError: epochs must be a whole number of at least 1, got 0; lr must be finite and above 0, got -1.
    """

    epochs: int = 1000
    batch_size: int | None = None
    optimiser: str = "adam"
    lr: float = 0.01
    momentum: float = 0.9
    weight_decay: float = 0.0
    eps: float = 1e-7
    shuffle: bool = False
    seed: int = 10

    def __post_init__(self) -> None:
        batch = self.batch_size is None or _whole(self.batch_size, 1)
        expect(
            [
                (_whole(self.epochs, 1), f"epochs must be a whole number of at least 1, got {self.epochs!r}"),
                (batch, f"batch_size must be None or a whole number of at least 1, got {self.batch_size!r}"),
                (
                    self.optimiser in OPTIMISERS,
                    f"unknown optimiser {self.optimiser!r}: {near(self.optimiser, OPTIMISERS)}",
                ),
                (_real(self.lr) and self.lr > 0, f"lr must be finite and above 0, got {self.lr!r}"),
                (
                    _real(self.momentum) and 0 <= self.momentum < 1,
                    f"momentum must be at least 0 and below 1, got {self.momentum!r}",
                ),
                (
                    _real(self.weight_decay) and self.weight_decay >= 0,
                    f"weight_decay must be finite and at least 0, got {self.weight_decay!r}",
                ),
                (_real(self.eps) and self.eps > 0, f"eps must be finite and above 0, got {self.eps!r}"),
                (_whole(self.seed, 0), f"seed must be a whole number of at least 0, got {self.seed!r}"),
            ]
        )


def _adam(parameters: list[nn.Parameter], settings: Settings) -> optim.Optimizer:
    # One call for all parameters: the default takes six times as long for a hundred small ones.
    fused = all(p.device.type in ("cpu", "cuda") and p.is_floating_point() for p in parameters)
    return optim.Adam(parameters, lr=settings.lr, eps=settings.eps, weight_decay=settings.weight_decay, fused=fused)


def _sgd(parameters: list[nn.Parameter], settings: Settings) -> optim.Optimizer:
    return optim.SGD(parameters, lr=settings.lr, momentum=settings.momentum, weight_decay=settings.weight_decay)


OPTIMISERS: dict[str, Callable[[list[nn.Parameter], Settings], optim.Optimizer]] = {"adam": _adam, "sgd": _sgd}


def _whole(value: object, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value < 2**63


def _real(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)
