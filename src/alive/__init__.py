"""alive keeps every unit and every training point of a network alive.

The public names load on first use, so that importing alive costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ._version import __version__
from .errors import AliveError

if TYPE_CHECKING:
    from .diagnosis import Census, census
    from .penalties import Jumpstart, Schedule
    from .taps import Taps

_HOME = {
    "Census": "diagnosis",
    "Jumpstart": "penalties",
    "Schedule": "penalties",
    "Taps": "taps",
    "census": "diagnosis",
}

__all__ = ["AliveError", "Census", "Jumpstart", "Schedule", "Taps", "__version__", "census"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'alive' has no attribute {name!r}")
    return getattr(import_module(f".{_HOME[name]}", __name__), name)
