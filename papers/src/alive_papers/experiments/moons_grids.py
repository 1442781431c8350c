"""Grids of depth and width on MOONS, which 001 and 004 share."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..fleet import METHODS, Member
from .cell import Cell
from .spec import Grid

WIDTHS = (1, 2, 3, 4, 5, 10, 15, 20, 25)
QUICK_WIDTHS, QUICK_DEPTHS = (1, 3, 5, 10, 25), (1, 10, 20, 30, 40, 60, 80, 100)
EPOCHS, QUICK_EPOCHS = 5000, 2000
BOTH = ("dense", "keras_same")
WEIGHT, SUM = 1e-4, "sumsq"  # of the papers' penalty, a sum over all units and points
HEAT = "Mean over seeds of the best accuracy; in each cell how many seeds train"
SAME_AT_3 = (
    "The published maps came from a convolution over two positions (keras_same), with which width 3 trains to about "
    "60; dense networks of width 3 often stop just below our bar of .95"
)
Make = Callable[[int, int, int, str], Member]  # (depth, width, seed, architecture) -> member


def plain(method: str, epochs: int) -> Make:
    """A network as the papers trained it: Adam at 0.01, all points a step, Glorot, a sum of squares at weight 1e-4."""
    return lambda depth, width, seed, architecture: Member(
        depth, width, method, seed, WEIGHT, SUM, epochs=epochs, architecture=architecture, running=as_told(method)
    )


def as_told(method: str) -> bool:
    """Whether Keras's training accuracy, that of the steps themselves, is another than the network's after them.

    With batch norm the steps go by the batch and the network after them by running statistics. Without it, all points a
    step, the two are one but for a step.
    """
    return METHODS[method].batch_norm


def grid_of(depths: Sequence[int], makes: Callable[[int], Sequence[Make]]) -> Grid:
    """Every depth with every width, by each of the makes: the papers' grid and epochs, or a few of them."""

    def grid(scale: str, architecture: str, seed: int) -> list[Cell]:
        full = scale == "paper"
        return [
            Cell(make(depth, width, seed, architecture))
            for make in makes(EPOCHS if full else QUICK_EPOCHS)
            for depth in (depths if full else QUICK_DEPTHS)
            for width in (WIDTHS if full else QUICK_WIDTHS)
        ]

    return grid
