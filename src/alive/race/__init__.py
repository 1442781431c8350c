"""The race behind `alive.cure`: every cure that applies to a model, at equal budget, judged on held-out points."""

from .arms import AS_IS, RACED
from .race import cure
from .result import Outcome

__all__ = ["AS_IS", "RACED", "Outcome", "cure"]
