"""The two ways to judge: networks by depth and width, or whatever makes a network."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import nn

from ..data import Data
from ..errors import AliveError, expect
from ..taps import UNDECLARED, Declared
from . import own, rectangle
from .record import Preflight

DRAWS = {"dense": 1000, "conv": 40, "own": 20}
POINTS = {"dense": 1000, "conv": 128, "own": 1000}


def preflight(
    model: nn.Module | Callable[[], nn.Module],
    data: Any,
    *,
    draws: int | None = None,
    points: int | None = None,
    seed: int = 10,
    forward: Callable[[nn.Module, Any], Any] | None = None,
    point_axis: int | None = 0,
    declared: Declared = UNDECLARED,
    name: str = "",
    source: str = "",
) -> Preflight:
    """Draw fresh networks, and say before any training how many of them cannot learn, and what to change.

    model   a function that makes the network, called anew for each draw; or a finished network
    data    whatever `alive.census` takes
    points  so many of them are looked at, at most
    name, source   what the network and the data are called in the table

    >>> def make_model():
    ...     return nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 1))
    >>> preflight(make_model, torch.randn(50, 2), draws=5).draws
    5
    """
    if not callable(model):
        given = type(model).__name__
        raise AliveError(f"expected a model, or a function that makes it, got {given}", "Give make_model, not called")
    draws, points = _numbers("own", draws, points)
    make: Callable[[], nn.Module] = partial(_itself, model) if isinstance(model, nn.Module) else model
    with torch.random.fork_rng(devices=[]):
        return own.judged(
            make,
            data,
            name=name or getattr(model, "__name__", type(model).__name__),
            source=source or getattr(data, "name", None) or type(data).__name__,
            draws=draws,
            points=points,
            seed=seed,
            forward=forward,
            point_axis=point_axis,
            declared=declared,
        )


def by_size(
    depth: int,
    width: int,
    data: Data,
    *,
    init: str = "glorot",
    batch_norm: bool = False,
    draws: int | None = None,
    points: int | None = None,
    seed: int = 10,
) -> Preflight:
    """The same for plain networks of this depth and width: dense, or of 3x3 convolutions for images [N, C, H, W].

    At most `points` training points are looked at, evenly of all classes.

    >>> from alive.data import moons
    >>> by_size(50, 4, moons(), draws=200).verdict.startswith("born dead more often than not")
    True
    """
    draws, points = _numbers("conv" if data.train_x.ndim == 4 else "dense", draws, points)
    part = data.subset(points) if points < len(data.train_y) else data
    return rectangle.judged(depth, width, part, init=init, batch_norm=batch_norm, draws=draws, seed=seed)


def _itself(model: nn.Module) -> nn.Module:
    return model


def _numbers(kind: str, draws: int | None, points: int | None) -> tuple[int, int]:
    """How many networks and points, by default as many as take seconds."""
    draws, points = DRAWS[kind] if draws is None else draws, POINTS[kind] if points is None else points
    expect([(draws >= 1 and points >= 1, f"draws and points must be at least 1, got {draws} and {points}")])
    return draws, points
