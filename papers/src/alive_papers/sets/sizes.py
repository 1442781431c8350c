"""How large each data set is: what a grid costs is known before any is loaded."""

from __future__ import annotations

from alive.data import load

from . import tables  # noqa: F401 - with it, its folds are data sets
from .catalogue import CATALOGUE


class Sizes(dict[str, tuple[int, tuple[int, ...], int]]):
    """Of each data set its training points, the shape of one, and outputs; what is not written here is loaded."""

    def __missing__(self, name: str) -> tuple[int, tuple[int, ...], int]:
        data = load(name)
        self[name] = len(data.train_y), tuple(data.train_x.shape[1:]), data.outputs
        return self[name]


SIZES = Sizes(
    {
        "moons": (85, (2,), 1),
        "digits": (1437, (1, 8, 8), 10),
        "friedman": (750, (10,), 1),
        "mnist-14": (60_000, (1, 14, 14), 10),
        **{name: (each.train[0].rows, each.shape, each.classes) for name, each in CATALOGUE.items()},
    }
)
