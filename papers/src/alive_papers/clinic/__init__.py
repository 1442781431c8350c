"""The clinic: broken networks of many kinds, the cures tried on each, and what came of it.

What the advice of a census says was measured here: `docs/advice.md` has the table.
"""

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
