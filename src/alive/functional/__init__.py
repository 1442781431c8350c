"""The mathematics on tensors: pure functions that modules and hooks only carry tensors to."""

from .activations import Activation
from .separation import AGGREGATES, Separation, Slacks, aggregate, slacks
from .states import State, classify

__all__ = ["AGGREGATES", "Activation", "Separation", "Slacks", "State", "aggregate", "classify", "slacks"]
