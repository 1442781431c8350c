"""The same function with fewer units: dead ones removed, linear ones merged, observed on data or proved over a box."""

from .operate import shrink
from .record import Shrunk
from .saving import load_shrunk, save_shrunk

__all__ = ["Shrunk", "load_shrunk", "save_shrunk", "shrink"]
