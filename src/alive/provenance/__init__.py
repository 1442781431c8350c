"""Provenance: which point and which unit every entry of a tensor belongs to, known or said to be unknown."""

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
