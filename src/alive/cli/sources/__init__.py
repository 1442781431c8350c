"""What the command line calls a model or data: names, files, and things of the user's own."""

from .imports import named
from .models import maker
from .opened import Opened, data, opened, part, tracked

__all__ = ["Opened", "data", "maker", "named", "opened", "part", "tracked"]
