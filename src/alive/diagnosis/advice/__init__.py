"""Advice: what a census means for training, and which cure was measured to work."""

from .findings import Advice, advise, drowned, first_choice

__all__ = ["Advice", "advise", "drowned", "first_choice"]
