"""Fourteen networks that `alive cure` is tried on: eleven that do not train as they are, two that do, and one whose
labels were shuffled.

Half of them are from public questions on networks that do not learn, rebuilt small; each says which. Each is a model,
its data, and the settings of a race:

    alive cure examples/fourteen.py:deep_regression --data examples/fourteen.py:friedman --lr 0.01 --steps 300
    python examples/fourteen.py              # all of them, as a table
    python examples/fourteen.py raw_columns  # only these
"""

from __future__ import annotations

import sys
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_digits, make_friedman1, make_moons
from torch import Tensor, nn

SETTINGS: dict[str, dict[str, Any]] = {
    "deep_regression": {"lr": 0.01, "steps": 300},
    "fifty_by_four": {"lr": 0.01, "steps": 600},
    "deep_conv": {"lr": 0.002, "steps": 300},
    "deep_text": {"lr": 0.005, "steps": 300},
    "badly_scaled": {"lr": 0.001, "steps": 400},
    "healthy_digits": {"lr": 0.001, "steps": 400},
    "healthy_moons": {"lr": 0.01, "steps": 300},
    "too_fast": {"lr": 0.1, "steps": 240},
    "relu_at_the_end": {"lr": 0.01, "steps": 400},
    "divided_twice": {"lr": 0.001, "steps": 240},
    "small_normal": {"lr": 0.001, "steps": 240},
    "raw_columns": {"lr": 0.01, "steps": 240, "optimiser": "sgd"},
    "no_warm_up": {"lr": 0.01, "steps": 240},
    "shuffled_labels": {"lr": 0.001, "steps": 240},
}
DATA = {
    "deep_regression": "friedman",
    "fifty_by_four": "moons",
    "deep_conv": "digits",
    "deep_text": "reviews",
    "badly_scaled": "large_inputs",
    "healthy_digits": "flat_digits",
    "healthy_moons": "moons",
    "too_fast": "digits",
    "relu_at_the_end": "line",
    "divided_twice": "tiny_digits",
    "small_normal": "flat_digits",
    "raw_columns": "columns",
    "no_warm_up": "reviews",
    "shuffled_labels": "shuffled",
}
HEALTHY = ("healthy_digits", "healthy_moons")
MISLABELLED = ("shuffled_labels",)
BROKEN = tuple(name for name in DATA if name not in (*HEALTHY, *MISLABELLED))


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


# Broken, from public questions.


def too_fast() -> nn.Module:
    """Two convolutions, Adam at 0.1: the loss stays at 2.30, and weights turn negative.

    PyTorch forum, "Cross Entropy loss is not decreasing" (43814).
    """
    return nn.Sequential(
        *(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(256, 32), nn.ReLU(), nn.Linear(32, 10)),
    )


def relu_at_the_end() -> nn.Module:
    """Four units, two units and an output that is rectified too: most starts give 0 for every point.

    DeepLearning.AI community, "Loss values do not change" (324182).
    """
    return dense(1, 4, 2, 1).append(nn.ReLU())


def divided_twice() -> nn.Module:
    """Four layers for images that were divided by 255 once more: all inputs are next to 0.

    deep3d-pytorch, issue 1, "Training-Loss error does not decrease no matter what I change".
    """
    return dense(64, 64, 64, 64, 10)


def small_normal() -> nn.Module:
    """Ten layers, weights drawn with spread 0.01.

    Caffe, issue 2731, "Why training loss doesn't decrease in my network?".
    """
    model = dense(64, *[64] * 10, 10)
    for layer in model:
        if isinstance(layer, nn.Linear):
            nn.init.normal_(layer.weight, std=0.01)
            nn.init.zeros_(layer.bias)
    return model


def raw_columns() -> nn.Module:
    """Three layers and plain SGD for columns in units of their own: NaN.

    A question asked in many places: the loss of a regression on raw columns is NaN.
    """
    return dense(10, 32, 32, 32, 1)


class Encoder(nn.Module):
    """Six transformer layers with norms behind them, and the mean over all places."""

    def __init__(self, depth: int = 6, width: int = 32) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(60, width), nn.Embedding(16, width)
        layers = (nn.TransformerEncoderLayer(width, 4, 64, dropout=0.0, batch_first=True) for _ in range(depth))
        self.layers, self.head = nn.Sequential(*layers), nn.Linear(width, 1)

    def forward(self, ids: Tensor) -> Tensor:
        """The logit of each sequence."""
        return self.head(self.layers(self.tokens(ids) + self.places.weight).mean(1))


def no_warm_up() -> nn.Module:
    """A transformer, Adam at 0.01 from the first step on: the same answer for every sequence.

    r2c, issue 43, "Loss not decreasing on default config settings": it stays at the loss of one answer for all.
    """
    return Encoder()


def shuffled_labels() -> nn.Module:
    """Nothing is wrong with the network: its loader shuffled the labels and not the inputs."""
    return dense(64, 64, 64, 10)


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


def tiny_digits() -> tuple[np.ndarray, np.ndarray]:
    """Digits, divided by 255 once more."""
    x, y = flat_digits()
    return x / 255 / 255, y


def columns() -> tuple[np.ndarray, np.ndarray]:
    """Friedman's function, columns in units of 0.01 to 10,000."""
    x, y = friedman()
    return (x * np.logspace(-2, 4, 10)).astype("float32"), y


def line() -> tuple[np.ndarray, np.ndarray]:
    """y = 2x - 1 for x from -1 to 5."""
    x = np.linspace(-1, 5, 400, dtype="float32")[:, None]
    return x, 2 * x - 1


def shuffled() -> tuple[np.ndarray, np.ndarray]:
    """Digits whose labels lie in another order than the images."""
    x, y = flat_digits()
    return x, np.random.default_rng(0).permutation(y)


def main(*names: str) -> None:
    """Race them, and print what came of each."""
    import alive

    print("| network | as it is | verdict | winner | its score | trains |\n|---|--:|---|---|--:|--:|")
    for name in names or DATA:
        model, data = globals()[name], globals()[DATA[name]]()
        found = alive.cure(model, data, **({"seeds": 2, "progress": False} | SETTINGS[name]))
        control, winner = found["as it is"], found[found.winner]
        scores = [f"{arm.mean:.3f}" if arm.mean is not None else "diverged" for arm in (control, winner)]
        trains = f"{winner.trains} of {len(winner.laps)}"
        print(f"| {name} | {scores[0]} | {found.kind} | {found.winner} | {scores[1]} | {trains} |", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
