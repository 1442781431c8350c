"""Farkas surgery: layers of a finished model become Farkas layers, Farkas layers become plain ones."""

from .convert import Converted, FarkasSurgery, to_farkas, to_plain

__all__ = ["Converted", "FarkasSurgery", "to_farkas", "to_plain"]
