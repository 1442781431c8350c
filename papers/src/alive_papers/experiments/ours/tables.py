"""Deep thin networks on tables: the question of Riera, Puertas and Pujol (Unit-Centric Regularization, 2025).

They report that the penalty beats batch norm there at every depth and often skip connections. Here it stands beside
both, beside the mirrored start, and beside what a user would take instead. A seed is a fold. Every network may have
the better of two rates, by its training accuracy; what counts is test accuracy after the last epoch, not the best.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Sequence

from ...fleet import Member
from ...network import Network
from ...sets.tables import FOLDS, TABLES, data_name
from ...studies.record import Run
from ...studies.table import LINEAR, TREES
from ..cell import Cell, Row
from ..measure import mean
from ..spec import FIRST_SEED, Claim, Experiment, Figure, Measure, Measured

SMALL = (
    *("australian", "bupa", "german", "heart", "ionosphere", "pima"),
    *("sonar", "tic-tac-toe", "vehicle", "vowel", "wdbc", "wine"),
)
QUICK, FULL = ((2, 10, 30, 60), (16,)), ((2, 5, 10, 20, 40, 60), (4, 16, 64))  # depths, widths
RATES = (0.01, 0.001)
METHODS = (
    *(("ReLU", "glorot"), ("ReLU+BN", "glorot"), ("Residual", "glorot"), ("Sep-UP", "glorot")),
    *(("ReLU", "mirrored"), ("Sep-UP", "mirrored")),
)
DEEP = 30  # from so many layers on
Scores = dict[tuple[str, str, int], float]  # by table, method and depth (0 for what has none)


def _grid(scale: str, architecture: str, seed: int) -> list[Cell]:
    full, fold = scale == "paper", (seed - FIRST_SEED) % FOLDS
    depths, widths = FULL if full else QUICK
    taken: list[Network] = [Run("table", "as it comes", method, seed, steps=1, width=1) for method in (LINEAR, TREES)]
    nets: list[Network] = [
        _member(depth, width, method, init, seed, lr)
        for depth in depths
        for width in widths
        for method, init in METHODS
        for lr in RATES
    ]
    return [Cell(made, data_name(table, fold)) for table in (TABLES if full else SMALL) for made in (*taken, *nets)]


def _member(depth: int, width: int, method: str, init: str, seed: int, lr: float) -> Member:
    return Member(
        depth, width, method, seed, aggregate="meansq", init=init, epochs=100, batch_size=32, shuffle=True, lr=lr
    )


def scores(rows: Sequence[Row]) -> Scores:
    """Test accuracy after the last epoch, mean over folds and widths, at the rate of the better training accuracy."""
    runs: dict[tuple[str, str, int, int, int], list[Row]] = defaultdict(list)
    for row in rows:
        depth = 0 if row.member.method in (LINEAR, TREES) else row.member.depth
        runs[row.cell.data.split("/")[1], row.cell.label, depth, row.member.width, row.member.seed].append(row)
    found: dict[tuple[str, str, int], list[float]] = defaultdict(list)
    for (table, label, depth, _, _), some in runs.items():
        chosen = max(some, key=lambda row: row.last.train_accuracy if row.last and not row.stopped else 0.0)
        found[table, label, depth].append((chosen.last.test_accuracy or 0.0) if chosen.last else 0.0)
    return {at: statistics.fmean(values) for at, values in found.items()}


def _lead(ours: str, theirs: str) -> Measure:
    """How much more accuracy one has than another: mean over tables, each the mean over depths of DEEP or more."""

    def measure(rows: Sequence[Row]) -> Measured | None:
        by_table: dict[str, list[float]] = defaultdict(list)
        all_scores = scores(rows)
        for (table, label, depth), score in all_scores.items():
            if label == ours and depth >= DEEP and (table, theirs, depth) in all_scores:
                by_table[table].append(score - all_scores[table, theirs, depth])
        return mean([statistics.fmean(values) for values in by_table.values()])

    return measure


def _ahead(ours: str, theirs: str) -> Measure:
    """On what share of the tables one has more accuracy than another, over depths of DEEP or more."""

    def measure(rows: Sequence[Row]) -> Measured | None:
        found = scores(rows)
        tables = sorted({table for table, _, _ in found})
        sums = [
            tuple(
                sum(score for (at, one, depth), score in found.items() if (at, one) == (table, label) and depth >= DEEP)
                for label in (ours, theirs)
            )
            for table in tables
        ]
        return mean([float(mine > other) for mine, other in sums]) if sums else None

    return measure


def _best(rows: Sequence[Row], *, deep: bool) -> dict[str, float]:
    """Of each table the best network of DEEP layers or more, or of fewer: the method and depth of the best mean."""
    found = {at: score for at, score in scores(rows).items() if at[2] and (at[2] >= DEEP) == deep}
    kinds = {at[1:] for at in found}
    means = {kind: statistics.fmean(s for at, s in found.items() if at[1:] == kind) for kind in kinds}
    if not means:
        return {}
    chosen = max(means, key=lambda kind: means[kind])
    return {at[0]: score for at, score in found.items() if at[1:] == chosen}


def _worth(rows: Sequence[Row]) -> Measured | None:
    """What depth gains: the best deep setting less the best shallow one, table by table."""
    deep, shallow = _best(rows, deep=True), _best(rows, deep=False)
    return mean([deep[table] - shallow[table] for table in sorted(deep.keys() & shallow.keys())])


def _trees(rows: Sequence[Row]) -> Measured | None:
    """Boosted trees less the best network setting at any depth, table by table."""
    found, deep, shallow = scores(rows), _best(rows, deep=True), _best(rows, deep=False)
    nets = max((deep, shallow), key=lambda each: statistics.fmean(each.values()) if each else 0.0)
    return mean([found[table, TREES, 0] - net for table, net in sorted(nets.items()) if (table, TREES, 0) in found])


TABLES_STUDY = Experiment(
    name="tables",
    title="Deep thin networks on tables, and what one would take instead",
    paper="ours",
    grid=_grid,
    claims=(
        Claim(
            "over-norm",
            "From 30 layers on the penalty is ahead of batch norm: lead in test accuracy, mean over tables",
            _lead("Sep-UP", "ReLU+BN"),
            (0.0, 1.0),
        ),
        Claim(
            "over-skips",
            "From 30 layers on it is ahead of skip connections on half of the tables or more",
            _ahead("Sep-UP", "Residual"),
            (0.5, 1.0),
        ),
        Claim(
            "mirrored-over-norm",
            "So is the mirrored start with the penalty ahead of batch norm: lead in test accuracy",
            _lead("Sep-UP, mirrored", "ReLU+BN"),
            (0.0, 1.0),
        ),
        Claim(
            "depth-gains-nothing",
            "Depth gains nothing on a table: the best setting of 30 layers or more less the best of fewer",
            _worth,
            (-1.0, 0.005),
        ),
        Claim(
            "trees-ahead",
            "Boosted trees as they come are no worse than the best network: their lead",
            _trees,
            (-0.005, 1.0),
        ),
    ),
    figures=(
        Figure(
            "ranks", "ranks", "Average rank over tables, 1 the best; a bar joins what is not told apart (Nemenyi, .05)"
        ),
        Figure("depths", "depths", "Test accuracy after the last epoch against depth, mean over tables"),
    ),
)
