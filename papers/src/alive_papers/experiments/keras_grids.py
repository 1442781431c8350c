"""Grids of thin deep convolutions as the Keras runs of 001 and 004 had them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from alive.train import Settings

from ..choice import quickest
from ..net import Net, Options
from ..network import Network
from .cell import Cell, Row
from .spec import Grid

CHANCE = 0.1135  # the largest class of MNIST's test set
ABOVE_CHANCE = 2  # a network has learnt something if in some epoch it names this many times chance right
CLASSES = {"cifar100": 100}  # the other data sets have ten classes
WIDTHS = (2, 4, 8)
QUICK_DEPTHS = (4, 28, 44)
POINTS, TEST_POINTS = 2000, 1000  # of the quick scale
IMAGES: dict[str, tuple[int | None, int | None]] = {  # to train on and to test, by scale; None: all of them
    "quick": (POINTS, TEST_POINTS),
    "middle": (10_000, 2000),
    "paper": (None, None),
}
SCALES = tuple(IMAGES)
LARGE = ("middle", "paper")  # scales with all depths and widths of the paper
FEWER = "At the middle scale: 10,000 images and 10 epochs, where the paper has all images and 50 epochs"
HEAT = "Mean over seeds of the best accuracy; in each cell how many seeds learn"

# The papers' penalty has a term for every position, at a weight that does not carry over to other batches. The smaller
# scales have a term for every channel, which costs less.
KERAS: Options = (("weight", 1e-8), ("aggregate", "sumsq"), ("mode", "UP"), ("conv", "position"))
CHANNEL: Options = (("weight", 1e-3), ("aggregate", "sumsq"), ("mode", "UP"), ("conv", "channel"))

PAPER = Settings(epochs=50, batch_size=1024, lr=1e-3, running=True, channels_last=True)
MIDDLE = Settings(epochs=10, batch_size=64, lr=1e-3, shuffle=True, running=True, channels_last=True)
QUICK = Settings(epochs=4, batch_size=50, lr=1e-3, shuffle=True, running=True, channels_last=True)


def learnt(row: Row) -> bool:
    """Whether the network ever named clearly more test points than the largest class: twice chance, .2 of ten."""
    return (row.best_test or 0.0) > ABOVE_CHANCE / CLASSES.get(row.cell.data, 10)


def _keras(method: str, depth: int, width: int, seed: int, *, scale: str) -> Network:
    """A rectangle as the Keras runs had it: Glorot, all positions to the output."""
    separation = None if method != "Sep-UP" else (KERAS if scale == "paper" else CHANNEL)
    training = {"quick": QUICK, "middle": MIDDLE, "paper": PAPER}[scale]
    options: Options = (("head", "flatten"), ("init", "glorot"), ("batch_norm", method == "ReLU+BN"))
    return quickest(Net("rectangle", depth, width, method, seed, options, separation, training=training))


def keras_grid(
    data: str, methods: Iterable[str], depths: Sequence[int], quick: Sequence[int], widths: Sequence[int]
) -> Grid:
    """Networks of the Keras runs: the papers' grid on all images, the same on some, or a few depths on few images."""
    methods = tuple(methods)

    def grid(scale: str, architecture: str, seed: int) -> list[Cell]:
        points, test_points = IMAGES[scale]
        return [
            Cell(
                _keras(method, depth, width, seed, scale=scale),
                data,
                unscaled=True,
                points=points,
                test_points=test_points,
            )
            for method in methods
            for depth in (quick if scale == "quick" else depths)
            for width in widths
        ]

    return grid


DEEP = range(28, 69)  # depths at which only penalised networks learn
