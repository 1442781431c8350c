"""The store: finished work in one SQLite file, for any number of processes at once; who is at work on what."""

from .database import Database
from .heart import heart
from .records import Records, typed

__all__ = ["Database", "Records", "heart", "typed"]
