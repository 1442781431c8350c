"""What all commands share: how they name models and data, speak, fail and are interrupted."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, redirect_stdout
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from ..errors import expect

ModelSource = Annotated[
    str,
    typer.Argument(metavar="MODEL", help="package.module:make_model (or a module itself), or depth x width: 50x4"),
]
DataSource = Annotated[
    str,
    typer.Option(
        help="moons, digits, mnist, fashion-mnist, cifar10, cifar100, a .npz or .safetensors file, or module:function"
    ),
]


def _seed(number: int) -> int:
    expect([(0 <= number < 2**62, f"seed must be a whole number from 0 to 2^62, got {number}")])
    return number


Seed = Annotated[int, typer.Option(callback=_seed, help="Seed of the start, and of training.")]
Init = Annotated[str, typer.Option(help="Start of a depth x width network: glorot, kaiming, torch, zeros, mirrored.")]
BatchNorm = Annotated[bool, typer.Option("--batch-norm", help="Batch norm in a depth x width network.")]
Stored = Annotated[Path, typer.Option("--store", help="File that holds the finished networks.")]


def say(text: str) -> None:
    """Say one line on stderr."""
    from rich.console import Console
    from rich.text import Text

    Console(stderr=True, highlight=False, soft_wrap=True).print(Text.assemble(("alive: ", "bold red"), text))


def fail(text: str, code: int) -> NoReturn:
    """Say one line on stderr and exit."""
    say(text)
    raise SystemExit(code)


@contextmanager
def interruptible() -> Iterator[None]:
    """Say what Ctrl-C left behind; typer itself would only say that it aborted."""
    try:
        yield
    except KeyboardInterrupt as stop:
        fail(f"interrupted{f': {stop}' if str(stop) else ''}", 130)


@contextmanager
def pure(json: bool) -> Iterator[None]:
    """Send what a user's own code prints to stderr where stdout is for JSON alone."""
    with redirect_stdout(sys.stderr) if json else nullcontext():
        yield


def show(renderable: object) -> None:
    """Print a table or text; wide enough for a file where there is no terminal."""
    from rich.console import Console

    console = Console()
    if not console.is_terminal:
        console = Console(width=120)
    console.print(renderable)
