"""The image experiments of 001 and 004: thin deep convolutions with and without separation constraints."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ..train import Net, Settings
from ..train.net import Options
from .cell import Cell, Row
from .measure import best_accuracy, mean, share, where
from .spec import Claim, Experiment, Figure, Measure, Measured

CHANCE = 0.1135  # the largest class of MNIST's test set
ABOVE_CHANCE = 0.2  # best accuracy from which a network of ten classes has learnt something, in any epoch
WIDTHS = (2, 4, 8)
DEPTHS_001 = (2, 4, *range(12, 69, 8))
DEPTHS_004 = tuple(range(4, 69, 4))
QUICK_DEPTHS = (4, 28, 44)
POINTS, TEST_POINTS = 2000, 1000  # of the quick scale
HEAT = "Mean over seeds of the best accuracy; in each cell how many seeds train"

# The papers' penalty has a term for every position, at a weight that does not carry over to other batches. The quick
# scale has a term for every channel, which costs half as much.
KERAS: Options = (("weight", 1e-8), ("mode", "UP"), ("conv", "position"))
CHANNEL: Options = (("weight", 1e-3), ("mode", "UP"), ("conv", "channel"))

PAPER_MNIST = Settings(epochs=50, batch_size=1024, lr=1e-3, running=True, channels_last=True)
QUICK_MNIST = Settings(epochs=4, batch_size=50, lr=1e-3, shuffle=True, running=True, channels_last=True)
QUICK_CIFAR = Settings(epochs=4, batch_size=50, lr=1e-3, shuffle=True, running=True, channels_last=True)


def learnt(row: Row) -> bool:
    """Whether the network ever named clearly more points than the largest class."""
    return (row.best_test or 0.0) > ABOVE_CHANCE


def _keras(method: str, depth: int, width: int, seed: int, *, full: bool, training: Settings) -> Net:
    """A rectangle as the Keras runs had it: Glorot, all positions to the output."""
    separation = None if method != "Sep-UP" else (KERAS if full else CHANNEL)
    options: Options = (("head", "flatten"), ("init", "glorot"), ("batch_norm", method == "ReLU+BN"))
    return Net("rectangle", depth, width, method, seed, options, separation, training=training)


def _mnist(methods: Sequence[str], depths: Sequence[int]) -> Callable[[str, str, int], list[Cell]]:
    def grid(scale: str, architecture: str, seed: int) -> list[Cell]:
        full = scale == "paper"
        return [
            Cell(
                _keras(method, depth, width, seed, full=full, training=PAPER_MNIST if full else QUICK_MNIST),
                "mnist",
                unscaled=True,
                points=None if full else POINTS,
                test_points=None if full else TEST_POINTS,
            )
            for method in methods
            for depth in (depths if full else QUICK_DEPTHS)
            for width in WIDTHS
        ]

    return grid


def _worst(rows_of: Callable[[Row], bool]) -> Measure:
    """The lowest best test accuracy of all networks, mean over seeds."""

    def measure(rows: Sequence[Row]) -> Measured | None:
        seeds: dict[int, float] = {}
        for row in filter(rows_of, rows):
            seeds[row.member.seed] = min(seeds.get(row.member.seed, 1.0), row.best_test or 0.0)
        return mean(list(seeds.values()))

    return measure


def _better(ours: str, theirs: str, *, test: bool) -> Measure:
    """At how many depths and widths one method is better than another, mean over seeds."""

    def measure(rows: Sequence[Row]) -> Measured | None:
        wins: dict[int, float] = {}
        best = {(row.cell.label, _place(row)): (row.best_test if test else row.best_train) or 0.0 for row in rows}
        for label, place in best:
            if label == ours and (theirs, place) in best:
                wins[place[0]] = wins.get(place[0], 0.0) + (best[ours, place] > best[theirs, place])
        return mean(list(wins.values()))

    return measure


def _place(row: Row) -> tuple[int, int, int, float]:
    return row.member.seed, row.member.depth, row.member.width, row.member.lr


def _count(label: str) -> Measure:
    """How many networks learn, mean over seeds."""

    def measure(rows: Sequence[Row]) -> Measured | None:
        seeds: dict[int, float] = {}
        for row in rows:
            if row.cell.label == label:
                seeds[row.member.seed] = seeds.get(row.member.seed, 0.0) + learnt(row)
        return mean(list(seeds.values()))

    return measure


DEEP = range(28, 69)

FIG2_001 = Experiment(
    name="001-Fig2",
    title="Which convolutional networks learn MNIST: ReLU, batch norm, separation constraints",
    paper="001 Separation constraints, Figure 2",
    grid=_mnist(("ReLU", "ReLU+BN", "Sep-UP"), DEPTHS_001),
    claims=(
        Claim(
            "sep-up-worst",
            "With Sep-UP every network of the grid learns: lowest validation accuracy",
            _worst(where("Sep-UP")),
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
    grid=_mnist(("ReLU", "Sep-UP"), (2, *DEPTHS_004)),
    claims=(
        Claim(
            "successes-baseline",
            "Networks of the 54 that learn without Jumpstart (the table counts 18, three of them outside its grid)",
            _count("ReLU"),
            band=(10, 20),
            published=15,
            scale="paper",
        ),
        Claim(
            "successes-jumpstart",
            "Networks of the 54 that learn with Jumpstart",
            _count("Sep-UP"),
            band=(52, 54),
            published=54,
            scale="paper",
        ),
        Claim(
            "best-baseline",
            "Best validation accuracy without",
            best_accuracy(where("ReLU", depths=(4, 8), widths=(8,)), test=True),
            band=(0.9785, 0.9985),
            published=0.9885,
            scale="paper",
        ),
        Claim(
            "better",
            "Pairs of depth and width at which Jumpstart has the better validation accuracy",
            _better("Sep-UP", "ReLU", test=True),
            band=(36, 54),
            published=41,
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
FIG3_DEPTHS, FIG3_WIDTH = (2, 10, 25, 30, 40), 10


def _cifar(scale: str, architecture: str, seed: int) -> list[Cell]:
    full = scale == "paper"
    return [
        Cell(
            _keras(method, depth, FIG3_WIDTH, seed, full=full, training=PAPER_MNIST if full else QUICK_CIFAR),
            "cifar10",
            unscaled=True,
            points=None if full else POINTS,
            test_points=None if full else TEST_POINTS,
        )
        for method in PUBLISHED_FIG3
        for depth in (FIG3_DEPTHS if full else (2, 25, 40))
    ]


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
    grid=_cifar,
    claims=tuple(_fig3_claims()),
    figures=(Figure("curves", "curves", "Best validation accuracy against depth; bars are standard deviations"),),
)

# 004 on CIFAR: torch's own start, the penalty also of the logits, channel semantics, images shuffled and normalised.
CURES: tuple[tuple[str, Options | None], ...] = (
    ("ReLU", None),
    *(
        (f"{aggregate} {weight:g}", (("weight", weight), ("aggregate", aggregate), ("include_output", True)))
        for aggregate, weight in (("norm", 0.001), ("norm", 0.1), ("mean", 0.1), ("mean", 1.0))
    ),
)


def _cifar_004(
    data: str, depths: Sequence[int], widths: Sequence[int], quick: tuple[Sequence[int], Sequence[int]]
) -> Callable[[str, str, int], list[Cell]]:
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


def _best_cure(rows: Sequence[Row]) -> dict[tuple[int, int, int, float], tuple[float, float]]:
    """For every depth, width, rate and seed the best validation accuracy without a penalty, and with the best one."""
    found: dict[tuple[int, int, int, float], tuple[float, float]] = {}
    for row in rows:
        plain, cured = found.get(_place(row), (0.0, 0.0))
        value = row.best_test or 0.0
        found[_place(row)] = (max(plain, value), cured) if row.cell.label == "ReLU" else (plain, max(cured, value))
    return found


def _cured_wins(rows: Sequence[Row]) -> Measured | None:
    pairs = _best_cure(rows).values()
    return mean([float(cured > plain) for plain, cured in pairs])


def _best_of(cured: bool) -> Measure:
    def measure(rows: Sequence[Row]) -> Measured | None:
        seeds: dict[int, float] = {}
        for place, pair in _best_cure(rows).items():
            seeds[place[0]] = max(seeds.get(place[0], 0.0), pair[cured])
        return mean(list(seeds.values()))

    return measure


def _cured_lead(depth: int) -> Measure:
    def measure(rows: Sequence[Row]) -> Measured | None:
        found = _best_cure(rows)
        return mean([cured - plain for place, (plain, cured) in found.items() if place[1] == depth])

    return measure


FIG3_004 = Experiment(
    name="004-Fig3",
    title="Jumpstart on CIFAR-10: depth, width, rate, and four penalties",
    paper="004 Jumpstart, Figure 3",
    grid=_cifar_004("cifar10", (10, 20, 30), (2, 8, 16, 32, 64, 96, 192), ((10, 30), (2, 8))),
    claims=(
        Claim(
            "best-jumpstart", "Best validation accuracy with Jumpstart", _best_of(True), (0.736, 0.796), 0.766, "paper"
        ),
        Claim("best-baseline", "Best without", _best_of(False), (0.704, 0.764), 0.734, "paper"),
        Claim(
            "wins",
            "Share of depths, widths and rates at which the best penalty is better than none (38 of 42)",
            _cured_wins,
            (0.75, 1.0),
            0.905,
        ),
    ),
    figures=(Figure("curves", "curves", "Best validation accuracy against depth; bars are standard deviations"),),
)

FIG4_004 = Experiment(
    name="004-Fig4",
    title="Jumpstart on CIFAR-100: depth, width, rate, and four penalties",
    paper="004 Jumpstart, Figure 4",
    grid=_cifar_004("cifar100", (10, 20), (8, 16, 32, 64), ((10, 20), (8,))),
    claims=(
        Claim("best-jumpstart", "Best validation accuracy with Jumpstart", _best_of(True), (0.35, 0.41), 0.38, "paper"),
        Claim("best-baseline", "Best without", _best_of(False), (0.34, 0.40), 0.37, "paper"),
        Claim("wins", "Share of networks at which the best penalty is better than none", _cured_wins, (0.6, 1.0), 0.75),
        Claim("lead-20", "Mean gain at 20 layers", _cured_lead(20), (0.04, 0.12), 0.078, "paper"),
        Claim("lead-10", "Mean gain at 10 layers", _cured_lead(10), (0.0, 0.03), 0.01, "paper"),
    ),
    figures=(Figure("curves", "curves", "Best validation accuracy against depth; bars are standard deviations"),),
)
