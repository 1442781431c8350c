"""One-sided activations: where each stops passing a signal."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf, log

TOLERANCE = 0.1  # a slope below this counts as off, for activations that never reach zero


@dataclass(frozen=True, slots=True)
class Activation:
    """A one-sided activation: off at or below `cutoff`, saturated at or above `ceiling`.

    `leaks` says that some slope is left where it is off, as in LeakyReLU. Between cutoff and ceiling it is straight,
    unless it curves up to some `straight_from`: infinity where it always does, as GELU.

    >>> elu(alpha=2.0)
    Activation(name='elu', cutoff=-2.995732273553991, ceiling=inf)
    """

    name: str
    cutoff: float = 0.0
    ceiling: float = inf
    leaks: bool = field(default=False, repr=False)
    straight_from: float = field(default=-inf, repr=False)

    @classmethod
    def smooth(cls, name: str, cutoff: float = 0.0, straight_from: float = inf) -> Activation:
        """One that falls off gently, and so leaks, and curves where it is on."""
        return cls(name, cutoff, leaks=True, straight_from=straight_from)


def elu(alpha: float = 1.0) -> Activation:
    """Slope alpha·eᶻ falls to the tolerance at ln(tolerance/alpha), or jumps below it at 0 where alpha is smaller."""
    if alpha <= TOLERANCE:
        return Activation("elu", leaks=True)
    return Activation.smooth("elu", log(TOLERANCE / alpha), straight_from=0.0)


def celu(alpha: float = 1.0) -> Activation:
    """Slope e^(z/alpha) falls to the tolerance at alpha·ln(tolerance)."""
    return Activation.smooth("celu", alpha * log(TOLERANCE), straight_from=0.0)


def selu() -> Activation:
    """Slope scale·alpha·eᶻ falls to the tolerance at ln(tolerance/(scale·alpha))."""
    cutoff = log(TOLERANCE / (1.0507009873554805 * 1.6732632423543772))
    return Activation.smooth("selu", cutoff, straight_from=0.0)


def softplus(beta: float = 1.0) -> Activation:
    """Slope σ(beta·z) falls to the tolerance at logit(tolerance)/beta."""
    return Activation.smooth("softplus", log(TOLERANCE / (1 - TOLERANCE)) / beta)


def relu6(ceiling: float = 6.0) -> Activation:
    """A ReLU that also stops passing a signal at its ceiling."""
    return Activation("relu6", ceiling=ceiling)
