"""Training and test points as tensors in memory: sets that come with the package, and your own files."""

from .augment import Augment
from .files import from_file
from .record import Data, images, tensors
from .sets import DATA, digits, friedman, load, moons

__all__ = [
    "DATA",
    "Augment",
    "Data",
    "digits",
    "friedman",
    "from_file",
    "images",
    "load",
    "moons",
    "tensors",
]
