"""The data sets that come with the package, one function each, and one name for all: `load`."""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike
from pathlib import Path

from ..errors import AliveError, near
from ..registry import Registry
from .files import READERS, from_file
from .record import Data, tensors


def moons() -> Data:
    """Two half circles in the plane: 100 points, split 85 and 15 exactly as the authors of 001 and 004 did.

    >>> data = moons()
    >>> len(data.train_y), len(data.test_y), int(data.train_y.sum()), int(data.test_y.sum())
    (85, 15, 44, 6)
    """
    from sklearn.datasets import make_moons
    from sklearn.model_selection import train_test_split

    x, y = make_moons(100, shuffle=True, noise=None, random_state=10)
    x = x / (x.max() - x.min())
    train_x, test_x, train_y, test_y = train_test_split(x, y, test_size=0.15, random_state=42)
    return tensors(train_x, train_y, test_x=test_x, test_y=test_y, name="moons")


def digits() -> Data:
    """Handwritten digits as images [N, 1, 8, 8] in 0..1: 1437 to train on, 360 to test, equally spread over classes.

    >>> digits().train_x.shape
    torch.Size([1437, 1, 8, 8])
    """
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
    from sklearn.datasets import make_friedman1

    x, y = make_friedman1(1000, n_features=10, noise=0.5, random_state=0)
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
    path = Path(source)
    if path.suffix.lower() in READERS or path.exists():
        return from_file(path)
    raise AliveError(
        f"unknown data {str(source)!r}",
        f"{near(source, DATA)}; or give a file ending in {' or '.join(READERS)}",
    )
