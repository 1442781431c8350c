"""How many layers of a deep mirrored network really do something."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...data import DATA
from ...train.fleet.arena import Floats, Weights, views, weight_shapes
from ..cell import Row

LOSS = 0.01  # of accuracy that may be lost by leaving layers out


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


def layer_work(row: Row) -> LayerWork:
    """Look into a network that was kept; only for the mirrored start, of even width."""
    data = DATA[row.cell.data]()
    x, y = data.pixels(data.train_x).flatten(1).numpy().T.astype(np.float32), data.train_y.numpy()
    weights = _weights(row, len(x), data.outputs)
    layers = len(weights.inner)
    moves = _moves(weights, x)
    order = np.argsort(-moves, kind="stable")

    def accuracy(kept: int) -> float:
        own = np.zeros(layers, bool)
        own[order[:kept]] = True
        return _accuracy(weights, x, y, own)

    full = accuracy(layers)
    low, high = 0, layers
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if accuracy(middle) >= full - LOSS else (middle + 1, high)
    return LayerWork(moves, low, full)


def passing(width: int) -> Floats:
    """The hidden layer that passes on pairs: [[I, −I], [−I, I]].

    >>> passing(2).tolist()
    [[1.0, -1.0], [-1.0, 1.0]]
    """
    eye = np.eye(width // 2, dtype=np.float32)
    return np.block([[eye, -eye], [-eye, eye]])


def _weights(row: Row, inputs: int, outputs: int) -> Weights:
    assert row.weights is not None, "the cell kept no network"
    member = row.member
    read = (inputs, member.width, member.width)
    shapes = weight_shapes(member.depth, member.width, read, outputs, norm=0)
    return views(np.frombuffer(row.weights, np.float32), shapes)


def _relu(z: Floats) -> Floats:
    return np.maximum(z, 0)


def _moves(w: Weights, x: Floats) -> Floats:
    through = passing(w.first.shape[0])
    h = _relu(w.first @ x + w.bias[0].T)
    moves = np.zeros(len(w.inner), np.float32)
    for level, inner in enumerate(w.inner):
        after = _relu(inner @ h + w.bias[level + 1].T)
        size = float(np.linalg.norm(h))
        moves[level] = np.linalg.norm(after - _relu(through @ h)) / size if size else 0
        h = after
    return moves


def _accuracy(w: Weights, x: Floats, y: np.ndarray, own: np.ndarray) -> float:
    """Training accuracy if only its `own` layers compute and all others pass on."""
    through = passing(w.first.shape[0])
    h = _relu(w.first @ x + w.bias[0].T)
    for level in np.flatnonzero(own):  # passing on twice is passing on once, so that a gap is one step
        if level and not own[level - 1]:
            h = _relu(through @ h)
        h = _relu(w.inner[level] @ h + w.bias[level + 1].T)
    if not own[-1:].all():
        h = _relu(through @ h)
    logits = w.out @ h + w.out_bias.T
    named = logits[0] > 0 if len(logits) == 1 else logits.argmax(0)
    return float((named == y).mean())
