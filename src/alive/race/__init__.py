"""The race behind `alive.cure`: every cure that applies to a model, at equal budget, judged on held-out points."""

from .race import cure
from .result import Outcome

__all__ = ["Outcome", "cure"]
