"""What decides a training run besides the model and the data."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from torch import Generator, nn, optim

from ..data import Augment
from ..errors import AliveError, expect, near
from ..nn.init import hidden_and_output


def whole(value: object, least: int) -> bool:
    """Whether a setting is a whole number from `least` on."""
    return isinstance(value, int) and not isinstance(value, bool) and least <= value < 2**63


def real(value: object) -> bool:
    """Whether a setting is a finite number."""
    return isinstance(value, int | float) and math.isfinite(value)


def above_zero_or_none(name: str, value: object) -> tuple[bool, str]:
    """What must hold of a rate that may be left out, and what to say if it does not."""
    return value is None or (real(value) and value > 0), f"{name} must be finite and above 0, got {value!r}"  # type: ignore[operator]


def reals(record: dict[str, Any], *names: str) -> dict[str, float]:
    """Whole numbers among these as reals, so that 1 and 1.0 are one setting."""
    return {name: float(record[name]) for name in names if isinstance(record.get(name), int)}


def chance(*numbers: int) -> Generator:
    """Randomness that follows from seed and place alone: (seed, epoch), and of one step (seed, epoch, step)."""
    seed = int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0] >> 1)
    return Generator().manual_seed(seed)


@dataclass(frozen=True, slots=True)
class LrSchedule:
    """The factor of the learning rate in each epoch: constant, `factor` at each milestone, or a cosine down to zero.

    As torch's MultiStepLR and CosineAnnealingLR over all epochs.

    >>> [LrSchedule("step", milestones=(2, 3), factor=0.5)(epoch, 4) for epoch in range(4)]
    [1.0, 1.0, 0.5, 0.25]
    """

    shape: str = "constant"
    milestones: tuple[int, ...] = ()
    factor: float = 0.1

    def __post_init__(self) -> None:
        shapes = ("constant", "step", "cosine")
        expect(
            [
                (self.shape in shapes, f"unknown lr schedule {self.shape!r}: {near(self.shape, shapes)}"),
                ((self.shape == "step") == bool(self.milestones), "milestones and the shape 'step' go together"),
                (all(whole(m, 1) for m in self.milestones), f"milestones must be epochs, got {self.milestones!r}"),
                (real(self.factor) and self.factor > 0, f"factor must be finite and above 0, got {self.factor!r}"),
            ]
        )

    def __call__(self, epoch: int, epochs: int) -> float:
        """The factor in an epoch counted from 0."""
        if self.shape == "cosine":
            return (1 + math.cos(math.pi * epoch / epochs)) / 2
        return float(self.factor ** sum(epoch >= milestone for milestone in self.milestones))


CONSTANT = LrSchedule()


@dataclass(frozen=True, slots=True)
class Settings:
    """One run, by default the papers' on MOONS: Adam as Keras sets it, full batches, data in order, seed 10.

    `batch_size` None takes all points at once. `momentum` is for sgd, `eps` for adam. `augment` changes the images of
    each step. `running` takes the training accuracy of the steps themselves, as Keras does, and so saves a pass over
    the training set an epoch. Without `decay_biases` weight decay leaves vectors alone. `channels_last` lays images
    out with the channels innermost. `output_lr` is the rate of the output layer, by default that of all: in a very deep
    network hidden layers want steps that shrink with depth, the output does not.

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
    schedule: LrSchedule = CONSTANT
    augment: Augment | None = None
    running: bool = False
    channels_last: bool = False
    decay_biases: bool = True
    output_lr: float | None = None

    def __post_init__(self) -> None:
        batch = self.batch_size is None or whole(self.batch_size, 1)
        expect(
            [
                (whole(self.epochs, 1), f"epochs must be a whole number of at least 1, got {self.epochs!r}"),
                (batch, f"batch_size must be None or a whole number of at least 1, got {self.batch_size!r}"),
                (
                    self.optimiser in OPTIMISERS,
                    f"unknown optimiser {self.optimiser!r}: {near(self.optimiser, OPTIMISERS)}",
                ),
                (real(self.lr) and self.lr > 0, f"lr must be finite and above 0, got {self.lr!r}"),
                above_zero_or_none("output_lr", self.output_lr),
                (
                    real(self.momentum) and 0 <= self.momentum < 1,
                    f"momentum must be at least 0 and below 1, got {self.momentum!r}",
                ),
                (
                    real(self.weight_decay) and self.weight_decay >= 0,
                    f"weight_decay must be finite and at least 0, got {self.weight_decay!r}",
                ),
                (real(self.eps) and self.eps > 0, f"eps must be finite and above 0, got {self.eps!r}"),
                (whole(self.seed, 0), f"seed must be a whole number of at least 0, got {self.seed!r}"),
            ]
        )

    @property
    def record(self) -> dict[str, Any]:
        """All that decides a run; without a rate of the output that is not asked for, which older files do not have."""
        return {name: value for name, value in asdict(self).items() if name != "output_lr" or value is not None}


Groups = list[dict[str, Any]]  # parameters, each group with its own learning rate and weight decay


def groups(model: nn.Module, trained: Sequence[nn.Parameter], settings: Settings) -> Groups:
    """The parameters to train in groups of one rate and decay; a model may define its own in `parameter_groups`."""
    own: Any = getattr(model, "parameter_groups", None)
    if own is not None:
        if settings.output_lr is not None:
            raise AliveError(
                f"{type(model).__name__} names rates of its own in parameter_groups", "Leave output_lr out"
            )
        return list(own(settings.lr, weight_decay=settings.weight_decay))
    output = set() if settings.output_lr is None else set(hidden_and_output(model, None)[1].parameters())
    found: dict[tuple[float, float], list[nn.Parameter]] = {}
    for p in trained:
        rate = settings.output_lr if settings.output_lr is not None and p in output else settings.lr
        decay = settings.weight_decay if settings.decay_biases or p.dim() > 1 else 0.0
        found.setdefault((rate, decay), []).append(p)
    return [{"params": some, "lr": rate, "weight_decay": decay} for (rate, decay), some in found.items()]


def _adam(parts: Groups, settings: Settings) -> optim.Optimizer:
    # One call for all parameters: the default takes six times as long for a hundred small ones.
    parameters = [p for part in parts for p in part["params"]]
    fused = all(p.device.type in ("cpu", "cuda") and p.is_floating_point() for p in parameters)
    return optim.Adam(parts, eps=settings.eps, fused=fused)


def _sgd(parts: Groups, settings: Settings) -> optim.Optimizer:
    return optim.SGD(parts, momentum=settings.momentum)


OPTIMISERS: dict[str, Callable[[Groups, Settings], optim.Optimizer]] = {"adam": _adam, "sgd": _sgd}
