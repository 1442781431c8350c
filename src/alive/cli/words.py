"""What all commands share: how they name models and data, print, fail and are interrupted."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, redirect_stdout, suppress
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from ..errors import expect_one_of
from ..interrupts import code, word


def completing(known: Sequence[str]) -> Callable[[str], list[str]]:
    """What a shell offers while a value is typed."""
    return lambda incomplete: [name for name in known if name.startswith(incomplete)]


def choice(text: str, known: Sequence[str], *, what: str = "", open_: bool = False) -> Any:
    """An option of few values: help lists them, the shell completes them, others are refused with the nearest.

    what   what a value is called where one is refused; by default the option's own name
    open_  values of the user's own are taken too, and checked by whoever reads them
    """

    def known_only(param: typer.CallbackParam, value: str | None) -> str | None:
        if value is not None:
            expect_one_of(what or str(param.name).replace("_", " "), value, known)
        return value

    listed = text if open_ else f"{text}: {', '.join(known)}."
    return typer.Option(help=listed, autocompletion=completing(known), callback=None if open_ else known_only)


Stored = Annotated[Path, typer.Option("--store", help="File that holds the finished networks.")]


def command() -> str:
    """The command as it was typed, quoted for a shell."""
    return shlex.join(["alive", *sys.argv[1:]])


def say(text: str) -> None:
    """Say one line on stderr."""
    from rich.text import Text

    from ..screen import LONGEST, Screen, in_a_line

    line = Text.assemble((name := "alive: ", "bold red"), in_a_line(text, LONGEST - len(name)))
    Screen(stderr=True, highlight=False, soft_wrap=True).print(line)


def aside(text: str) -> None:
    """Say one line that is no result, on stderr: stdout may hold JSON."""
    from rich.text import Text

    from ..screen import Screen, in_a_line

    Screen(stderr=True, highlight=False, soft_wrap=True).print(Text(in_a_line(text), style="dim"))


def wrote(file: Path) -> None:
    """Say which file was written."""
    aside(f"wrote {file}")


def fail(text: str, code: int) -> NoReturn:
    """Say one line on stderr and exit."""
    say(text)
    raise SystemExit(code)


@contextmanager
def interruptible() -> Iterator[None]:
    """Say what Ctrl-C or SIGTERM left behind; typer itself would only say that it aborted."""
    try:
        yield
    except KeyboardInterrupt as stop:
        fail(f"{word()}{f': {stop}' if str(stop) else ''}", code())


@contextmanager
def pure(json: bool) -> Iterator[None]:
    """Send what a user's own code and compiled libraries print to stderr where stdout is for JSON alone."""
    with redirect_stdout(sys.stderr) if json else nullcontext(), _descriptor_of_stderr() if json else nullcontext():
        yield


@contextmanager
def _descriptor_of_stderr() -> Iterator[None]:
    """File descriptor 1 leads to stderr: what is not Python writes there by its number."""
    try:
        before = os.dup(1)
    except OSError:  # closed: nothing can be printed there
        yield
        return
    try:
        _flush()
        os.dup2(2, 1)
        yield
    finally:
        _flush()
        os.dup2(before, 1)
        os.close(before)


def _flush() -> None:
    """Write what is waiting to be written, of libraries in C too: it would go to where descriptor 1 leads later."""
    import ctypes

    if sys.__stdout__ is not None:
        with suppress(OSError, ValueError):
            sys.__stdout__.flush()
    with suppress(OSError, TypeError, AttributeError):  # Windows has no such library
        ctypes.CDLL(None).fflush(None)


def show(renderable: object) -> None:
    """Print a table or text; wide enough for a file where there is no terminal."""
    from ..screen import Screen

    screen = Screen()
    if not screen.is_terminal:
        screen = Screen(width=120)
    screen.print(renderable)


def put(text: object, end: str = "\n") -> None:
    """Print text as it is, but for control characters, which are shown."""
    from ..screen import shown

    print(shown(str(text)), end=end, flush=True)
