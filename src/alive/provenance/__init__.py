"""Provenance: which point and which unit every entry of a tensor belongs to, known or said to be unknown."""

from .inputs import count, enter, leaves, tensors
from .layout import Grid, Layout, Scattered, read
from .owners import Owners
from .tracker import Tracker

__all__ = ["Grid", "Layout", "Owners", "Scattered", "Tracker", "count", "enter", "leaves", "read", "tensors"]
