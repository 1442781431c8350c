"""What a Farkas layer does: does its guarantee help, or the larger start and step that its extra unit brings?

The extra unit is minus the sum of all others: at the start it is as large as all of them together, and hands each of
them its gradient once more. So four networks race, each at its own best rate: a plain residual one, Farkas layers with
sum and with mean, and one with the sum whose signs are drawn at random. The last has the same start and the same step
as the sum, and no guarantee. The rate for a seed is chosen by the other seeds.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace

from ...net import Net, Options
from ..cell import Cell, Row
from ..measure import mean
from ..p000_farkas import PAPER, QUICK, RELEASED
from ..spec import Claim, Experiment, Figure, Measure, Measured

RATES = (0.003, 0.01, 0.03, 0.1)
RESNET, SUM, MEAN, SIGNED = "ResNet", "Farkas, sum", "Farkas, mean", "sum, random signs"
KINDS: tuple[tuple[str, str, Options], ...] = (
    (RESNET, "resnet", ()),
    (SUM, "farkas", RELEASED),
    (MEAN, "farkas", (*RELEASED[:1], ("aggregation", "mean"), *RELEASED[2:])),
    (SIGNED, "farkas-signed", RELEASED),
)
Value = Callable[[Row], float]


def _grid(scale: str, architecture: str, seed: int) -> list[Cell]:
    """Eight blocks in two stages on digits; at the paper's width 18 and 34 layers on CIFAR-10, ten epochs."""
    cells = []
    for name, network, options in KINDS:
        for lr in RATES:
            if scale != "paper":
                own: Options = (("stages", 2), ("batch_norm", False), *options)
                net = Net(network, 8, 8, name, seed, own, training=replace(QUICK, lr=lr))
                cells.append(Cell(net, "digits"))
                continue
            for depth in (18, 34):
                for norm in (False, True):
                    own = (("preset", str(depth)), ("batch_norm", norm), *options)
                    label = name + " + BN" * norm
                    net = Net(network, depth, 16, label, seed, own, training=replace(PAPER, lr=lr, epochs=10))
                    cells.append(Cell(net, "cifar10", unscaled=True))
    return cells


def best(row: Row) -> float:
    """Best test accuracy."""
    return row.best_test or 0.0


def first(row: Row) -> float:
    """Test accuracy after the first epoch; 0 where it broke down before."""
    return next(iter(row.trace["test_accuracy"]), 0.0)


def raced(rows: Sequence[Row], label: str, value: Value = best) -> dict[tuple[int, int], float]:
    """By depth and seed: the value of a method at the rate that is best on the mean of the other seeds."""
    found: dict[tuple[int, float], dict[int, Row]] = defaultdict(dict)
    for row in rows:
        if row.cell.label == label:
            found[row.member.depth, row.member.lr][row.member.seed] = row
    chosen = {}
    for depth, seed in {(depth, seed) for (depth, _), some in found.items() for seed in some}:
        others = {
            lr: statistics.fmean([best(row) for at, row in some.items() if at != seed] or [0.0])
            for (at, lr), some in found.items()
            if at == depth and seed in some and len(some) > 1
        }
        if others:
            rate = max(others, key=lambda lr: others[lr])
            chosen[depth, seed] = value(found[depth, rate][seed])
    return chosen


def _lead(ours: str, theirs: str, value: Value = best) -> Measure:
    def measure(rows: Sequence[Row]) -> Measured | None:
        mine, other = (raced(rows, label, value) for label in (ours, theirs))
        return mean([mine[at] - other[at] for at in sorted(mine.keys() & other.keys())])

    return measure


FARKAS_WHY = Experiment(
    name="farkas-why",
    title="What a Farkas layer does: a live unit, or a larger start and step",
    paper="ours",
    grid=_grid,
    claims=(
        Claim(
            "sum-over-resnet",
            "Without norm, each at its own rate, the sum is ahead of a ResNet: lead in best test accuracy",
            _lead(SUM, RESNET),
            (0.005, 1.0),
        ),
        Claim(
            "mean-over-resnet",
            "So is the mean: lead in best test accuracy",
            _lead(MEAN, RESNET),
            (0.005, 1.0),
        ),
        Claim(
            "guarantee",
            "The guarantee helps: lead of the sum over the same with random signs, which has none",
            _lead(SUM, SIGNED),
            (0.005, 1.0),
        ),
        Claim(
            "larger-step",
            "The larger start and step help: lead of the sum with random signs over a ResNet",
            _lead(SIGNED, RESNET),
            (0.005, 1.0),
        ),
        Claim(
            "first-epoch",
            "The sum is ahead of a ResNet after the first epoch: lead in test accuracy",
            _lead(SUM, RESNET, first),
            (0.005, 1.0),
        ),
    ),
    figures=(
        Figure("rates", "rates", "Best test accuracy against the rate; bars are standard deviations over seeds"),
        Figure("learning", "learning", "Test accuracy over epochs, all rates"),
    ),
)
