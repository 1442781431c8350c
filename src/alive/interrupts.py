"""Ctrl-C at any moment: one line, exit code 130, no process left behind.

The first press interrupts the work, which keeps what is finished. Presses right after it mean the same and change
nothing; a later one, because stopping takes too long, exits at once. While the program exits, presses are ignored.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

CODE = 130
SAME = 2.0  # seconds after a press in which another means the same
LINE = b"alive: interrupted\n"


class Interrupts:
    """How a program of ours answers Ctrl-C, from its first line to its last."""

    def __init__(self) -> None:
        self.pressed: float | None = None
        self._starting, self._ending = True, False

    def listen(self) -> None:
        """Answer from now on, unless the parent process asked for Ctrl-C to be ignored."""
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, self._press)
            atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)  # registered first, so it runs last

    def work(self) -> None:
        """All is loaded: from now on a press interrupts, before it just ends the program."""
        self._starting = False

    def end(self) -> None:
        """The last line is printed; after this only Python cleans up."""
        self._ending = True

    def _press(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if self._starting:
            _leave(said=False)
        first, self.pressed = self.pressed is None, self.pressed or now
        if first and not self._ending:
            raise KeyboardInterrupt
        if now - self.pressed > SAME:
            _leave(said=self._ending)


def _leave(*, said: bool) -> None:
    """End here and now, with all children; nothing of Python runs any more, so nothing can go wrong."""
    multiprocessing = sys.modules.get("multiprocessing")
    for child in multiprocessing.active_children() if multiprocessing is not None else ():
        with suppress(Exception):
            child.kill()
    if not said:
        with suppress(OSError):
            os.write(2, LINE)
    os._exit(CODE)


@contextmanager
def unreached() -> Iterator[None]:
    """Processes started inside ignore Ctrl-C, which a terminal sends to all: their parent handles it."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
