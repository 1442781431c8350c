"""The forms of what a sweep keeps for backward; a file of its own, that needs no compiler."""

from __future__ import annotations

NOTHING, LISTED, TIED, MARKED = range(4)
