"""Networks whose depth and width are free, how their weights start, and dropout that fades away."""

from .dropout import AnnealedDropout, set_epoch
from .init import INITIALISERS, initialise_
from .rectangular import Rectangular, RectangularConv, parse_rectangle

__all__ = [
    "INITIALISERS",
    "AnnealedDropout",
    "Rectangular",
    "RectangularConv",
    "initialise_",
    "parse_rectangle",
    "set_epoch",
]
