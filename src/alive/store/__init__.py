"""The store: finished work in one SQLite file, for any number of processes at once; who is at work on what."""

from typing import TYPE_CHECKING

from ..rooms import load_on_use

if TYPE_CHECKING:
    from .database import Database
    from .heart import heart
    from .records import Records, typed

__all__ = ["Database", "Records", "heart", "typed"]

load_on_use(__name__)
