"""What the command line calls a model or data: names, files, and things of the user's own."""

from typing import TYPE_CHECKING

from ...rooms import load_on_use

if TYPE_CHECKING:
    from .imports import find
    from .models import maker
    from .opened import Opened, data, opened, part, tracked

__all__ = ["Opened", "data", "find", "maker", "opened", "part", "tracked"]

load_on_use(__name__)
