"""Advice: what a census means for training, and which cure was measured to work."""

from .findings import FIRST, SAME, Advice, advise, drowned, first_choice

__all__ = ["FIRST", "SAME", "Advice", "advise", "drowned", "first_choice"]
