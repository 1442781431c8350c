"""The same function with fewer units: dead ones removed, linear ones merged, observed on data or proved over a box."""

from typing import TYPE_CHECKING

from ...rooms import load_on_use

if TYPE_CHECKING:
    from .operate import shrink
    from .record import Shrunk
    from .saving import load_shrunk, save_shrunk

__all__ = ["Shrunk", "load_shrunk", "save_shrunk", "shrink"]

load_on_use(__name__)
