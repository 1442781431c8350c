"""Provenance: which point and which unit every entry of a tensor belongs to, known or said to be unknown."""

from typing import TYPE_CHECKING

from ..rooms import load_on_use

if TYPE_CHECKING:
    from .inputs import by_name, count, enter, leaves, tensors
    from .layout import Grid, Layout, Scattered, read
    from .owners import INPUTS, Owners
    from .pairing import Pairing
    from .tracker import Tracker

__all__ = [
    "INPUTS",
    "Grid",
    "Layout",
    "Owners",
    "Pairing",
    "Scattered",
    "Tracker",
    "by_name",
    "count",
    "enter",
    "leaves",
    "read",
    "tensors",
]

load_on_use(__name__)
