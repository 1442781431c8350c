"""The theorems of 003, Identity Matters, as functions one can call and check."""

from typing import TYPE_CHECKING

from alive.rooms import load_on_use

if TYPE_CHECKING:
    from .linear_residual import Landscape, landscape, study
    from .memoriser import Memorised, memorise
    from .near_identity import Factorisation, factor_near_identity

__all__ = ["Factorisation", "Landscape", "Memorised", "factor_near_identity", "landscape", "memorise", "study"]

load_on_use(__name__)
