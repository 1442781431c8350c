"""What the command line calls a model or data: names, files, and functions of the user's own."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from .data import Data, load, tensors
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
    torch.manual_seed(seed)
    made = _imported(source)
    if not isinstance(made, nn.Module):
        raise AliveError(f"{source} gave a {type(made).__name__}, not a torch.nn.Module", "Let it return the model")
    return made


def data(source: str) -> Data:
    """Data by name or file, or from a function of the user's own."""
    if ":" not in source:
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
    sys.path.insert(0, str(Path.cwd()))
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise AliveError(f"cannot import {module_name!r}: {error}", "Run from the folder that holds it") from None
    finally:
        sys.path.pop(0)
    if not hasattr(module, name):
        expect_one_of(f"name in {module_name}:", name, [known for known in vars(module) if not known.startswith("_")])
    found = getattr(module, name)
    if isinstance(found, nn.Module) or not callable(found):
        return found
    try:
        return found()
    except TypeError as error:
        raise AliveError(
            f"cannot call {source} without arguments: {error}", "Wrap it in a function that needs none"
        ) from None


def points(data: Data, split: str = "train") -> Iterator[Tensor]:
    """What networks read of one part of the data, or of all of it, in batches."""
    expect_one_of("split", split, ("train", "test", "all"))
    if split != "train" and data.test_x is None:
        raise AliveError(f"{data.name} has no test points", "Use --split train")
    parts = [*([] if split == "test" else [data.train_x]), *([] if split == "train" else [data.test_x])]
    return (data.pixels(batch) for part in parts if part is not None for batch in part.split(BATCH))
