"""Taps on the pre-activations of any module."""

from typing import TYPE_CHECKING

from ..rooms import load_on_use

if TYPE_CHECKING:
    from .declared import UNDECLARED, Declared, Output
    from .hooks import watchers
    from .models import bare
    from .records import Call, Tap, Unseen, Watcher
    from .selections import NOUNS, Selection, Selects
    from .taps import Taps

__all__ = [
    "NOUNS",
    "UNDECLARED",
    "Call",
    "Declared",
    "Output",
    "Selection",
    "Selects",
    "Tap",
    "Taps",
    "Unseen",
    "Watcher",
    "bare",
    "watchers",
]

load_on_use(__name__)
