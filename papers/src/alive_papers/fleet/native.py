"""Large kernels as functions of their own, called by address.

Numba optimises what a kernel calls anew with every caller and every caller's caller; for kernels that hold whole tiles
in registers this took four minutes. Here each is compiled once, under a name by which other compiled code finds it.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Any

from llvmlite import binding  # type: ignore[import-untyped]
from numba import types
from numba.core.ccallback import CFunc

from alive.functional.keeping import keep

from .compiled import SOURCES
from .lanes import intrinsic

FLOATS, WHOLE = types.CPointer(types.float32), types.int64
_WAITING: dict[str, CFunc] = {}
_LOCK = Lock()


def native(name: str, *kinds: Any) -> Callable[[Callable[..., None]], Any]:
    """Make of a function of addresses and whole numbers one that compiled code calls; `ready` before the first call."""
    signature = types.void(*kinds)

    def wrap(function: Callable[..., None]) -> Any:
        made = CFunc(function, (kinds, types.void), locals={}, options={"error_model": "numpy"})
        keep(made, function, stamp=SOURCES)
        _WAITING[f"alive_{name}"] = made
        return types.ExternalFunction(f"alive_{name}", signature)

    return wrap


def ready() -> None:
    """Compile all native functions, or find them on disk."""
    with _LOCK:
        while _WAITING:
            name, made = next(iter(_WAITING.items()))
            made.compile()
            binding.add_symbol(name, made.address)
            del _WAITING[name]


@intrinsic
def floats(typing_context, array):  # type: ignore[no-untyped-def]
    """The address of an array of floats."""

    def code(context, builder, signature, args):  # type: ignore[no-untyped-def]
        return context.make_array(signature.args[0])(context, builder, args[0]).data

    return FLOATS(array), code
