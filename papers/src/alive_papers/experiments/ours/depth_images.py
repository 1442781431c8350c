"""Beyond the papers: how deep a plain ReLU convolution can be on MNIST, without skips and without normalisation.

Images are averaged to 14x14, a quarter of the work.
"""

from __future__ import annotations

from collections.abc import Sequence

from alive.train import LrSchedule

from ...fleet import Member
from ..cell import Cell, Row
from ..measure import mean, share
from ..spec import Claim, Experiment, Figure, Measure, Measured
from .layer_work import layer_work

DEPTHS, QUICK_DEPTHS = (100, 300, 1000, 10_000), (100, 300)
WIDTH = 4
DATA = "mnist-14"
POINTS, TEST_POINTS = 10_000, 2000  # of the quick scale and the deepest networks, for the sake of time
LONG = 1000  # layers up to which all images are shown
TUNED_ON = 20  # seeds on which settings were looked at; the claims are made of those that come after them
GOOD, FAR = 0.95, 0.5  # test accuracy of a network that has learnt, and of one far above the chance of a tenth


def member(depth: int, seed: int, epochs: int) -> Member:
    """The mirrored start at the centre of each kernel, a very light Sep-UP, and steps that shrink with depth, to zero.

    All hidden layers move the function in one direction, so that their rate goes as one over the depth; the output
    layer stands alone and learns at Adam's usual rate.
    """
    return Member(
        depth,
        WIDTH,
        "Sep-UP",
        seed,
        weight=3e-4 / depth,
        aggregate="sumsq",
        architecture="conv",
        init="mirrored",
        noise=1.0,
        lr=0.03 / depth,
        output_lr=1e-3,
        epochs=epochs,
        batch_size=48,
        shuffle=True,
        running=True,
        schedule=LrSchedule("cosine"),
    )


def _grid(scale: str, architecture: str, seed: int) -> list[Cell]:
    if scale == "quick":
        return [_some(member(depth, seed + TUNED_ON, 5)) for depth in QUICK_DEPTHS]
    return [
        Cell(member(depth, seed + TUNED_ON, 3), DATA, keep_network=True)
        if depth <= LONG
        else _some(member(depth, seed + TUNED_ON, 2))
        for depth in DEPTHS
    ]


def _some(made: Member) -> Cell:
    """On some of the images; the deepest networks are not kept, for no one could look into 10,000 layers in minutes."""
    return Cell(made, DATA, points=POINTS, test_points=TEST_POINTS, keep_network=made.depth <= LONG)


def _reach(depth: int, accuracy: float) -> Measure:
    """Share of seeds whose best test accuracy is at least so much."""
    return share(lambda row: row.member.depth == depth, lambda row: (row.best_test or 0.0) >= accuracy)


def _best(depth: int) -> Measure:
    def measure(rows: Sequence[Row]) -> Measured | None:
        return mean([row.best_test or 0.0 for row in rows if row.member.depth == depth])

    return measure


def _needed(depth: int) -> Measure:
    def measure(rows: Sequence[Row]) -> Measured | None:
        return mean([layer_work(row).needed / depth for row in rows if row.member.depth == depth])

    return measure


DEPTH_IMAGES = Experiment(
    name="depth-images",
    title="Plain ReLU convolutions of 4 channels on MNIST averaged to 14x14, from 100 to 10,000 layers",
    paper="ours",
    grid=_grid,
    claims=(
        Claim("layers-100", "100 layers: share of seeds at .95 test accuracy", _reach(100, GOOD), (0.9, 1)),
        Claim("layers-300", "300 layers: share of seeds at .95 test accuracy", _reach(300, GOOD), (0.9, 1)),
        Claim("layers-1000", "1000 layers: share of seeds at .95 test accuracy", _reach(1000, GOOD), (0.9, 1)),
        Claim("accuracy-1000", "1000 layers: best test accuracy", _best(1000), (GOOD, 1)),
        Claim("layers-10000", "10,000 layers: share of seeds at .5 test accuracy", _reach(10_000, FAR), (0.6, 1)),
        Claim("accuracy-10000", "10,000 layers: best test accuracy", _best(10_000), (FAR, 1)),
        Claim(
            "layers-needed-1000",
            "Nearly every layer does a little: share of the 1000 that cannot pass their input on without loss of "
            "accuracy",
            _needed(1000),
            band=(0.5, 1),
        ),
    ),
    figures=(
        Figure("curves", "curves", "Best test accuracy against depth; bars are standard deviations"),
        Figure(
            "layers",
            "layers",
            "How far each layer is from passing its input on, relative to it, and how many are needed; at each depth "
            "the seed with the best end",
        ),
    ),
)
