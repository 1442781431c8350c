"""Beyond the papers: how deep a plain ReLU network of width 4 can be, without skips and without normalisation."""

from __future__ import annotations

from collections.abc import Sequence

from alive.train import LrSchedule

from ...fleet import Member
from ..cell import Cell, Row
from ..measure import mean, share
from ..spec import Claim, Experiment, Figure, Measure, Measured
from .layer_work import layer_work

DEPTHS, QUICK_DEPTHS = (100, 300, 1000, 3000, 10_000), (100, 300, 1000)
WIDTH = 4
TUNED_ON = 20  # seeds on which the settings were chosen; the claims are made of those that come after them


def member(depth: int, seed: int) -> Member:
    """The mirrored start, a very light Sep-UP against collapse, and steps that shrink with depth and to zero.

    Weight and steps go as one over the depth: the penalty is a sum over layers, and every layer moves the output.
    Up to 1000 layers there are 10,000 epochs, beyond it 3000, for the sake of time.
    """
    return Member(
        depth,
        WIDTH,
        "Sep-UP",
        seed,
        weight=3e-4 / depth,
        aggregate="sumsq",
        init="mirrored",
        noise=1.0,
        lr=min(3e-4, 0.1 / depth),
        epochs=10_000 if depth <= 1000 else 3000,
        schedule=LrSchedule("cosine"),
    )


def _grid(scale: str, architecture: str, seed: int) -> list[Cell]:
    depths = DEPTHS if scale == "paper" else QUICK_DEPTHS
    return [Cell(member(depth, seed + TUNED_ON), keep_network=True) for depth in depths]


def learnt(row: Row) -> bool:
    """Whether every training point was right at the best epoch."""
    return row.best_train == 1.0


def _learnt_at(depth: int) -> Measure:
    return share(lambda row: row.member.depth == depth, learnt)


def _needed(depth: int) -> Measure:
    def measure(rows: Sequence[Row]) -> Measured | None:
        at = [row for row in rows if row.member.depth == depth and learnt(row)]
        return mean([layer_work(row).needed / depth for row in at])

    return measure


DEPTH_RECORD = Experiment(
    name="depth-record",
    title="Plain ReLU networks of width 4, from 100 to 10,000 layers",
    paper="ours",
    grid=_grid,
    claims=(
        Claim("layers-100", "100 layers: share of seeds that learn every training point", _learnt_at(100), (0.9, 1)),
        Claim("layers-300", "300 layers: share of seeds that learn every training point", _learnt_at(300), (0.9, 1)),
        Claim("layers-1000", "1000 layers: share of seeds that learn every training point", _learnt_at(1000), (0.9, 1)),
        Claim("layers-3000", "3000 layers: share of seeds that learn every training point", _learnt_at(3000), (0.5, 1)),
        Claim(
            "layers-10000",
            "10,000 layers: share of seeds that learn every training point",
            _learnt_at(10_000),
            (0.5, 1),
        ),
        Claim(
            "layers-needed-1000",
            "Few layers do the work: share of the 1000 that cannot pass their input on without loss of accuracy",
            _needed(1000),
            band=(0, 0.5),
            why="We expected few layers to do the work, and were wrong: nearly every layer does a little",
        ),
    ),
    figures=(
        Figure(
            "layers",
            "layers",
            "How far each layer is from passing its input on, relative to it, and how many are needed; at each depth "
            "the seed with the best end",
        ),
    ),
)
