"""What the command line calls a model or data: names, files, and functions of the user's own."""

from __future__ import annotations

import importlib
import inspect
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from .data import Data, load, tensors
from .data.files import READERS
from .errors import AliveError, expect_one_of
from .nn import Rectangular, RectangularConv, parse_rectangle

BATCH = 1024  # points at once: all of CIFAR as floats is 600 MB


def model(source: str, points: Data, *, init: str, batch_norm: bool, seed: int) -> nn.Module:
    """A network by depth x width that fits the points, or one of the user's own."""
    chance = torch.Generator().manual_seed(seed)
    if ":" not in source:
        depth, width = parse_rectangle(source)
        if points.train_x.ndim == 4:
            channels = points.train_x.shape[1]
            return RectangularConv(
                channels, points.outputs, depth=depth, width=width, batch_norm=batch_norm, init=init, generator=chance
            )
        return Rectangular(
            points.inputs, points.outputs, depth=depth, width=width, batch_norm=batch_norm, init=init, generator=chance
        )
    expect_plain(init=init, batch_norm=batch_norm)
    torch.manual_seed(seed)
    made = _imported(source)
    if not isinstance(made, nn.Module):
        raise AliveError(f"{source} gave a {type(made).__name__}, not a torch.nn.Module", "Let it return the model")
    return made


def expect_plain(*, init: str, batch_norm: bool) -> None:
    """Refuse for a model of the user's own what only depth x width networks are built with."""
    if init != "glorot" or batch_norm:
        raise AliveError(
            "--init and --batch-norm are for networks by depth x width",
            "Let your own function build it so; alive.nn.initialise_(model, init) gives any start",
        )


def data(source: str) -> Data:
    """Data by name or file, or from a function of the user's own."""
    if ":" not in source or Path(source).suffix.lower() in READERS:  # a path may hold a colon
        return load(source)
    made = _imported(source)
    if isinstance(made, Data):
        return made
    if isinstance(made, tuple) and len(made) in (2, 4):
        return tensors(*made[:2], **dict(zip(("test_x", "test_y"), made[2:], strict=False)), name=source)
    raise AliveError(
        f"{source} gave a {type(made).__name__}, not data",
        "Let it return alive.data.Data, (x, y) or (x, y, test_x, test_y)",
    )


def _imported(source: str) -> Any:
    """What `package.module:name` names, called if it is a function or a class."""
    module_name, _, name = source.partition(":")
    if not all(part.isidentifier() for part in module_name.split(".")):
        raise AliveError(f"{module_name!r} is no name of a module", "Write mine:make_model for make_model in mine.py")
    if str(Path.cwd()) not in sys.path:  # for good: what is called later may import its neighbours
        sys.path.insert(0, str(Path.cwd()))
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise _failed(f"importing {module_name!r}", error) from None
        known = f"Write {module_name.removesuffix('.py')}:{name}" if module_name.endswith(".py") else HERE
        raise AliveError(f"cannot import {module_name!r}: {error}", known) from None
    except Exception as error:
        raise _failed(f"importing {module_name!r}", error) from None
    if not hasattr(module, name):
        expect_one_of(f"name in {module_name}:", name, [known for known in vars(module) if not known.startswith("_")])
    found = getattr(module, name)
    return found if isinstance(found, nn.Module) or not callable(found) else _called(source, found)


HERE = "Run from the folder that holds it"


def _called(source: str, function: Any) -> Any:
    """What a function of the user's own gives."""
    try:
        inspect.signature(function).bind()
    except TypeError as error:
        raise AliveError(
            f"cannot call {source} without arguments: {error}", "Wrap it in a function that needs none"
        ) from None
    except ValueError:  # compiled functions may have no signature
        pass
    try:
        return function()
    except Exception as error:
        raise _failed(f"calling {source}", error) from None


def _failed(doing: str, error: Exception) -> AliveError:
    """A fault in the user's own code, with the last line of it that ran; one of ours stays as it is."""
    if isinstance(error, AliveError):
        return error
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if Path(frame.filename).is_relative_to(Path.cwd())]
    where = f" ({Path(own[-1].filename).name}, line {own[-1].lineno})" if own else ""
    said = " ".join(f"{type(error).__name__}: {error}".split()).rstrip(".: ")
    return AliveError(f"{doing} failed with {said}{where}", "Correct that, and try again")


def points(data: Data, split: str = "train") -> Iterator[Tensor]:
    """What networks read of one part of the data, or of all of it, in batches."""
    expect_one_of("split", split, ("train", "test", "all"))
    if split != "train" and data.test_x is None:
        raise AliveError(f"{data.name} has no test points", "Use --split train")
    parts = [*([] if split == "test" else [data.train_x]), *([] if split == "train" else [data.test_x])]
    return (data.pixels(batch) for part in parts if part is not None for batch in part.split(BATCH))
