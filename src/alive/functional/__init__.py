"""The mathematics on tensors: pure functions that modules and hooks only carry tensors to."""

from typing import TYPE_CHECKING

from ..rooms import load_on_use

if TYPE_CHECKING:
    from .activations import Activation
    from .separation import AGGREGATES, Separation, Slacks, aggregate, slacks
    from .states import State, classify

__all__ = ["AGGREGATES", "Activation", "Separation", "Slacks", "State", "aggregate", "classify", "slacks"]

load_on_use(__name__)
