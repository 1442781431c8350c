"""Where in a model a pass is: the modules whose forward has not returned yet."""

from __future__ import annotations

import sys
from threading import get_ident
from typing import Any

import torch
from torch import nn

from ..functional.activations import Activation
from ..torch_private import module_call
from .lines import line_of_call
from .models import expect_no_replica
from .records import Place

OFTEN = 64  # calls of torch, after which it is seen whether the pass still runs


class Stack:
    """The modules that run, the outermost first, and the thread that they run in."""

    def __init__(self) -> None:
        self.outermost: nn.Module | None = None  # the module whose pass runs
        self.places: list[Place] = []
        self.thread = 0
        self.deaf = 0  # above 0 while what is computed is not the model's
        self._inside = ""  # what paths below the outermost module begin with
        self._asked = 0  # whether the pass was interrupted
        self._handled: BaseException | None = None  # what the caller of the pass was handling when it began

    def begin(self, place: Place, module: nn.Module) -> None:
        """A pass of a module begins."""
        self._inside = f"{place.path}.".lstrip(".")
        self.outermost, self.thread, self.deaf = module, 0, 0
        if not torch.compiler.is_compiling():
            expect_no_replica(module)
            self.thread, self._handled = get_ident(), sys.exc_info()[1]

    def close(self) -> None:
        """The pass has ended."""
        self._handled = self.outermost = None
        self.places.clear()

    def base(self, activation: Activation) -> str:
        """What calls of an activation are named here."""
        path, is_activation = self.places[-1][:2]
        return path if is_activation else f"{path}.{activation.name}" if path else activation.name

    def line(self) -> str:
        """The line of the user's that runs."""
        return line_of_call(self.outermost, inside=bool(self.places) and self.places[-1].is_activation)

    def is_elsewhere(self) -> bool:
        """Whether the pass on record runs in another thread."""
        return not torch.compiler.is_compiling() and self.thread not in (0, get_ident())

    def is_broken_off(self, place: Place) -> bool:
        """Whether the pass on record is over: an interrupt ended it, of which torch tells no hook."""
        itself = place.path == self.places[0].path
        below = not itself and place.path.startswith(self._inside)
        if below or torch.compiler.is_compiling():
            return False
        return not _is_running(self.outermost, times=1 + itself)

    def is_interrupted(self) -> bool:
        """The same without a new call to compare with: looked for where an error is handled, and now and then."""
        self._asked += 1
        if self._asked % OFTEN and sys.exc_info()[1] is self._handled:
            return False
        return not self.is_elsewhere() and not _is_running(self.outermost, times=1)

    def has_failed(self, output: Any) -> bool:
        """Whether the pass that ends did: a model may return None, but only a failure is an exception of its own."""
        return not torch.compiler.is_compiling() and output is None and sys.exc_info()[1] is not self._handled


def _is_running(module: nn.Module | None, times: int) -> bool:
    """Whether so many calls of a module have not returned yet."""
    frame = sys._getframe()
    while frame is not None and times:
        times -= frame.f_code is module_call and frame.f_locals["self"] is module
        frame = frame.f_back  # type: ignore[assignment]
    return not times
