"""The race behind `alive.cure`: every cure that applies to a model, at equal budget, judged on held-out points."""

from typing import TYPE_CHECKING

from ..rooms import load_on_use

if TYPE_CHECKING:
    from .race import cure
    from .result import Outcome

__all__ = ["Outcome", "cure"]

load_on_use(__name__)
