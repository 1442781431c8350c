"""What commands share about models and data of the user's own: options, notes, and full tracebacks."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import MISSING, dataclass, fields
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from ..errors import AliveError, expect
from . import values
from .words import aside, choice, interruptible

FILES = f"a .{', .'.join(values.FILES[:-1])} or .{values.FILES[-1]} file"
DATA = f"{', '.join(values.DATA)}, {FILES}, or mine:make_data. By default make_data beside your own model."
MODEL = (
    "mine:make_model, mine:model, path/to/file.py:make_model, package.module:Class with --arg k=v, hf:folder or "
    "hf:name, model.onnx, model.pt2, or depth x width: 50x4"
)

Paired = Annotated[
    list[str] | None,
    typer.Option(help="An input whose points are those of the first, by position; as often as needed; none: no input."),
]
Forward = Annotated[str | None, typer.Option(help="mine:run, where a batch needs its own call: run(model, batch).")]


def _seed(number: int) -> int:
    expect([(0 <= number < 2**62, f"seed must be a whole number from 0 to 2^62, got {number}")])
    return number


@dataclass(frozen=True, slots=True)
class Typed:
    """The options about a model and its data, as they are typed; a command has some of them."""

    model: Annotated[str, typer.Argument(metavar="MODEL", help=MODEL)]
    data: Annotated[str | None, choice(DATA, values.DATA, open_=True)] = None
    split: Annotated[str, choice("Which points", values.SPLITS)] = "train"
    points: Annotated[
        int | None, typer.Option(min=1, help="So many points, drawn at random; of a stream the first.")
    ] = None
    target: Annotated[
        str | None, typer.Option(help="The column of a table that holds the targets, by name or number.")
    ] = None
    arg: Annotated[
        list[str] | None, typer.Option("--arg", help="k=v for the class or function; as often as needed.")
    ] = None
    weights: Annotated[
        Path | None, typer.Option(help="A .safetensors or .pt file, or a checkpoint, to load first.")
    ] = None
    batch_size: Annotated[
        int | None, typer.Option(min=1, help="Points at once, where data do not come in batches.")
    ] = None
    point_axis: Annotated[
        str, typer.Option(help="The axis of the points: 1 for [T, N, C]; none: each tensor is a point.")
    ] = "0"
    init: Annotated[str, choice("Start of a depth x width network", values.INITS)] = "glorot"
    batch_norm: Annotated[bool, typer.Option("--batch-norm", help="Batch norm in a depth x width network.")] = False
    seed: Annotated[int, typer.Option(callback=_seed, help="Seed of the start, and of training.")] = 10
    traceback: Annotated[bool, typer.Option("--traceback", help="Show where in your own code an error came from.")] = (
        False
    )

    def __post_init__(self) -> None:
        expect([(self.points is None or self.points >= 1, f"--points must be at least 1, got {self.points}")])

    @property
    def axis(self) -> int | None:
        """The axis of the points."""
        if self.point_axis.lower() == "none":
            return None
        try:
            return int(self.point_axis)
        except ValueError:
            raise AliveError(
                f"--point-axis must be a whole number or none, got {self.point_axis!r}", "Write --point-axis 1"
            ) from None


ALWAYS = ("model", "data", "target", "arg", "init", "batch_norm", "seed", "traceback")


def takes(*more: str, **defaults: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a command of a function of Typed: what every command takes, these options more, and the function's own."""
    hints = get_type_hints(Typed, include_extras=True)
    shared = [
        Parameter(
            field.name,
            Parameter.KEYWORD_ONLY,
            default=defaults.get(field.name, Parameter.empty if field.default is MISSING else field.default),
            annotation=hints[field.name],
        )
        for field in fields(Typed)
        if field.name in ALWAYS + more
    ]

    def made(function: Callable[..., None]) -> Callable[..., None]:
        _, *own = signature(function, eval_str=True).parameters.values()

        @wraps(function)
        def command(**given: Any) -> None:
            typed = Typed(**{each.name: given.pop(each.name) for each in shared})
            with interruptible():
                try:
                    function(typed, **given)
                except AliveError as error:
                    if typed.traceback:
                        traceback.print_exception(error, file=sys.stderr)
                    raise

        parameters = [*shared, *(each.replace(kind=Parameter.KEYWORD_ONLY) for each in own)]
        command.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
        command.__annotations__ = {each.name: each.annotation for each in parameters}
        return command

    return made


def read_paired(names: Sequence[str] | None) -> Sequence[str] | None:
    """The inputs that are paired with the first, as they were typed; None where nothing was."""
    return [] if names == ["none"] else names or None


def function_of(source: str | None) -> Callable[..., Any] | None:
    """A function of the user's own, not called."""
    if source is None:
        return None
    from . import sources

    found = sources.find(source)
    if not callable(found):
        raise AliveError(f"{source} is a {type(found).__name__}, not a function", "Name a function: mine:run")
    return found  # type: ignore[no-any-return]


def loss_of(source: str | None) -> Any:
    """A loss by name, or a function of the user's own; a class such as torch.nn:L1Loss is made first."""
    if source is not None and ":" not in source:
        from ..train.losses import loss_of as known

        return known(source)
    found = function_of(source)
    if not isinstance(found, type):
        return found
    from .sources.imports import call, expect_callable

    expect_callable(str(source), found, None)
    return call(str(source), found)


def note(notes: Iterable[str]) -> None:
    """Say what was decided, a line each, on stderr."""
    for text in notes:
        aside(f"note: {text}")
