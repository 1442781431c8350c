"""Diagnosis: what is dead, where, and what to do."""

from typing import TYPE_CHECKING

from ..rooms import load_on_use

if TYPE_CHECKING:
    from .census import census
    from .dormancy import Dormancy, dormancy
    from .gathered import gather
    from .limits import Limit
    from .rates import Rates
    from .record import Census, LayerCensus, Tally
    from .signal import Signal

__all__ = [
    "Census",
    "Dormancy",
    "LayerCensus",
    "Limit",
    "Rates",
    "Signal",
    "Tally",
    "census",
    "dormancy",
    "gather",
]

load_on_use(__name__)
