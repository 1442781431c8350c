"""Beyond the papers: the starts and blocks that others proposed, in the atlas, with the same budget as ours."""

from __future__ import annotations

from collections.abc import Sequence

from ...fleet import Member
from ..cell import Cell, Row
from ..measure import mean, share, trains
from ..moons_grids import SUM
from ..spec import Claim, Experiment, Figure, Measure, Measured
from .atlas import RATES, members, standings, wins

DEPTHS, WIDTHS = (10, 50, 100), (4, 10)
EPOCHS, QUICK_EPOCHS = 5000, 1000
LIGHT = 1e-6  # the penalty that goes with the mirrored start; two rivals get it too
OF_THE_ATLAS = (
    *("ReLU", "ReLU+BN", "Sep-UP", "Residual", "Residual+BN"),
    *("ReLU, mirrored", "Sep-UP, mirrored"),
)
STARTS = ("kaiming", "orthogonal", "mean-orthogonal", "lsuv", "deterministic", "looks-linear")
PENALISED = ("deterministic", "looks-linear")
BLOCKS = (
    ("CReLU", "looks-linear"),
    ("ReZero", "glorot"),
    ("Fixup", "glorot"),
    ("TAT", "uniform-orthogonal"),
)  # each with its own start


def _rivals(depth: int, width: int, seed: int, epochs: int) -> list[Member]:
    """Plain networks from other starts, two of them with our penalty, and blocks that others made."""
    kinds = [("ReLU", init) for init in STARTS] + [("Sep-UP", init) for init in PENALISED] + [*BLOCKS]
    return [
        Member(depth, width, method, seed, LIGHT, SUM, lr=lr, epochs=epochs, init=init)
        for lr in RATES
        for method, init in kinds
    ]


def _grid(scale: str, architecture: str, seed: int) -> list[Cell]:
    epochs = EPOCHS if scale == "paper" else QUICK_EPOCHS
    return [
        Cell(member)
        for depth in DEPTHS
        for width in WIDTHS
        for member in (
            *(member for member in members(depth, width, seed, epochs) if member.label in OF_THE_ATLAS),
            *_rivals(depth, width, seed, epochs),
        )
    ]


def _ahead(label: str, other: str) -> Measure:
    """By how much one is ahead of another in training accuracy, mean over depths and widths."""

    def measure(rows: Sequence[Row]) -> Measured | None:
        found = [{one.label: one.train for one in some} for some in standings(rows).values()]
        return mean([train[label] - train[other] for train in found if label in train and other in train])

    return measure


def _deep(label: str) -> Measure:
    """Share of the networks of 100 layers that train, at the rate .001."""
    return share(lambda row: row.cell.label == label and row.member.depth == 100 and row.member.lr == RATES[1], trains)


RIVALS = Experiment(
    name="rivals",
    title="Starts and blocks of others beside ours, one budget",
    paper="ours",
    grid=_grid,
    claims=(
        Claim(
            "mirrored-wins",
            "Beside its rivals, too, the mirrored start with a small Sep-UP is best or ties at half of the places",
            wins("Sep-UP, mirrored"),
            (0.5, 1),
        ),
        Claim(
            "deterministic-deep",
            "From the deterministic start half of the plain networks of 100 layers train, or more",
            _deep("ReLU, deterministic"),
            (0.5, 1),
        ),
        Claim(
            "orthogonal-deep",
            "From an orthogonal start hardly a plain network of 100 thin layers trains",
            _deep("ReLU, orthogonal"),
            (0, 0.1),
        ),
        Claim(
            "mirrored-as-looks-linear",
            "With the same small penalty, the mirrored start is as good as looks-linear: ahead by",
            _ahead("Sep-UP, mirrored", "Sep-UP, looks-linear"),
            (-0.02, 0.02),
        ),
    ),
    figures=(
        Figure(
            "winners",
            "winners",
            "Every method at each depth and width, at its better rate; framed: the best, and who ties",
        ),
    ),
)
