"""Jumpstart: depths that train on MOONS (004-Fig2), thin convolutions on MNIST (004-T1), four penalties on CIFAR
(004-Fig3, 004-Fig4).

The runs on CIFAR have torch's own start, the penalty also on the logits, a term a channel, images shuffled and
normalised.
"""

from __future__ import annotations

from collections.abc import Sequence

from alive.train import Settings

from ..net import Net, Options
from .cell import Cell, Row
from .keras_grids import DEEP, FEWER, LARGE, POINTS, QUICK_DEPTHS, TEST_POINTS, keras_grid, learnt
from .keras_grids import HEAT as IMAGE_HEAT
from .keras_grids import SCALES as IMAGE_SCALES
from .keras_grids import WIDTHS as IMAGE_WIDTHS
from .measure import Spot, count, deepest, deepest_ratio, lead, mean, share, spot, top_accuracy, where, wins
from .moons_grids import BOTH, HEAT, SAME_AT_3, WIDTHS, grid_of, plain
from .spec import Claim, Experiment, Figure, Grid, Measure, Measured

DEPTHS = (*range(1, 6), *range(10, 51, 5), *range(60, 151, 10))
IMAGE_DEPTHS = tuple(range(4, 69, 4))

FIG2_004 = Experiment(
    name="004-Fig2",
    title="How deep a network of each width can be trained, with and without Jumpstart",
    paper="004 Jumpstart, Figure 2",
    grid=grid_of(DEPTHS, lambda epochs: [plain(method, epochs) for method in ("ReLU", "Sep-UP")]),
    claims=(
        Claim(
            "width-3-jumpstart",
            "With Jumpstart, width 3 trains to depth 60",
            deepest(where("Sep-UP", widths=(3,))),
            band=(50, 70),
            published=60,
            why=SAME_AT_3,
        ),
        Claim(
            "width-3-baseline",
            "Without, width 3 trains to depth 10",
            deepest(where("ReLU", widths=(3,))),
            band=(5, 15),
            published=10,
            why="Dense networks of width 3 seldom pass our bar of .95, however shallow",
        ),
        Claim(
            "width-25-jumpstart",
            "With Jumpstart, width 25 trains to depth 100",
            deepest(where("Sep-UP", widths=(25,))),
            band=(90, 110),
            published=100,
        ),
        Claim(
            "width-25-baseline",
            "Without, width 25 trains to depth 30",
            deepest(where("ReLU", widths=(25,))),
            band=(20, 40),
            published=30,
        ),
        Claim(
            "five-fold",
            "Jumpstart makes the trainable depth about five times larger (mean over widths from 3)",
            deepest_ratio("Sep-UP", "ReLU", widths=WIDTHS[2:]),
            band=(3, 8),
            published=5,
        ),
        Claim(
            "more-train",
            "More networks of the grid train with Jumpstart: its lead in best training accuracy over all of them",
            lead(where("Sep-UP"), where("ReLU")),
            band=(0.02, 0.5),
        ),
    ),
    figures=(Figure("heat", "heat", HEAT),),
    architectures=BOTH,
)

