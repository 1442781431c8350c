"""Every penalty by its name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, Self

from torch import Tensor, nn

from ..errors import expect_one_of
from ..registry import Registry
from .jumpstart import Jumpstart
from .van import VANController
from .zero import zero_start


class Penalty(Protocol):
    """What keeps a model alive while it trains: made of the model, and let go of it at the end of a `with` block."""

    def penalty(self) -> Tensor:
        """The penalty of the forward pass just made, a scalar to add to the loss."""

    def set_progress(self, fraction: float) -> None:
        """Tell which part of all steps is done, from 0 to 1."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


PENALTIES: Registry[Callable[..., Penalty]] = Registry(
    "alive.penalties",
    "penalty",
    {
        "jumpstart": Jumpstart,
        "phase-out": VANController,
        "zero-start": zero_start,
    },  # each called with the model and its own options
    fault=lambda name, thing: "" if callable(thing) else f"it is {type(thing).__name__}, which makes no penalty",
)


def attach(name: str, model: nn.Module, **options: Any) -> Penalty:
    """The penalty of a name, attached to a model; options are the penalty's own.

    >>> with attach("jumpstart", nn.Sequential(nn.Linear(2, 2), nn.ReLU()), mode="U") as keep:
    ...     keep.rule.mode
    'U'
    """
    expect_one_of("penalty", name, PENALTIES)
    return PENALTIES[name](model, **options)
