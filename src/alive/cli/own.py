"""What commands share about models and data of the user's own: options, notes, and full tracebacks."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import AliveError
from . import values
from .words import aside, choice

FILES = f"a .{', .'.join(values.FILES[:-1])} or .{values.FILES[-1]} file"
DATA = f"{', '.join(values.DATA)}, {FILES}, or mine:make_data. By default make_data beside your own model."

MayBeData = Annotated[str | None, choice(DATA, values.DATA, open_=True)]
Args = Annotated[list[str] | None, typer.Option("--arg", help="k=v for the class or function; as often as needed.")]
Weights = Annotated[Path | None, typer.Option(help="A .safetensors or .pt file, or a checkpoint, to load first.")]
Target = Annotated[str | None, typer.Option(help="The column of a table that holds the targets, by name or number.")]
Split = Annotated[str, choice("Which points", values.SPLITS)]
Points = Annotated[int | None, typer.Option(min=1, help="So many points, drawn at random; of a stream the first.")]
BatchSize = Annotated[int | None, typer.Option(min=1, help="Points at once, where data do not come in batches.")]
PointAxis = Annotated[str, typer.Option(help="The axis of the points: 1 for [T, N, C]; none: each tensor is a point.")]
Paired = Annotated[
    list[str] | None,
    typer.Option(help="An input whose points are those of the first, by position; as often as needed; none: no input."),
]
Forward = Annotated[str | None, typer.Option(help="mine:run, where a batch needs its own call: run(model, batch).")]
Traceback = Annotated[bool, typer.Option("--traceback", help="Show where in your own code an error came from.")]


def axis_of(text: str) -> int | None:
    """The axis of the points, as it was typed."""
    if text.lower() == "none":
        return None
    try:
        return int(text)
    except ValueError:
        raise AliveError(f"--point-axis must be a whole number or none, got {text!r}", "Write --point-axis 1") from None


def paired_of(names: list[str] | None) -> list[str] | None:
    """The inputs that are paired with the first, as they were typed; None where nothing was."""
    return [] if names == ["none"] else names or None


def function_of(source: str | None) -> Callable[..., Any] | None:
    """A function of the user's own, not called."""
    if source is None:
        return None
    from . import sources

    found = sources.named(source)
    if not callable(found):
        raise AliveError(f"{source} is a {type(found).__name__}, not a function", "Name a function: mine:run")
    return found  # type: ignore[no-any-return]


def loss_of(source: str | None) -> Any:
    """A loss by name, or a function of the user's own; a class such as torch.nn:L1Loss is made first."""
    if source is None:
        return None
    if ":" not in source:
        from ..train.losses import loss_of as known

        return known(source)
    found = function_of(source)
    if not isinstance(found, type):
        return found
    from .sources.imports import call, expect_callable

    expect_callable(source, found, None)
    return call(source, found)


def note(notes: Iterable[str]) -> None:
    """Say what was decided, a line each, on stderr."""
    for text in notes:
        aside(f"note: {text}")


@contextmanager
def traced(wanted: bool) -> Iterator[None]:
    """With --traceback, show the whole traceback before the one-line message."""
    try:
        yield
    except AliveError as error:
        if wanted:
            traceback.print_exception(error, file=sys.stderr)
        raise
