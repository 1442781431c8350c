"""Which line of the user's own calls an activation."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from types import FrameType

import torch
from torch import nn

from ..torch_private import module_call

ALIVE = Path(__file__).parents[1]
# Frames of these are no model's: torch, and the rooms of ours that watch.
SKIPPED = (
    str(Path(torch.__file__).parent),
    *(str(ALIVE / room) for room in ("taps", "provenance", "functional", "diagnosis", "penalties", "load")),
)

GENERATED = "<eval_with_key>"  # what torch.fx calls the code it writes: no line that one could open


def line_of_call(outermost: nn.Module | None, *, inside: bool) -> str:
    """The innermost line in the pass of a module that is neither torch's nor ours, as "model.py:37"; or nothing.

    Inside a module that is nothing but the activation, it is the line that calls that module.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code is module_call:
            inside = False
            if frame.f_locals.get("self") is outermost:
                return ""
        elif not inside and not _is_skipped(frame.f_code.co_filename):
            return f"{short(frame.f_code.co_filename)}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


@lru_cache(maxsize=4096)
def _is_skipped(file: str) -> bool:
    return file.startswith((GENERATED, *SKIPPED))


def short(file: str) -> str:
    """A path as one would type it here, or from where packages lie."""
    here = ""
    with suppress(OSError):  # a folder that is gone
        here = os.getcwd()
    return _short(file, here, tuple(sys.path))


@lru_cache(maxsize=256)
def _short(file: str, here: str, packages: tuple[str, ...]) -> str:
    path = Path(file)
    for base in map(Path, (here, *packages)):
        if base.is_absolute() and path.is_relative_to(base):
            return str(path.relative_to(base))
    return str(path)
