"""Models as the command line names them: depth x width, the user's own, or a folder of transformers."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ...data import Data
from ...errors import AliveError
from ...nn import Rectangular, RectangularConv, parse_rectangle
from . import folders
from .imports import call, expect_callable, find, line_of

PROGRAMS = (".onnx", ".pt2")
OWN = "Give a model of your own: mine:make_model"


@dataclass(frozen=True, slots=True)
class Maker:
    """Makes a model, anew for each call.

    own    whether it is the user's own: all others are named by depth x width, and made for the data
    fixed  whether it exists already, and is always the same
    thing  what was named in a module of the user's own
    """

    source: str
    make: Callable[..., Any]
    own: bool = True
    fixed: bool = False
    thing: Any = None

    def __call__(self, *points: Data) -> nn.Module:
        """Make it; by depth x width for these points, under the seed that is set."""
        made = self.make(*points)
        if not isinstance(made, nn.Module):
            raise AliveError(
                f"{self.source} gave a {type(made).__name__}, not a torch.nn.Module", "Let it return the model"
            )
        return made

    @property
    def line(self) -> str:
        """File and line of what makes it, as "mine.py:12"; empty where there is none."""
        return line_of(self.thing)


def maker(source: str, args: Sequence[str] = (), *, init: str = "glorot", batch_norm: bool = False) -> Maker:
    """What makes the model of that name; names and arguments that do not exist are refused at once."""
    is_program = Path(source).suffix.lower() in PROGRAMS
    if ":" not in source and not is_program:
        if args:
            raise AliveError(
                "--arg is for models of your own", "Use --init and --batch-norm for a depth x width network"
            )
        depth, width = _size(source)
        options: dict[str, Any] = {"depth": depth, "width": width, "batch_norm": batch_norm, "init": init}
        return Maker(source, partial(_rectangle, source, **options), own=False)
    given = _parse(args)
    if init != "glorot" or batch_norm:
        raise AliveError(
            "--init and --batch-norm are for networks by depth x width",
            "Let your own function build it so; alive.nn.initialise_(model, init) gives any start",
        )
    if source.startswith(folders.PREFIX):
        if given:
            raise AliveError("a folder of transformers takes no --arg", "Change its config.json instead")
        return Maker(source, partial(folders.model, source), fixed=folders.has_weights(source))
    if is_program:
        if given:
            raise AliveError(f"{source} is made already and takes no --arg", "Leave --arg out")
        if not Path(source).is_file():
            raise AliveError(f"there is no file {source}", "Correct the path")
        return Maker(source, partial(_program, source), fixed=True)
    found = find(source)
    if isinstance(found, nn.Module):
        if given:
            raise AliveError(f"{source} is made already and takes no --arg", "Name a function or class that makes it")
        return Maker(source, lambda: found, fixed=True, thing=found)
    if not callable(found):
        raise AliveError(
            f"{source} is a {type(found).__name__}, not a torch.nn.Module", "Name a model, or what makes it"
        )
    expect_callable(source, found, given)
    return Maker(source, partial(call, source, found, given), thing=found)


def _program(source: str) -> nn.Module:
    """The model of a file that runs without its Python code."""
    from ...load import from_exported, from_onnx

    return from_onnx(source) if Path(source).suffix.lower() == ".onnx" else from_exported(source)


def _parse(args: Sequence[str]) -> dict[str, Any]:
    """Each k=v with v as Python writes it, or as text."""
    found: dict[str, Any] = {}
    for text in args:
        name, equals, value = text.partition("=")
        if not equals or not name.strip().isidentifier():
            raise AliveError(f"cannot read --arg {text!r}", "Write --arg width=64")
        if name.strip() in found:
            raise AliveError(f"--arg {name.strip()} is given twice", "Give it once")
        if value.lower() in ("true", "false", "none") and value not in ("True", "False", "None"):
            raise AliveError(f"--arg {text} would be text", f"Write {name}={value.capitalize()} as Python does")
        try:
            found[name.strip()] = ast.literal_eval(value.strip())
        except (ValueError, SyntaxError):
            found[name.strip()] = value
    return found


def _rectangle(source: str, points: Data, **options: Any) -> nn.Module:
    """A network by depth x width that fits the points."""
    if points.train_more:
        raise AliveError(f"{source} reads one table or image of floats, and {points.name} holds several inputs", OWN)
    chance = torch.Generator().manual_seed(torch.initial_seed())
    if points.train_x.ndim == 4:
        return RectangularConv(points.train_x.shape[1], points.outputs, **options, generator=chance)
    return Rectangular(points.inputs, points.outputs, **options, generator=chance)


def _size(source: str) -> tuple[int, int]:
    """Depth and width; for the name of a module alone, or of what is in one, the error says what is missing."""
    path = Path(source)
    if path.suffix in (".py", ".ipynb") or (path.with_suffix(".py").is_file() and source.isidentifier()):
        raise AliveError(
            f"{source} is a module, not a model", f"Write {source}:make_model, naming what makes the model"
        )
    if path.suffix in (".pt", ".pth", ".bin", ".ckpt", ".safetensors"):
        raise AliveError(
            f"{source} holds weights, or a pickle, and not how they are used",
            f"Write mine:make_model --weights {source}; files that are models are .onnx and .pt2",
        )
    if path.is_dir() and (path / "config.json").is_file():
        raise AliveError(f"{source} is a folder", f"Write hf:{source} for a model of transformers")
    for file in sorted(filter(Path.is_file, Path().glob("*.py"))) if source.isidentifier() else ():
        if re.search(rf"^((class|def) +{source}\b|{source} *[:=])", file.read_text(errors="replace"), re.MULTILINE):
            module = file.stem if file.stem.isidentifier() else file.name
            raise AliveError(f"{source} is a name in {file}", f"did you mean '{module}:{source}'?")
    return parse_rectangle(source)
