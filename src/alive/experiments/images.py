"""Thin deep convolutions as the Keras runs had them: 001-Fig2, 001-Fig3, 004-T1."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..train import Net, Settings
from ..train.net import Options
from .cell import Cell, Row
from .measure import best_accuracy, count, share, top_accuracy, where, wins, worst_accuracy
from .spec import Claim, Experiment, Figure, Grid

CHANCE = 0.1135  # the largest class of MNIST's test set
ABOVE_CHANCE = 2  # so many times chance a network names right that has learnt something, in any epoch
CLASSES = {"cifar100": 100}  # data sets with other than ten classes
WIDTHS = (2, 4, 8)
DEPTHS_001 = (2, 4, *range(12, 69, 8))
DEPTHS_004 = tuple(range(4, 69, 4))
QUICK_DEPTHS = (4, 28, 44)
POINTS, TEST_POINTS = 2000, 1000  # of the quick scale
HEAT = "Mean over seeds of the best accuracy; in each cell how many seeds learn"

# The papers' penalty has a term for every position, at a weight that does not carry over to other batches. The quick
# scale has a term for every channel, which costs half as much.
KERAS: Options = (("weight", 1e-8), ("mode", "UP"), ("conv", "position"))
CHANNEL: Options = (("weight", 1e-3), ("mode", "UP"), ("conv", "channel"))

PAPER = Settings(epochs=50, batch_size=1024, lr=1e-3, running=True, channels_last=True)
QUICK = Settings(epochs=4, batch_size=50, lr=1e-3, shuffle=True, running=True, channels_last=True)


def learnt(row: Row) -> bool:
    """Whether the network ever named clearly more test points than the largest class: twice chance, .2 of ten."""
    return (row.best_test or 0.0) > ABOVE_CHANCE / CLASSES.get(row.cell.data, 10)


def _keras(method: str, depth: int, width: int, seed: int, *, full: bool) -> Net:
    """A rectangle as the Keras runs had it: Glorot, all positions to the output."""
    separation = None if method != "Sep-UP" else (KERAS if full else CHANNEL)
    options: Options = (("head", "flatten"), ("init", "glorot"), ("batch_norm", method == "ReLU+BN"))
    return Net("rectangle", depth, width, method, seed, options, separation, training=PAPER if full else QUICK)


def _grid(
    data: str, methods: Iterable[str], depths: Sequence[int], quick: Sequence[int], widths: Sequence[int]
) -> Grid:
    """Networks of the Keras runs: the papers' grid on all images, or a few depths on a few images."""
    methods = tuple(methods)

    def grid(scale: str, architecture: str, seed: int) -> list[Cell]:
        full = scale == "paper"
        return [
            Cell(
                _keras(method, depth, width, seed, full=full),
                data,
                unscaled=True,
                points=None if full else POINTS,
                test_points=None if full else TEST_POINTS,
            )
            for method in methods
            for depth in (depths if full else quick)
            for width in widths
        ]

    return grid


DEEP = range(28, 69)

FIG2_001 = Experiment(
    name="001-Fig2",
    title="Which convolutional networks learn MNIST: ReLU, batch norm, separation constraints",
    paper="001 Separation constraints, Figure 2",
    grid=_grid("mnist", ("ReLU", "ReLU+BN", "Sep-UP"), DEPTHS_001, quick=QUICK_DEPTHS, widths=WIDTHS),
    claims=(
        Claim(
            "sep-up-worst",
            "With Sep-UP every network of the grid learns: lowest validation accuracy",
            worst_accuracy(where("Sep-UP")),
            band=(0.9457, 1.0),
            published=0.9657,
            scale="paper",
        ),
        Claim(
            "relu-deep",
            "Plain ReLU stays at the largest class from depth 28 on: best validation accuracy",
            best_accuracy(where("ReLU", depths=DEEP), test=True),
            band=(CHANCE - 0.03, CHANCE + 0.03),
            published=0.1135,
        ),
        Claim(
            "sep-up-deep",
            "Sep-UP learns from depth 28 on: share of networks above chance",
            share(where("Sep-UP", depths=DEEP), learnt),
            band=(0.9, 1.0),
        ),
    ),
    figures=(Figure("heat", "heat", HEAT),),
)

