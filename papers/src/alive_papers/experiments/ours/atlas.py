"""Beyond the papers: every method at every depth and width with one budget, and which wins where."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from ...fleet import Fade, Member
from ..cell import Cell, Row
from ..measure import mean
from ..moons_grids import SUM, WEIGHT, as_told
from ..spec import Claim, Experiment, Figure, Measure, Measured

DEPTHS, QUICK_DEPTHS = (2, 5, 10, 20, 50, 100, 200), (5, 20, 50, 100)
WIDTHS, QUICK_WIDTHS = (2, 4, 10, 25), (2, 4, 10)
EPOCHS, QUICK_EPOCHS = 5000, 1000
RATES = (0.01, 0.001)  # every method may choose the better of the two, at every depth and width
TIE = 0.005
METHODS = (
    *("ReLU", "ReLU+BN", "Sep-U", "Sep-P", "Sep-UP", "Sep-L"),
    *("Residual", "Residual+BN", "VAN", "VAN+BN", "Farkas"),
)


def members(depth: int, width: int, seed: int, epochs: int) -> list[Member]:
    """All methods from Glorot's start, and the two other starts the papers and we propose."""
    fade = Fade(epochs=epochs // 5, first_epoch_p=0.1)
    return [
        made
        for lr in RATES
        for made in (
            *(
                Member(depth, width, method, seed, WEIGHT, SUM, lr=lr, epochs=epochs, running=as_told(method))
                for method in METHODS
            ),
            Member(
                depth,
                width,
                "Sep-UP",
                seed,
                WEIGHT,
                SUM,
                lr=lr,
                epochs=epochs,
                init="zeros",
                balance=0.51,
                dropout=fade,
            ),
            Member(depth, width, "ReLU", seed, lr=lr, epochs=epochs, init="mirrored"),
            Member(depth, width, "Sep-UP", seed, 1e-6, SUM, lr=lr, epochs=epochs, init="mirrored"),
        )
    ]


def _grid(scale: str, architecture: str, seed: int) -> list[Cell]:
    full = scale == "paper"
    return [
        Cell(member)
        for depth in (DEPTHS if full else QUICK_DEPTHS)
        for width in (WIDTHS if full else QUICK_WIDTHS)
        for member in members(depth, width, seed, EPOCHS if full else QUICK_EPOCHS)
    ]


@dataclass(frozen=True, slots=True)
class Standing:
    """One method at one depth and width: mean over seeds of the best test accuracy, at its better learning rate."""

    label: str
    test: float
    train: float
    lr: float


def standings(rows: Sequence[Row]) -> dict[tuple[int, int], list[Standing]]:
    """For each (depth, width) all methods, the best first: by training accuracy, then by test accuracy."""
    runs: dict[tuple[int, int, str, float], list[Row]] = defaultdict(list)
    for row in rows:
        runs[row.member.depth, row.member.width, row.cell.label, row.member.lr].append(row)
    best: dict[tuple[int, int], dict[str, Standing]] = defaultdict(dict)
    for (depth, width, label, lr), some in runs.items():
        test, train = (
            statistics.fmean(values) for values in zip(*((r.best_test or 0, r.best_train) for r in some), strict=True)
        )
        found = Standing(label, test, train, lr)
        held = best[depth, width].get(label)
        if held is None or _merit(found) > _merit(held):
            best[depth, width][label] = found
    return {place: sorted(some.values(), key=_merit, reverse=True) for place, some in sorted(best.items())}


def _merit(standing: Standing) -> tuple[float, float]:
    return standing.train, standing.test


def winners(some: Sequence[Standing]) -> list[Standing]:
    """The best by training accuracy, and all that are no worse than a tie."""
    return [standing for standing in some if standing.train >= some[0].train - TIE]


def wins(label: str) -> Measure:
    """At what share of the depths and widths a method wins or ties."""

    def measure(rows: Sequence[Row]) -> Measured | None:
        places = standings(rows)
        return mean([float(any(one.label == label for one in winners(some))) for some in places.values()])

    return measure


ATLAS = Experiment(
    name="atlas",
    title="All methods at all depths and widths, one budget",
    paper="ours",
    grid=_grid,
    claims=(
        Claim(
            "relu-wins",
            "Plain ReLU from Glorot's start is seldom best: share of places it wins or ties",
            wins("ReLU"),
            (0, 0.25),
        ),
        Claim(
            "sep-up-wins",
            "Sep-UP from Glorot's start is best or ties at a quarter of the places or more",
            wins("Sep-UP"),
            (0.25, 1),
        ),
        Claim(
            "mirrored-wins",
            "The mirrored start with a small Sep-UP is best or ties at half of the places or more",
            wins("Sep-UP, mirrored"),
            (0.5, 1),
        ),
    ),
    figures=(
        Figure(
            "winners",
            "winners",
            "Every method at each depth and width, at its better rate; framed: the best, and who ties",
        ),
        Figure("heat", "heat", "All methods: mean over seeds of the best accuracy at the better learning rate"),
    ),
)
