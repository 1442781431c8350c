"""The data of the clinic: small sets that a healthy network learns in seconds, and that network."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn

from alive.data import digits as digit_images
from alive.data import friedman as numbers


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """Training and test points with their targets, the loss they ask for, and a network that is known to learn them.

    loss     "ce" (classes), "bce" (two classes, one logit) or "mse" (real targets)
    healthy  a shallow network for these points, made anew at each call
    """

    name: str
    train_x: Tensor
    train_y: Tensor
    test_x: Tensor
    test_y: Tensor
    loss: str
    healthy: Callable[[], nn.Module]

    @property
    def measure(self) -> str:
        """What a score is."""
        return "R²" if self.loss == "mse" else "accuracy"

    @property
    def chance(self) -> float:
        """The score of one answer for every point: the share of the largest class in the test set, or an R² of 0."""
        if self.loss == "mse":
            return 0.0
        return float(torch.bincount(self.test_y.long()).max()) / len(self.test_y)

    def with_inputs(self, name: str, change: Callable[[Tensor], Tensor]) -> Sample:
        """The same points as somebody else writes them down."""
        return replace(self, name=name, train_x=change(self.train_x), test_x=change(self.test_x))


def plain(*widths: int, activation: Callable[[], nn.Module] = nn.ReLU) -> nn.Sequential:
    """A chain of dense layers of these widths, an activation between each two, as PyTorch starts them.

    >>> len(plain(2, 8, 8, 1))
    5
    """
    parts: list[nn.Module] = []
    for inputs, outputs in pairwise(widths):
        parts += [nn.Linear(inputs, outputs), activation()]
    return nn.Sequential(*parts[:-1])


@cache
def moons() -> Sample:
    """Two half circles in the plane with some noise: 512 points to train on, 256 to test."""
    from sklearn.datasets import make_moons

    x, y = make_moons(768, noise=0.1, random_state=0)
    return _split("moons", x, y, 512, "bce", lambda: plain(2, 32, 32, 1))


@cache
def digits() -> Sample:
    """Handwritten digits [N, 1, 8, 8] in 0..1: 1437 to train on, 360 to test."""
    data = digit_images()
    assert data.test_x is not None
    assert data.test_y is not None
    parts = (data.train_x, data.train_y, data.test_x, data.test_y)
    return Sample("digits", *parts, "ce", lambda: nn.Sequential(nn.Flatten(), plain(64, 64, 10)))


@cache
def flat_digits() -> Sample:
    """The same as vectors [N, 64]."""
    return replace(digits().with_inputs("digits", lambda x: x.flatten(1)), healthy=lambda: plain(64, 64, 10))


@cache
def pictures() -> Sample:
    """Digits [N, 64] to be given back as they came: for autoencoders."""
    found = flat_digits()
    parts = (found.train_x, found.train_x, found.test_x, found.test_x)
    return Sample("digits, given back", *parts, "mse", lambda: plain(64, 48, 12, 48, 64))


@cache
def friedman() -> Sample:
    """Friedman's first function of ten numbers in 0..1, five of them noise; targets have mean 0 and spread 1."""
    data = numbers()
    assert data.test_x is not None
    assert data.test_y is not None
    parts = (data.train_x, data.train_y, data.test_x, data.test_y)
    return Sample("friedman", *parts, "mse", lambda: plain(10, 64, 1))


class Reader(nn.Module):
    """Token ids [N, T] to one logit [N, 1]: the mean of their embeddings, then dense layers of these widths."""

    def __init__(self, *widths: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(TOKENS, 16)
        self.deep = plain(16, *widths, 1)

    def forward(self, ids: Tensor) -> Tensor:
        """The logit of each sequence."""
        return self.deep(self.tokens(ids).mean(1))  # type: ignore[no-any-return]


class Encoder(nn.Module):
    """Token ids [N, T] to one logit [N, 1], by transformer layers whose norms stand behind them."""

    def __init__(self, depth: int, width: int = 32) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(TOKENS, width), nn.Embedding(LENGTH, width)
        layers = (nn.TransformerEncoderLayer(width, 4, 2 * width, dropout=0.0, batch_first=True) for _ in range(depth))
        self.layers, self.head = nn.Sequential(*layers), nn.Linear(width, 1)

    def forward(self, ids: Tensor) -> Tensor:
        """The logit of each sequence."""
        return self.head(self.layers(self.tokens(ids) + self.places.weight).mean(1))  # type: ignore[no-any-return]


TOKENS, LENGTH = 60, 16


@cache
def reviews() -> Sample:
    """Sequences of 16 token ids out of 60, each with a hidden worth: is their sum above that of most sequences?"""
    chance = np.random.default_rng(0)
    worth = chance.normal(size=TOKENS)
    ids = chance.integers(TOKENS, size=(2000, LENGTH))
    sums = worth[ids].sum(1)
    return _split("reviews", ids, (sums > np.median(sums)).astype(np.int64), 1500, "bce", lambda: Reader(32))


def _split(name: str, x: np.ndarray, y: np.ndarray, train: int, loss: str, healthy: Callable[[], nn.Module]) -> Sample:
    points, targets = (torch.from_numpy(part) for part in (x, y))
    points, targets = (part.float() if part.is_floating_point() else part for part in (points, targets))
    return Sample(name, points[:train], targets[:train], points[train:], targets[train:], loss, healthy)
