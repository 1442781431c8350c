"""Farkas surgery: layers of a finished model become Farkas layers, Farkas layers become plain ones."""

from .convert import FarkasSurgery, to_farkas, to_plain

__all__ = ["FarkasSurgery", "to_farkas", "to_plain"]
