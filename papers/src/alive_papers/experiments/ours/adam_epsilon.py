"""Beyond the papers: Adam's ε as an axis, where Sep-UP is at the edge of what it can train."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from ...fleet import Member
from ..cell import Cell, Row
from ..measure import mean, trains
from ..moons_grids import BOTH, EPOCHS, QUICK_EPOCHS, SUM, WEIGHT
from ..spec import Claim, Experiment, Measure, Measured

EPSILONS = (1e-7, 1e-6, 1e-5, 1e-4)  # the first is that of Keras, and of the papers
DEPTHS, WIDTHS = (80, 100, 120), (10, 15)


def _grid(scale: str, architecture: str, seed: int) -> list[Cell]:
    epochs = EPOCHS if scale == "paper" else QUICK_EPOCHS
    return [
        Cell(Member(depth, width, "Sep-UP", seed, WEIGHT, SUM, architecture=architecture, epochs=epochs, eps=eps))
        for eps in EPSILONS
        for depth in DEPTHS
        for width in WIDTHS
    ]


def _shares(rows: Sequence[Row], eps: float) -> dict[int, float]:
    """Of each seed: which share of its networks trains."""
    seeds: dict[int, list[bool]] = {}
    for row in rows:
        if isinstance(row.member, Member) and row.member.eps == eps:
            seeds.setdefault(row.member.seed, []).append(trains(row))
    return {seed: statistics.fmean(some) for seed, some in seeds.items()}


def _share(eps: float) -> Measure:
    return lambda rows: mean([*_shares(rows, eps).values()])


def _more(rows: Sequence[Row]) -> Measured | None:
    """By how much the share grows from the smallest to a hundred times that."""
    small, large = _shares(rows, EPSILONS[0]), _shares(rows, EPSILONS[2])
    return mean([large[seed] - small[seed] for seed in small.keys() & large.keys()])


ADAM_EPSILON = Experiment(
    name="adam-epsilon",
    title="Adam's ε, where Sep-UP is at its edge: 80 to 120 layers",
    paper="ours",
    grid=_grid,
    claims=(
        Claim("share-1e-7", "Networks that train with ε = 1e-7: share", _share(1e-7), (0.1, 0.45)),
        Claim("share-1e-5", "Networks that train with ε = 1e-5: share", _share(1e-5), (0.5, 0.9)),
        Claim("more", "With ε = 1e-5 more of them train than with 1e-7: difference of the shares", _more, (0.1, 1)),
    ),
    architectures=BOTH,
)
