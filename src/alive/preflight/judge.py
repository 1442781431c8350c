"""Which way a network is judged: by depth x width, or as the user makes it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from .. import sources
from ..data import Data
from ..errors import AliveError, expect
from ..nn import parse_rectangle
from . import own, rectangle
from .record import Preflight

DRAWS = {"dense": 1000, "conv": 40, "own": 20}
POINTS = {"dense": 1000, "conv": 128, "own": 1000}


def preflight(
    model: str | nn.Module | Callable[[], nn.Module],
    data: Any,
    *,
    init: str = "glorot",
    batch_norm: bool = False,
    draws: int | None = None,
    points: int | None = None,
    seed: int = 10,
    args: Sequence[str] = (),
    forward: Callable[[nn.Module, Any], Any] | None = None,
    point_axis: int | None = 0,
    source: str = "",
) -> Preflight:
    """Draw fresh networks, and say before any training how many of them cannot learn, and what to change.

    model   depth x width such as "50x4"; or your own: a function that makes it, "mine:make_model", or a finished one
    data    for depth x width alive.data.Data, for your own whatever `alive.census` takes
    points  so many of them are looked at, at most; of labelled data evenly of all classes
    init, batch_norm   of depth x width networks; args, forward, point_axis   of your own

    >>> from alive.data import moons
    >>> found = preflight("50x4", moons(), draws=200)
    >>> found.verdict.startswith("born dead more often than not")
    True
    """
    typed = isinstance(model, str) and not sources.is_own(model)
    if typed and not isinstance(data, Data):
        raise AliveError("a depth x width network is judged on alive.data.Data", "Give alive.data.tensors(x, y)")
    kind = ("conv" if data.train_x.ndim == 4 else "dense") if typed else "own"
    draws, limit = DRAWS[kind] if draws is None else draws, POINTS[kind] if points is None else points
    expect([(draws >= 1 and limit >= 1, f"draws and points must be at least 1, got {draws} and {limit}")])
    if typed:
        part = data.subset(limit) if limit < len(data.train_y) else data
        depth, width = parse_rectangle(str(model))
        return rectangle.judged(depth, width, part, init=init, batch_norm=batch_norm, draws=draws, seed=seed)
    with torch.random.fork_rng(devices=[]):  # a module of the user's may draw when it is imported
        make, name = _maker(model, args)
        return own.judged(
            make,
            data,
            name=name,
            source=source or getattr(data, "name", None) or type(data).__name__,
            draws=draws,
            points=limit,
            seed=seed,
            forward=forward,
            point_axis=point_axis,
        )


def _maker(model: Any, args: Sequence[str]) -> tuple[Callable[[], nn.Module], str]:
    """What makes the network, and its name."""
    if isinstance(model, nn.Module):
        return lambda: model, type(model).__name__
    if isinstance(model, str):
        return sources.maker(model, args), model
    if callable(model):
        return model, getattr(model, "__name__", type(model).__name__)
    raise AliveError(
        f"expected a model or a function that makes it, got {type(model).__name__}",
        "Give make_model itself, not called",
    )
