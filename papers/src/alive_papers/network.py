"""What a cell trains and what is left of it, whichever engine does it."""

from __future__ import annotations

from typing import Any, Protocol

from alive.train.result import Best, EpochHealth

from .networks.zoo import Shape


class Network(Protocol):
    """The record of one network: what decides its result, what a reader calls it, what it costs, and who trains it."""

    @property
    def depth(self) -> int:
        """Hidden layers."""

    @property
    def width(self) -> int:
        """Units of a layer."""

    @property
    def method(self) -> str:
        """What is done for it: "ReLU", "Sep-UP"."""

    @property
    def seed(self) -> int:
        """Of its start, and of all chance while it trains."""

    @property
    def epochs(self) -> int:
        """Times over the data."""

    @property
    def lr(self) -> float:
        """The first learning rate."""

    @property
    def engine(self) -> str:
        """The name of the engine that trains it, see `train.engines`."""

    @property
    def label(self) -> str:
        """The method as a reader names it."""

    @property
    def keeps(self) -> bool:
        """Whether the trained network can be kept."""

    @property
    def settings(self) -> dict[str, Any]:
        """Everything that decides the result, and nothing that is not read; ready for JSON."""

    def cost(self, points: int | None = None, shape: Shape | None = None) -> float:
        """About how many seconds it takes on one core, shown so many points of a shape an epoch; ratios matter."""


class Outcome(Protocol):
    """What a trained network left."""

    @property
    def best(self) -> Best:
        """The best accuracies, train and test separately."""

    @property
    def last(self) -> EpochHealth | None:
        """The last recorded epoch, if there is one."""

    @property
    def stopped(self) -> str | None:
        """Why it ended before its last epoch, or None."""

    @property
    def curves(self) -> dict[str, list[float]]:
        """All recorded epochs by column; "epoch" is one of them."""

    @property
    def kept(self) -> tuple[bytes, int]:
        """The trained numbers as bytes, and how many of them at the end belong to norms."""
