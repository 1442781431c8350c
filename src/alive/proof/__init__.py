"""Proof: whether a cure in somebody's own training code does what it says, tried on units that are dead by design."""

from typing import TYPE_CHECKING

from ..rooms import load_on_use

if TYPE_CHECKING:
    from .trial import check_cure

__all__ = ["check_cure"]

load_on_use(__name__)
