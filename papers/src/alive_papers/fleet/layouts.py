"""One pass by the kernels that belong to how a network's numbers lie, rows or maps: the compiler knows it by type."""

from __future__ import annotations

from typing import Any

from numba.extending import overload

from alive.functional.keeping import OPTIONS

from .backward import backward
from .conv.arena import Maps
from .conv.backward import map_backward
from .conv.forward import map_evaluate, map_forward
from .conv.images import load_batch
from .evaluate import evaluate_rows, training_pass
from .forward import load_rows


def _by_layout(rows: Any, maps: Any, which: int) -> Any:
    """One of two kernels, by the argument that holds the signals."""

    def chosen(*args: Any) -> Any:
        return (maps if isinstance(args[which], Maps) else rows)(*args)

    @overload(chosen, jit_options=OPTIONS)  # type: ignore[arg-type]
    def choose(*args):  # type: ignore[no-untyped-def]  # it must look like what it gives
        go = maps if args[which].instance_class is Maps else rows
        return lambda *args: go(*args)

    return chosen


lay_out = _by_layout(load_rows, load_batch, which=4)
pass_forward = _by_layout(training_pass, map_forward, which=2)
pass_back = _by_layout(backward, map_backward, which=2)
evaluate = _by_layout(evaluate_rows, map_evaluate, which=2)
