"""Whether anything runs in another thread meanwhile: torch's modes, and so all that we see, are each thread's own."""

from __future__ import annotations

import sys
import threading
from typing import Any

from torch import Tensor


class Threads:
    """Notices threads that are started inside, as by a pool, and those of a pool that are there already."""

    def __init__(self) -> None:
        self.started = self._told = False

    def may_have_made(self, t: Tensor, points: int | None) -> bool:
        """Whether a tensor that we did not see being made may be another thread's; said once."""
        pool = any("ThreadPoolExecutor" in thread.name for thread in threading.enumerate())
        found = not self._told and (self.started or (pool and (t.grad_fn is not None or points in t.shape)))
        self._told |= found
        return found

    def __enter__(self) -> Threads:
        if not ACTIVE:
            BEFORE[:] = [threading.getprofile()]
            threading.setprofile(_note)
        ACTIVE.append(self)
        return self

    def __exit__(self, *failure: Any) -> None:
        if self in ACTIVE:
            ACTIVE.remove(self)
            if not ACTIVE:
                threading.setprofile(BEFORE[0])


ACTIVE: list[Threads] = []  # of all passes that are followed, in whichever order they end
BEFORE: list[Any] = [None]  # what is called in a new thread without us


def _note(frame: Any, event: str, arg: Any) -> None:
    """A thread was started: it calls this first, and never again."""
    for each in ACTIVE:
        each.started = True
    sys.setprofile(BEFORE[0])
