"""The clinic: broken networks of many kinds, the cures tried on each, and what came of it.

What the advice of a census says was measured here: `docs/advice.md` has the table.
"""

from typing import TYPE_CHECKING

from alive.rooms import load_on_use

if TYPE_CHECKING:
    from .book import Book, Trials, made, run
    from .patients import PATIENTS
    from .trial import ADVICE, HEALTHY, TRIED, Trial, treat, trials

__all__ = [
    "ADVICE",
    "HEALTHY",
    "PATIENTS",
    "TRIED",
    "Book",
    "Trial",
    "Trials",
    "made",
    "run",
    "treat",
    "trials",
]

load_on_use(__name__)
