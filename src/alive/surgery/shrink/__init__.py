"""The same function with fewer units: dead ones removed, linear ones merged, observed on data or proved over a box."""

from .operate import shrink
from .record import Shrunk

__all__ = ["Shrunk", "shrink"]
