"""Farkas surgery: layers of a finished model become Farkas layers, Farkas layers become plain ones."""

from .convert import Converted, FarkasSurgery, Kept, to_farkas, to_plain

__all__ = ["Converted", "FarkasSurgery", "Kept", "to_farkas", "to_plain"]
