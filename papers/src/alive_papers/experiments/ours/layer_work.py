"""How many layers of a deep mirrored network really do something."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from alive.train import accuracy

from ...fleet.arena import Floats
from ..cell import Row

LOSS = 0.01  # of accuracy that may be lost by leaving layers out
POINTS = 500  # of the training points, looked at


@dataclass(frozen=True, slots=True, eq=False)
class LayerWork:
    """Of one network: how far each layer from the second on is from passing on its input, and how many are needed.

    A layer that passes on sends relu(u), relu(−u) to the same pair. `moves` [L−1] is the distance of what it sends from
    that, relative to its input, over the training points; `needed` is how many of the layers that move most suffice
    for the same training accuracy, all others passing on.
    """

    moves: Floats
    needed: int
    accuracy: float


@torch.no_grad()
def layer_work(row: Row) -> LayerWork:
    """Look into a network that was kept; only for the mirrored start, of even width."""
    data = row.cell.load()
    if len(data.train_y) > POINTS:
        data = data.subset(POINTS)
    net: Any = row.network()
    first, *layers = net.hidden
    x = data.pixels(data.train_x)
    start = first(x if isinstance(first.linear, nn.Conv2d) else x.flatten(1))
    passing = passing_layer(layers[0]) if layers else nn.Identity()
    moves = _moves(layers, passing, start)
    order = np.argsort(-moves, kind="stable")

    def named(kept: int) -> float:
        own = np.zeros(len(layers), bool)
        own[order[:kept]] = True
        return accuracy(_head(net, _through(layers, passing, start, own)), data.train_y)

    full = named(len(layers))
    low, high = 0, len(layers)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if named(middle) >= full - LOSS else (middle + 1, high)
    return LayerWork(moves, low, full)


def passing(width: int) -> Floats:
    """The hidden layer that passes on pairs: [[I, −I], [−I, I]].

    >>> passing(2).tolist()
    [[1.0, -1.0], [-1.0, 1.0]]
    """
    eye = np.eye(width // 2, dtype=np.float32)
    return np.block([[eye, -eye], [-eye, eye]])


def passing_layer(layer: Any) -> nn.Module:
    """A layer of the same kind that passes on pairs; a kernel does so at its centre tap."""
    other = deepcopy(layer)
    weight = other.linear.weight
    centre = (size // 2 for size in weight.shape[2:])
    nn.init.zeros_(weight)
    nn.init.zeros_(other.linear.bias)
    weight[(..., *centre)] = torch.from_numpy(passing(len(weight)))
    return other  # type: ignore[no-any-return]


def _head(net: Any, h: Tensor) -> Tensor:
    pooled = h.mean((2, 3)) if getattr(net, "head", "flatten") == "mean" else h.flatten(1)
    return net.output(pooled)  # type: ignore[no-any-return]


def _moves(layers: list[nn.Module], passing: nn.Module, h: Tensor) -> Floats:
    moves = np.zeros(len(layers), np.float32)
    for level, layer in enumerate(layers):
        after, size = layer(h), float(h.norm())
        moves[level] = float((after - passing(h)).norm()) / size if size else 0
        h = after
    return moves


def _through(layers: list[nn.Module], passing: nn.Module, h: Tensor, own: np.ndarray) -> Tensor:
    """What the head reads if only the `own` layers compute and all others pass on."""
    for level in np.flatnonzero(own):  # passing on twice is passing on once, so that a gap is one step
        if level and not own[level - 1]:
            h = passing(h)
        h = layers[level](h)
    return h if own[-1:].all() else passing(h)
