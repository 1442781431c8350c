"""Who writes a history: one program at a time, and in it the watcher that wrote last."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary, finalize

from ..errors import AliveError

try:
    import fcntl
except ImportError:  # Windows, where nobody is refused
    fcntl = None  # type: ignore[assignment]

WRITERS: WeakValueDictionary[str, Lock] = WeakValueDictionary()  # of this process, by the file


class Lock:
    """Keeps others from a file that is replaced at every write.

    The kernel knows who holds the file, and forgets a process when it ends, however it ends. On a file system without
    locks nobody is refused.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.place = path, os.path.realpath(path)
        self.held: int | None = None  # a descriptor of the file that was written last
        self._close: Any = None

    def __reduce__(self) -> tuple[type[Lock], tuple[Path]]:
        return Lock, (self.path,)  # a copy holds nothing

    def expect_mine(self) -> None:
        """Refuse a file that another process writes, or that another watcher of this one has written since."""
        writer = WRITERS.get(self.place)
        if self.held is not None and writer is not self:
            raise AliveError(f"another alive.watch of this program writes {self.path} too", "Give each its own path")
        if _is_held(self.path, None if writer is None else writer.held):
            cure = "Choose another path; of several processes that train together, watch in one"
            raise AliveError(f"another program that runs now writes {self.path}", cure)

    def hold(self, new: int) -> None:
        """Hold the file of a descriptor, and what was held before no longer."""
        self.release()
        if fcntl is None:  # and where a file that is open cannot be replaced
            return
        self.held = os.dup(new)
        self._close = finalize(self, os.close, self.held)
        with suppress(OSError):  # a file system without locks
            fcntl.flock(self.held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        WRITERS[self.place] = self

    def release(self) -> None:
        """Hold nothing."""
        if self._close is not None:
            self._close()
        self.held = self._close = None


def _is_held(path: Path, ours: int | None) -> bool:
    """Whether another process holds the file; `ours` is a descriptor by which this one does."""
    with suppress(OSError):  # there is no file yet, or no locks
        there = os.open(path, os.O_RDWR)
        try:
            if fcntl is not None and (ours is None or not os.path.sameopenfile(there, ours)):
                fcntl.flock(there, fcntl.LOCK_EX | fcntl.LOCK_NB)  # until it is closed
        except BlockingIOError:
            return True
        finally:
            os.close(there)
    return False


def _forget() -> None:
    """In a forked child: what the parent holds is not the child's, and is free when the parent ends."""
    for lock in list(WRITERS.values()):
        lock.release()
    WRITERS.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
