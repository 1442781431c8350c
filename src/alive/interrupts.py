"""Ctrl-C and SIGTERM at any moment: one line, exit code 130 or 143, no process left behind.

The first press interrupts the work, which keeps what is finished. Presses right after it mean the same and change
nothing; a later one, because stopping takes too long, exits at once. While the program exits, presses are ignored.
SIGTERM, which schedulers send before they kill, is a press like Ctrl-C.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

SAME = 2.0  # seconds after a press in which another means the same
HEARD = 1.0  # seconds in which Python must have heard of a press
WORDS = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}
_heard = [signal.SIGINT]  # the last of these signals


def word() -> str:
    """What has happened: interrupted, or terminated."""
    return WORDS[_heard[-1]]


def code() -> int:
    """The exit code that tells of it, as a shell gives it."""
    return 128 + _heard[-1]


class Interrupts:
    """How a program of ours answers Ctrl-C and SIGTERM, from its first line to its last."""

    def __init__(self) -> None:
        self.pressed: float | None = None
        self.left: object = None  # the exit code, once there is one
        self._starting, self._ending = True, False

    def listen(self) -> None:
        """Answer from now on, unless the parent process asked for one to be ignored."""
        atexit.register(self._quit)  # registered first, so it runs last
        ours = [each for each in WORDS if signal.getsignal(each) in (signal.default_int_handler, signal.SIG_DFL)]
        for number in ours:
            signal.signal(number, self._press)
            atexit.register(signal.signal, number, signal.SIG_IGN)
        if ours and hasattr(os, "register_at_fork"):
            self._watch()
            os.register_at_fork(after_in_child=_forget_in_child)

    def work(self) -> None:
        """All is loaded: from now on a press interrupts, before it just ends the program."""
        self._starting = False

    def end(self) -> None:
        """The last line is printed; after this only Python cleans up."""
        self._ending = True

    def _quit(self) -> None:
        """Where an interrupt came through an exec(), as of a dataclass, Python would end with SIGINT all the same."""
        if self.left == code():
            with suppress(OSError, ValueError):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(code())

    def _press(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        first, self.pressed = self.pressed is None, self.pressed or now
        if first:
            _heard[-1] = signal.Signals(number)
        if self._starting:
            _leave(said=False)
        if first and not self._ending:
            raise KeyboardInterrupt
        if now - self.pressed > SAME:
            _leave(said=self._ending)

    def _watch(self) -> None:
        """Python answers between two of its own steps: where one takes too long, as in a solver, leave without it."""
        heard, told = os.pipe()
        os.set_blocking(told, False)
        signal.set_wakeup_fd(told, warn_on_full_buffer=False)

        def watch() -> None:
            while number := os.read(heard, 1):
                if number[0] in WORDS and signal.getsignal(number[0]) == self._press:
                    time.sleep(HEARD)
                    if self.pressed is None and not self._ending and signal.getsignal(number[0]) == self._press:
                        _heard[-1] = signal.Signals(number[0])
                        _leave(said=False)

        before = signal.pthread_sigmask(signal.SIG_BLOCK, WORDS)  # which the thread inherits
        threading.Thread(target=watch, daemon=True).start()
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _forget_in_child() -> None:
    """In a forked process: its parent ends it by SIGTERM, and hears of its own signals alone."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _leave(*, said: bool) -> None:
    """End here and now, with all children; nothing of Python runs any more, so nothing can go wrong."""
    multiprocessing = sys.modules.get("multiprocessing")
    for child in multiprocessing.active_children() if multiprocessing is not None else ():
        with suppress(Exception):
            child.kill()
    if not said:
        with suppress(OSError):
            os.write(2, f"alive: {word()}\n".encode())
    os._exit(code())


class Hold:
    """While work runs that must end a step first: remembers Ctrl-C and SIGTERM until it asks.

    A second Ctrl-C acts at once. Signals that are ignored stay so; other threads than the main one hear of none.
    """

    def __init__(self) -> None:
        self.asked: signal.Signals | None = None
        self._before: dict[signal.Signals, Any] = {}

    def begin(self) -> None:
        """Hold them back from now on."""
        if threading.current_thread() is not threading.main_thread():
            return
        for number in WORDS:
            handler = signal.getsignal(number)
            if callable(handler) or (number == signal.SIGTERM and handler == signal.SIG_DFL):
                self._before[number] = handler
                signal.signal(number, self._hold)

    def end(self) -> None:
        """Hold them back no longer."""
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def answer(self, said: str) -> None:
        """Do what was asked, now that all is safe; `said` tells where it stands.

        A program that has its own answer to SIGTERM gives it now; if that returns, the work goes on.
        """
        number, self.asked = self.asked or signal.SIGINT, None
        handler = self._before.get(number)
        _heard[-1] = number
        if number == signal.SIGTERM and handler == signal.SIG_DFL:  # a script of the user's own
            print(f"alive: {word()}: {said}", file=sys.stderr)
            raise SystemExit(code())
        if number == signal.SIGINT or handler is None or isinstance(getattr(handler, "__self__", None), Interrupts):
            raise KeyboardInterrupt(said)
        handler(number, None)

    def _hold(self, number: int, frame: FrameType | None) -> None:
        if self.asked == number == signal.SIGINT:
            raise KeyboardInterrupt
        self.asked = signal.Signals(number)


@contextmanager
def unreached() -> Iterator[None]:
    """Processes started inside ignore Ctrl-C, which a terminal sends to all: their parent handles it, once they began.

    Other threads may be hit where this one is not, and Python would answer here: so what comes is kept for later.
    """
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    main = threading.current_thread() is threading.main_thread()
    handlers = {each: signal.getsignal(each) for each in WORDS} if main else {}
    later = list[int]()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    for number in (each for each, handler in handlers.items() if callable(handler)):
        signal.signal(number, lambda got, frame: later.append(got))
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        for came in later:
            signal.raise_signal(came)
