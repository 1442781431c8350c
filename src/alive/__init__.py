"""alive keeps every unit and every training point of a network alive.

The public names load on first use, so that importing alive costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ._version import __version__
from .errors import AliveError, near

if TYPE_CHECKING:
    from . import data as data
    from . import diagnosis as diagnosis
    from . import functional as functional
    from . import nn as nn
    from . import penalties as penalties
    from . import surgery as surgery
    from . import taps as taps
    from . import theory as theory
    from . import train as train
    from .diagnosis import Census, census
    from .history import watch
    from .penalties import Jumpstart, Schedule
    from .race import cure
    from .surgery import revive
    from .taps import Taps

_HOME = {
    "Census": "diagnosis",
    "Jumpstart": "penalties",
    "Schedule": "penalties",
    "Taps": "taps",
    "census": "diagnosis",
    "cure": "race",
    "revive": "surgery",
    "watch": "history",
}
_ROOMS = ("data", "diagnosis", "functional", "nn", "penalties", "surgery", "taps", "theory", "train")

__all__ = [
    "AliveError",
    "Census",
    "Jumpstart",
    "Schedule",
    "Taps",
    "__version__",
    "census",
    "cure",
    "revive",
    "watch",
]  # `import *` keeps your nn


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return import_module(f".{name}", __name__)
    if name in _HOME:
        return getattr(import_module(f".{_HOME[name]}", __name__), name)
    hint = "" if name.startswith("_") else f": {near(name, __dir__())}"
    raise AttributeError(f"module 'alive' has no attribute {name!r}{hint}")


def __dir__() -> list[str]:
    return sorted([*__all__, *_ROOMS])
