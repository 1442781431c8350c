"""How the kernels are compiled: once, kept on disk, free of Python's lock; dividing by zero gives an infinity.

No fast-math flag is set: an infinity or NaN must come out as one, for the loss to see and the member to be frozen.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

from numba import njit

OPTIONS: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy"}
SOURCES = sha256(b"".join(path.read_bytes() for path in sorted(Path(__file__).parent.glob("*.py")))).hexdigest()


def _kept(**more: Any) -> Callable[[Callable[..., Any]], Any]:
    """Compile and keep on disk, as long as no file of this folder changes.

    Numba asks only whether the file of the function itself changed; but kernels grow into their callers in other files.
    """

    def decorate(function: Callable[..., Any]) -> Any:
        dispatcher = njit(**OPTIONS, **more)(function)
        file = getattr(dispatcher._cache, "_cache_file", None)
        if file is not None:
            file._source_stamp = SOURCES
        return dispatcher

    return decorate


entry_point = _kept()
# Only called by other kernels: a door for Python would take longer to compile than most of them.
kernel = _kept(no_cpython_wrapper=True, no_cfunc_wrapper=True)
# Becomes part of its caller before anything is compiled: a level of calls less is a pass of the optimiser less.
joined = _kept(inline="always")
