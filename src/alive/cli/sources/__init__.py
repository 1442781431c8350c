"""What the command line calls a model or data: names, files, and things of the user's own."""

from .imports import line_of, named
from .models import is_own, maker, model
from .opened import Typed, found, opened, source_of, tracked
from .points import beside, data, labelled, part, record

__all__ = [
    "Typed",
    "beside",
    "data",
    "found",
    "is_own",
    "labelled",
    "line_of",
    "maker",
    "model",
    "named",
    "opened",
    "part",
    "record",
    "source_of",
    "tracked",
]
