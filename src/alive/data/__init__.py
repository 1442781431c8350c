"""Whatever people call data: as batches for a model, or as training and test points in memory."""

from typing import TYPE_CHECKING

from ..rooms import load_on_use

if TYPE_CHECKING:
    from .augment import Augment
    from .batches import Batches
    from .files import from_file
    from .intake import read
    from .record import Data, images, tensors
    from .sets import DATA, digits, friedman, load, moons

__all__ = [
    "DATA",
    "Augment",
    "Batches",
    "Data",
    "digits",
    "friedman",
    "from_file",
    "images",
    "load",
    "moons",
    "read",
    "tensors",
]

load_on_use(__name__)
