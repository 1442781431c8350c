"""Five networks that do not train as they are, and two that do: what `alive cure` is tried on.

Each is a model, its data, and the settings of a race; run one from the project's folder:

    alive cure examples/seven.py:deep_regression --data examples/seven.py:friedman --lr 0.01 --steps 300
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import torch
from sklearn.datasets import load_digits, make_friedman1, make_moons
from torch import Tensor, nn

SETTINGS: dict[str, dict[str, float]] = {
    "deep_regression": {"lr": 0.01, "steps": 300},
    "fifty_by_four": {"lr": 0.01, "steps": 600},
    "deep_conv": {"lr": 0.002, "steps": 300},
    "deep_text": {"lr": 0.005, "steps": 300},
    "badly_scaled": {"lr": 0.001, "steps": 400},
    "healthy_digits": {"lr": 0.001, "steps": 400},
    "healthy_moons": {"lr": 0.01, "steps": 300},
}
DATA = {
    "deep_regression": "friedman",
    "fifty_by_four": "moons",
    "deep_conv": "digits",
    "deep_text": "reviews",
    "badly_scaled": "large_inputs",
    "healthy_digits": "flat_digits",
    "healthy_moons": "moons",
}
BROKEN = tuple(DATA)[:5]


def dense(*widths: int) -> nn.Sequential:
    """Dense layers of these widths, a ReLU between each two."""
    parts: list[nn.Module] = []
    for inputs, outputs in pairwise(widths):
        parts += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*parts[:-1])


# Broken: too deep for their start, or fed wrong.


def deep_regression() -> nn.Module:
    """30 layers of 20 units, PyTorch's start: all points become one."""
    return dense(10, *[20] * 30, 1)


def fifty_by_four() -> nn.Module:
    """50 layers of 4 units, Glorot's start: born dead."""
    model = dense(2, *[4] * 50, 1)
    for layer in model:
        if isinstance(layer, nn.Linear):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)
    return model


def deep_conv() -> nn.Module:
    """40 convolutions of 8 channels, then the mean over all positions."""
    first, *rest = (nn.Conv2d(8 if level else 1, 8, 3, padding=1) for level in range(40))
    layers = [part for layer in (first, *rest) for part in (layer, nn.ReLU())]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 10))


class Reader(nn.Module):
    """Token ids [N, T] to one logit [N, 1]: the mean of their embeddings, then 30 layers of 16 units."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.head = nn.Embedding(60, 16), dense(16, *[16] * 30, 1)

    def forward(self, ids: Tensor) -> Tensor:
        """The logit of each sequence."""
        return self.head(self.tokens(ids).mean(1))


def deep_text() -> nn.Module:
    """A text classifier with a deep head."""
    return Reader()


def badly_scaled() -> nn.Module:
    """Three layers of 32 units, for inputs from 0 to 10,000."""
    return dense(10, 32, 32, 32, 1)


# Healthy.


def healthy_digits() -> nn.Module:
    """Two layers of 64 units."""
    return dense(64, 64, 64, 10)


def healthy_moons() -> nn.Module:
    """Two layers of 32 units."""
    return dense(2, 32, 32, 1)


# Their data.


def friedman() -> tuple[np.ndarray, np.ndarray]:
    """Friedman's first function of ten numbers in 0..1; targets of mean 0 and spread 1."""
    x, y = make_friedman1(1000, n_features=10, noise=0.5, random_state=0)
    return x.astype("float32"), ((y - y.mean()) / y.std()).astype("float32")[:, None]


def large_inputs() -> tuple[np.ndarray, np.ndarray]:
    """The same with inputs from 0 to 10,000."""
    x, y = friedman()
    return x * 1e4, y


def moons() -> tuple[np.ndarray, np.ndarray]:
    """Two half circles in the plane with some noise."""
    x, y = make_moons(1000, noise=0.1, random_state=0)
    return x.astype("float32"), y


def digits() -> tuple[np.ndarray, np.ndarray]:
    """Handwritten digits [N, 1, 8, 8] in 0..1."""
    x, y = flat_digits()
    return x.reshape(-1, 1, 8, 8), y


def flat_digits() -> tuple[np.ndarray, np.ndarray]:
    """The same as vectors [N, 64]."""
    x, y = load_digits(return_X_y=True)
    return (x / 16).astype("float32"), y


def reviews() -> tuple[Tensor, Tensor]:
    """Sequences of 16 token ids out of 60, each with a hidden worth: is their sum above that of most?"""
    chance = np.random.default_rng(0)
    worth, ids = chance.normal(size=60), chance.integers(60, size=(2000, 16))
    sums = worth[ids].sum(1)
    return torch.from_numpy(ids), torch.from_numpy((sums > np.median(sums)).astype("int64"))
