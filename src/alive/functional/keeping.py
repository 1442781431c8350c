"""Compiled functions, kept on disk for the next process where there is a place; where there is none they run too.

Numba itself refuses to define a function that it cannot keep, and passes on whatever a full disk or a damaged file of
an earlier process brings. What is kept only saves time: a fault there is no reason to stop.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from numba import njit
from numba.core.caching import FunctionCache

OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy"}  # free of Python's lock; x / 0 is an infinity


def compiled(function: Callable[..., Any], *, stamp: str | None = None, **options: Any) -> Any:
    """Compile at the first call, and keep the result beside the package, in NUMBA_CACHE_DIR or in the user's cache.

    What is kept counts as long as the function's file is the same, or, where given, the stamp. Without a folder that
    can be written, each process compiles anew.
    """
    dispatcher = njit(**OPTIONS, **options)(function)
    keep(dispatcher, function, stamp=stamp)
    return dispatcher


def keep(compiles: Any, function: Callable[..., Any], *, stamp: str | None = None) -> None:
    """Let what numba made of a function keep on disk what it compiles, if there is a place."""
    with suppress(RuntimeError, OSError):  # no place, or none that can be looked at
        compiles._cache = _Kept(function)
        if stamp is not None:
            compiles._cache._cache_file._source_stamp = stamp


class _Kept(FunctionCache):
    """Numba's own keeping of functions, which gives way to any fault of the disk."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """What an earlier process kept; nothing if it is damaged."""
        with suppress(Exception):
            return super().load_overload(sig, target_context)
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep it; a damaged index is replaced."""
        try:
            super().save_overload(sig, data)
        except Exception:
            with suppress(Exception):
                self.flush()
                super().save_overload(sig, data)