TABLE1_004 = Experiment(
    name="004-T1",
    title="Which convolutional networks learn MNIST, with and without Jumpstart",
    paper="004 Jumpstart, Table 1",
    grid=keras_grid("mnist", ("ReLU", "Sep-UP"), (2, *IMAGE_DEPTHS), quick=QUICK_DEPTHS, widths=IMAGE_WIDTHS),
    claims=(
        Claim(
            "successes-baseline",
            "Networks of the 54 that learn without Jumpstart (the table counts 18, three of them outside its grid)",
            count(where("ReLU"), learnt),
            band=(10, 20),
            published=15,
            scale=LARGE,
        ),
        Claim(
            "successes-jumpstart",
            "Networks of the 54 that learn with Jumpstart",
            count(where("Sep-UP"), learnt),
            band=(52, 54),
            published=54,
            scale=LARGE,
        ),
        Claim(
            "best-baseline",
            "Best validation accuracy of all networks without Jumpstart",
            top_accuracy(where("ReLU"), test=True),
            band=(0.9785, 0.9985),
            published=0.9885,
            scale=LARGE,
            why=FEWER,
        ),
        Claim(
            "best-jumpstart",
            "Best validation accuracy of all networks with Jumpstart",
            top_accuracy(where("Sep-UP"), test=True),
            band=(0.9811, 1.0),
            published=0.9911,
            scale=LARGE,
            why=FEWER,
        ),
        Claim(
            "best-baseline-train",
            "Best training accuracy of all networks without Jumpstart",
            top_accuracy(where("ReLU")),
            band=(0.9895, 1.0),
            published=0.999467,
            scale=LARGE,
            why=FEWER,
        ),
        Claim(
            "best-jumpstart-train",
            "Best training accuracy of all networks with Jumpstart",
            top_accuracy(where("Sep-UP")),
            band=(0.9895, 1.0),
            published=0.999533,
            scale=LARGE,
            why=FEWER,
        ),
        Claim(
            "better",
            "Pairs of depth and width, of 54, at which Jumpstart has the better validation accuracy",
            wins(where("Sep-UP"), where("ReLU")),
            band=(36, 54),
            published=41,
            scale=LARGE,
        ),
        Claim(
            "better-train",
            "Pairs of depth and width, of 54, at which Jumpstart has the better training accuracy",
            wins(where("Sep-UP"), where("ReLU"), test=False),
            band=(40, 54),
            published=45,
            scale=LARGE,
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
    figures=(Figure("heat", "heat", IMAGE_HEAT),),
    scales=IMAGE_SCALES,
)

CURES: tuple[tuple[str, Options | None], ...] = (
    ("ReLU", None),
    *(
        (f"{aggregate} {weight:g}", (("weight", weight), ("aggregate", aggregate), ("include_output", True)))
        for aggregate, weight in (("norm", 0.001), ("norm", 0.1), ("mean", 0.1), ("mean", 1.0))
    ),
)


def _grid(data: str, depths: Sequence[int], widths: Sequence[int], quick: tuple[Sequence[int], Sequence[int]]) -> Grid:
    def grid(scale: str, architecture: str, seed: int) -> list[Cell]:
        full = scale == "paper"
        return [
            Cell(
                Net(
                    "rectangle",
                    depth,
                    width,
                    name,
                    seed,
                    (("head", "pool"), ("init", "torch")),
                    cure,
                    training=Settings(
                        epochs=400 if full else 4,
                        batch_size=128 if full else 50,
                        lr=lr,
                        eps=1e-8,
                        shuffle=True,
                        running=True,
                        channels_last=True,
                    ),
                ),
                data,
                points=None if full else POINTS,
                test_points=None if full else TEST_POINTS,
            )
            for name, cure in CURES
            for lr in (1e-3, 1e-4)[: 2 if full else 1]
            for depth in (depths if full else quick[0])
            for width in (widths if full else quick[1])
        ]

    return grid


def _best_cure(rows: Sequence[Row]) -> dict[Spot, tuple[float, float]]:
    """For every depth, width, rate and seed the best validation accuracy without a penalty, and with the best one."""
    found: dict[Spot, tuple[float, float]] = {}
    for row in rows:
        plain, cured = found.get(spot(row), (0.0, 0.0))
        value = row.best_test or 0.0
        found[spot(row)] = (max(plain, value), cured) if row.cell.label == "ReLU" else (plain, max(cured, value))
    return found


def _cured_wins(rows: Sequence[Row]) -> Measured | None:
    pairs = _best_cure(rows).values()
    return mean([float(cured > plain) for plain, cured in pairs])


def _each_wins(lr: float) -> Measure:
    """Share of places of one rate at which norm, and at which mean, each at its better weight, is better than none."""

    def measure(rows: Sequence[Row]) -> Measured | None:
        some = [row for row in rows if row.member.lr == lr]
        kinds = [[row for row in some if row.cell.label.startswith(("ReLU", kind))] for kind in ("norm", "mean")]
        return mean([float(cured > plain) for kind in kinds for plain, cured in _best_cure(kind).values()])

    return measure


def _best_of(cured: bool) -> Measure:
    def measure(rows: Sequence[Row]) -> Measured | None:
        seeds: dict[int, float] = {}
        for at, pair in _best_cure(rows).items():
            seeds[at.seed] = max(seeds.get(at.seed, 0.0), pair[cured])
        return mean(list(seeds.values()))

    return measure


def _cured_lead(depth: int) -> Measure:
    def measure(rows: Sequence[Row]) -> Measured | None:
        found = _best_cure(rows)
        return mean([cured - plain for at, (plain, cured) in found.items() if at.depth == depth])

    return measure


def _fewer(thin: tuple[int, int], wide: tuple[int, int]) -> Measure:
    """How much better a deeper, thinner network with its best penalty and rate is than a wider one with its own best.

    Sizes are depth and width.
    """

    def measure(rows: Sequence[Row]) -> Measured | None:
        best: dict[tuple[int, tuple[int, int]], float] = {}
        for row in rows:
            at = row.member.seed, (row.member.depth, row.member.width)
            if at[1] == wide or (at[1] == thin and row.cell.label != "ReLU"):
                best[at] = max(best.get(at, 0.0), row.best_test or 0.0)
        seeds = sorted({seed for seed, _ in best})
        return mean([best[s, thin] - best[s, wide] for s in seeds if (s, thin) in best and (s, wide) in best])

    return measure


def _parameters(thin: tuple[int, int], wide: tuple[int, int], data: str) -> Claim:
    names = [f"{depth}x{width}" for depth, width in (thin, wide)]
    return Claim(
        f"fewer-{names[0]}",
        f"With fewer parameters {names[0]} with Jumpstart is as good as {names[1]} on {data}: its lead",
        _fewer(thin, wide),
        (-0.01, 0.2),
        scale="paper",
    )


FIG3_004 = Experiment(
    name="004-Fig3",
    title="Jumpstart on CIFAR-10: depth, width, rate, and four penalties",
    paper="004 Jumpstart, Figure 3",
    grid=_grid("cifar10", (10, 20, 30), (2, 8, 16, 32, 64, 96, 192), ((10, 30), (2, 8))),
    claims=(
        Claim(
            "best-jumpstart", "Best validation accuracy with Jumpstart", _best_of(True), (0.736, 0.796), 0.766, "paper"
        ),
        Claim("best-baseline", "Best validation accuracy without", _best_of(False), (0.704, 0.764), 0.734, "paper"),
        Claim(
            "wins",
            "At the rate .001, share of depths and widths at which each of the two penalties, norm and mean, is better "
            "than none (18 and 20 of 21)",
            _each_wins(1e-3),
            (0.75, 1.0),
            0.905,
        ),
        _parameters((20, 8), (10, 16), "CIFAR-10"),
        _parameters((20, 32), (10, 64), "CIFAR-10"),
    ),
    figures=(Figure("curves", "curves", "Best validation accuracy against depth; bars are standard deviations"),),
)

FIG4_004 = Experiment(
    name="004-Fig4",
    title="Jumpstart on CIFAR-100: depth, width, rate, and four penalties",
    paper="004 Jumpstart, Figure 4",
    grid=_grid("cifar100", (10, 20), (8, 16, 32, 64), ((10, 20), (8,))),
    claims=(
        Claim("best-jumpstart", "Best validation accuracy with Jumpstart", _best_of(True), (0.35, 0.41), 0.38, "paper"),
        Claim("best-baseline", "Best validation accuracy without", _best_of(False), (0.34, 0.40), 0.37, "paper"),
        Claim(
            "wins",
            "Share of depths, widths and rates at which the best penalty is better than none (12 of 16)",
            _cured_wins,
            (0.6, 1.0),
            0.75,
        ),
        Claim(
            "lead-20", "Mean gain in validation accuracy at 20 layers", _cured_lead(20), (0.04, 0.12), 0.078, "paper"
        ),
        Claim("lead-10", "Mean gain in validation accuracy at 10 layers", _cured_lead(10), (0.0, 0.03), 0.01, "paper"),
        _parameters((20, 32), (10, 64), "CIFAR-100"),
    ),
    figures=(Figure("curves", "curves", "Best validation accuracy against depth; bars are standard deviations"),),
)