TABLE1_004 = Experiment(
    name="004-T1",
    title="Which convolutional networks learn MNIST, with and without Jumpstart",
    paper="004 Jumpstart, Table 1",
    grid=_grid("mnist", ("ReLU", "Sep-UP"), (2, *DEPTHS_004), quick=QUICK_DEPTHS, widths=WIDTHS),
    claims=(
        Claim(
            "successes-baseline",
            "Networks of the 54 that learn without Jumpstart (the table counts 18, three of them outside its grid)",
            count(where("ReLU"), learnt),
            band=(10, 20),
            published=15,
            scale="paper",
        ),
        Claim(
            "successes-jumpstart",
            "Networks of the 54 that learn with Jumpstart",
            count(where("Sep-UP"), learnt),
            band=(52, 54),
            published=54,
            scale="paper",
        ),
        Claim(
            "best-baseline",
            "Best validation accuracy of all networks without Jumpstart",
            top_accuracy(where("ReLU"), test=True),
            band=(0.9785, 0.9985),
            published=0.9885,
            scale="paper",
        ),
        Claim(
            "best-jumpstart",
            "Best validation accuracy of all networks with Jumpstart",
            top_accuracy(where("Sep-UP"), test=True),
            band=(0.9811, 1.0),
            published=0.9911,
            scale="paper",
        ),
        Claim(
            "best-baseline-train",
            "Best training accuracy of all networks without Jumpstart",
            top_accuracy(where("ReLU")),
            band=(0.9895, 1.0),
            published=0.999467,
            scale="paper",
        ),
        Claim(
            "best-jumpstart-train",
            "Best training accuracy of all networks with Jumpstart",
            top_accuracy(where("Sep-UP")),
            band=(0.9895, 1.0),
            published=0.999533,
            scale="paper",
        ),
        Claim(
            "better",
            "Pairs of depth and width, of 54, at which Jumpstart has the better validation accuracy",
            wins(where("Sep-UP"), where("ReLU")),
            band=(36, 54),
            published=41,
            scale="paper",
        ),
        Claim(
            "better-train",
            "Pairs of depth and width, of 54, at which Jumpstart has the better training accuracy",
            wins(where("Sep-UP"), where("ReLU"), test=False),
            band=(40, 54),
            published=45,
            scale="paper",
        ),
        Claim(
            "deep-baseline",
            "From depth 28 on, share of networks that learn without Jumpstart",
            share(where("ReLU", depths=DEEP), learnt),
            band=(0, 0.1),
            published=0,
        ),
        Claim(
            "deep-jumpstart",
            "From depth 28 on, share of networks that learn with Jumpstart",
            share(where("Sep-UP", depths=DEEP), learnt),
            band=(0.9, 1),
            published=1,
        ),
    ),
    figures=(Figure("heat", "heat", HEAT),),
)

PUBLISHED_FIG3 = {
    "ReLU": (0.60, 0.60, 0.10, 0.10, 0.10),
    "ReLU+BN": (0.57, 0.54, 0.54, 0.53, 0.45),
    "Sep-UP": (0.59, 0.57, 0.54, 0.53, 0.53),
}
FIG3_DEPTHS = (2, 10, 25, 30, 40)


def _fig3_claims() -> Iterable[Claim]:
    for method, values in PUBLISHED_FIG3.items():
        for depth, value in zip(FIG3_DEPTHS, values, strict=True):
            yield Claim(
                f"{method}-{depth}",
                f"{method}, {depth} layers of width 10: best validation accuracy",
                best_accuracy(where(method, depths=(depth,)), test=True),
                band=(value - 0.04, value + 0.04),
                published=value,
                scale="paper",
            )
    yield Claim(
        "relu-25",
        "Plain ReLU of 25 layers and more stays at chance: share of networks that learn",
        share(where("ReLU", depths=range(25, 41)), learnt),
        band=(0, 0.1),
        published=0,
    )
    yield Claim(
        "sep-up-25",
        "Sep-UP of 25 layers and more learns: share of networks",
        share(where("Sep-UP", depths=range(25, 41)), learnt),
        band=(0.9, 1),
        published=1,
    )


FIG3_001 = Experiment(
    name="001-Fig3",
    title="Depth on CIFAR-10 at width 10: ReLU, batch norm, separation constraints",
    paper="001 Separation constraints, Figure 3",
    grid=_grid("cifar10", PUBLISHED_FIG3, FIG3_DEPTHS, quick=(2, 25, 40), widths=(10,)),
    claims=tuple(_fig3_claims()),
    figures=(Figure("curves", "curves", "Best validation accuracy against depth; bars are standard deviations"),),
)
