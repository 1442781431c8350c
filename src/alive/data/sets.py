"""The data sets that come with the package, one function each, and one name for all: `load`."""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike
from pathlib import Path

import numpy as np

from ..errors import AliveError, near, require
from ..registry import Registry
from .files import endings, from_file, is_known
from .record import Data, tensors


def moons() -> Data:
    """Two half circles in the plane: 100 points, split 85 and 15 exactly as the authors of 001 and 004 did.

    >>> data = moons()
    >>> len(data.train_y), len(data.test_y), int(data.train_y.sum()), int(data.test_y.sum())
    (85, 15, 44, 6)
    """
    angle = np.linspace(0, np.pi, 50)
    outer, inner = [np.cos(angle), np.sin(angle)], [1 - np.cos(angle), 1 - np.sin(angle) - 0.5]
    x, y = np.concatenate([outer, inner], axis=1).T, np.repeat([0, 1], 50)
    order = np.random.RandomState(10).permutation(100)  # these are the draws of scikit-learn
    x, y = x[order] / (x.max() - x.min()), y[order]
    test, train = np.split(np.random.RandomState(42).permutation(100), [15])
    return tensors(x[train], y[train], test_x=x[test], test_y=y[test], name="moons")


def digits() -> Data:
    """Handwritten digits as images [N, 1, 8, 8] in 0..1: 1437 to train on, 360 to test, equally spread over classes.

    >>> digits().train_x.shape
    torch.Size([1437, 1, 8, 8])
    """
    with require("digits", "alive[sklearn]"):
        from sklearn.datasets import load_digits
        from sklearn.model_selection import train_test_split

    x, y = load_digits(return_X_y=True)
    x = x.reshape(-1, 1, 8, 8) / 16
    train_x, test_x, train_y, test_y = train_test_split(x, y, test_size=0.2, random_state=42, stratify=y)
    return tensors(train_x, train_y, test_x=test_x, test_y=test_y, name="digits")


def friedman() -> Data:
    """Friedman's first function of ten numbers in 0..1, five of them noise: 750 points to train on, 250 to test.

    The targets are real, with mean 0 and spread 1.

    >>> data = friedman()
    >>> data.train_x.shape, data.is_real
    (torch.Size([750, 10]), True)
    """
    draws = np.random.RandomState(0)  # as scikit-learn draws them
    x = draws.uniform(size=(1000, 10))
    y = 10 * np.sin(np.pi * x[:, 0] * x[:, 1]) + 20 * (x[:, 2] - 0.5) ** 2 + 10 * x[:, 3] + 5 * x[:, 4]
    y = y + 0.5 * draws.standard_normal(1000)
    y = (y - y.mean())[:, None] / y.std()
    return tensors(x[:750], y[:750], test_x=x[750:], test_y=y[750:], name="friedman")


DATA: Registry[Callable[[], Data]] = Registry(
    "alive.data",
    "data set",
    {
        "moons": moons,
        "digits": digits,
        "friedman": friedman,
    },
    fault=lambda name, thing: "" if callable(thing) else f"it is {type(thing).__name__}, which loads no data",
)


def load(source: str | PathLike[str]) -> Data:
    """Load a data set by its name, or from a file.

    >>> load("moons").name
    'moons'
    """
    if str(source) in DATA:
        return DATA[str(source)]()
    if is_known(source) or Path(source).exists():
        return from_file(source)
    raise AliveError(
        f"unknown data {str(source)!r}",
        f"{near(source, DATA)}; or give a file ending in {endings()}",
    )
