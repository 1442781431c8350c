"""Training and test points as tensors in memory: small sets that come along, and files of one's own."""

from .files import from_file
from .record import Data, tensors
from .sets import DATA, digits, load, moons

__all__ = ["DATA", "Data", "digits", "from_file", "load", "moons", "tensors"]
