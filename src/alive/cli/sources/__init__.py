"""What the command line calls a model or data: names, files, and things of the user's own."""

from .imports import named
from .models import Maker, expect_plain, is_own, maker, model
from .opened import Opened, Typed, found, opened, source_of, tracked
from .points import beside, data, labelled, part, record

__all__ = [
    "Maker",
    "Opened",
    "Typed",
    "beside",
    "data",
    "expect_plain",
    "found",
    "is_own",
    "labelled",
    "maker",
    "model",
    "named",
    "opened",
    "part",
    "record",
    "source_of",
    "tracked",
]
