"""Models as the command line names them: depth x width, the user's own, or a folder of transformers."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ...data import Data
from ...errors import AliveError
from ...nn import Rectangular, RectangularConv, parse_rectangle
from . import folders
from .imports import called, expect_callable, named
from .points import OWN

PROGRAMS = (".onnx", ".pt2")


@dataclass(frozen=True, slots=True)
class Maker:
    """Makes a model of the user's own, anew for each call; `fixed` if it exists already and is always the same."""

    source: str
    args: Mapping[str, Any] = field(default_factory=dict)
    fixed: bool = False

    def __call__(self) -> nn.Module:
        """Make it."""
        if self.source.startswith(folders.PREFIX):
            return folders.model(self.source)
        if is_program(self.source):
            return _program(self.source)
        made = called(self.source, self.args)
        if not isinstance(made, nn.Module):
            raise AliveError(
                f"{self.source} gave a {type(made).__name__}, not a torch.nn.Module", "Let it return the model"
            )
        return made


def is_own(source: str) -> bool:
    """Whether a model is the user's own: all others are named by depth x width."""
    return ":" in source or is_program(source)


def is_program(source: str) -> bool:
    """Whether a model is a file that runs without its Python code."""
    return Path(source).suffix.lower() in PROGRAMS


def _program(source: str) -> nn.Module:
    from ...surgery.load import from_exported, from_onnx

    return from_onnx(source) if Path(source).suffix.lower() == ".onnx" else from_exported(source)


def maker(source: str, args: Sequence[str] = ()) -> Maker:
    """What makes a model of the user's own; names and arguments that do not exist are refused at once."""
    given = _parsed(args)
    if source.startswith(folders.PREFIX):
        if given:
            raise AliveError("a folder of transformers takes no --arg", "Change its config.json instead")
        return Maker(source, fixed=folders.has_weights(source))
    if is_program(source):
        if given:
            raise AliveError(f"{source} is made already and takes no --arg", "Leave --arg out")
        if not Path(source).is_file():
            raise AliveError(f"there is no file {source}", "Correct the path")
        return Maker(source, fixed=True)
    found = named(source)
    if isinstance(found, nn.Module):
        if given:
            raise AliveError(f"{source} is made already and takes no --arg", "Name a function or class that makes it")
        return Maker(source, fixed=True)
    if not callable(found):
        raise AliveError(
            f"{source} is a {type(found).__name__}, not a torch.nn.Module", "Name a model, or what makes it"
        )
    expect_callable(source, found, given)
    return Maker(source, given)


def _parsed(args: Sequence[str]) -> dict[str, Any]:
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


def model(source: str, points: Any, *, init: str, batch_norm: bool, seed: int, args: Sequence[str] = ()) -> nn.Module:
    """A network by depth x width that fits the points, or one of the user's own."""
    if is_own(source):
        expect_plain(init=init, batch_norm=batch_norm)
        torch.manual_seed(seed)  # for what is made on import
        make = maker(source, args)
        torch.manual_seed(seed)  # and for what is made now, whatever the import has drawn
        return make()
    if args:
        raise AliveError("--arg is for models of your own", "Use --init and --batch-norm for a depth x width network")
    depth, width = expect_size(source)
    options: dict[str, Any] = {"depth": depth, "width": width, "batch_norm": batch_norm, "init": init}
    chance = torch.Generator().manual_seed(seed)
    expect_features(source, points)
    if points.train_x.ndim == 4:
        return RectangularConv(points.train_x.shape[1], points.outputs, **options, generator=chance)
    return Rectangular(points.inputs, points.outputs, **options, generator=chance)


def expect_features(source: str, points: Data) -> None:
    """Refuse for depth x width networks what only a model of one's own can read."""
    if points.train_more or not (points.train_x.is_floating_point() or points.mean is not None):
        what = "several inputs" if points.train_more else "whole numbers, such as token ids"
        raise AliveError(f"{source} reads one table or image of floats, and {points.name} holds {what}", OWN)


def expect_size(source: str) -> tuple[int, int]:
    """Depth and width; for the name of a module alone, the error says what is missing."""
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
    return parse_rectangle(source)


def expect_plain(*, init: str, batch_norm: bool) -> None:
    """Refuse for a model of the user's own what only depth x width networks are built with."""
    if init != "glorot" or batch_norm:
        raise AliveError(
            "--init and --batch-norm are for networks by depth x width",
            "Let your own function build it so; alive.nn.initialise_(model, init) gives any start",
        )
