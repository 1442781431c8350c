"""The experiments of 002: networks whose skips are phased out, beside those they are compared with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from alive.data import Augment
from alive.train import LrSchedule, Settings

from ..net import Net, Options
from .cell import Cell, Row
from .measure import Where, error_percent, lead, mean, where
from .spec import Claim, Experiment, Figure, Measure, Measured

CURVES = "Best test accuracy against depth; bars are standard deviations over seeds"
LEARNING = (
    "Test accuracy over epochs at the greatest depth: seeds, and as a strong line their mean; below, what is left "
    "of the skips"
)
DENSE = (("Plain", "plain"), ("ResNet", "resnet"), ("Highway", "highway"), ("DiracNet", "dirac"), ("VAN", "van"))
FREE = "VAN (λ=0)"


def _gates(method: str, forced: Options, free: Options) -> Options | None:
    """How the skips of a method are phased out: by multipliers, by learning alone, or not at all."""
    if method == FREE:
        return (("lambda0", 0.0), *free)
    return forced if method.startswith("VAN") else None


def _dense_grid(data: Sequence[str]) -> Callable[[str, str, int], list[Cell]]:
    """Width 50, SGD at .001, batches of 128, r = .5: 50 epochs in the paper; quick, 8 of a sixth of the images.

    At the quick scale η is such that the skips are gone after a third of the steps, were there no task.
    """

    def grid(scale: str, architecture: str, seed: int) -> list[Cell]:
        full = scale == "paper"
        training = Settings(
            epochs=50 if full else 8,
            batch_size=128,
            optimiser="sgd",
            lr=0.001 if full else 0.01,
            shuffle=True,
            running=True,
        )
        free: Options = (("eta", training.lr), ("ratio", 0.5))
        forced: Options = free if full else (("phase_out_steps", 200), ("ratio", 0.5))
        return [
            Cell(
                Net(
                    "compared-dense",
                    depth,
                    50,
                    name,
                    seed,
                    (("kind", kind),),
                    gate=_gates(name, forced, free),
                    training=training,
                ),
                one,
                points=None if full else 10_000,
                test_points=None if full else 2000,
            )
            for one in (data if full else data[:1])
            for name, kind in (*DENSE, (FREE, "van"))
            for depth in ((1, 2, 3, 5, 7, 10, 15, 20, 25, 30) if full else (1, 5, 10, 20, 30))
        ]

    return grid


def _falls(label: str, data: str = "mnist", *, deep: int = 30, shallow: int = 1) -> Measure:
    """How much test accuracy a method loses between two depths, mean over seeds."""

    def measure(rows: Sequence[Row]) -> Measured | None:
        at = {
            (row.member.seed, row.member.depth): row.best_test or 0.0
            for row in rows
            if row.cell.label == label and row.cell.data == data and row.member.depth in (shallow, deep)
        }
        pairs = [(at[seed, shallow], at[seed, deep]) for seed, depth in at if depth == deep and (seed, shallow) in at]
        return mean([before - after for before, after in pairs])

    return measure


def _gone(label: str) -> Measure:
    """Share of networks whose skips are gone at the end; one that broke down before it has no end."""

    def measure(rows: Sequence[Row]) -> Measured | None:
        some = [row for row in rows if row.cell.label == label and row.trace.get("residual")]
        return mean([float(row.stopped is None and row.trace["residual"][-1] == 0.0) for row in some])

    return measure


def _later(deep: int, shallow: int) -> Measure:
    """How many epochs later the mean (1 − α)² of the deeper VANs falls below a quarter, mean over seeds."""

    def half(row: Row) -> float:
        pairs = zip(row.trace["epoch"], row.trace["residual"], strict=False)
        return next((epoch for epoch, left in pairs if left < 0.25), float(row.member.epochs))

    def measure(rows: Sequence[Row]) -> Measured | None:
        some = [row for row in rows if row.cell.label == "VAN" and row.member.depth in (deep, shallow)]
        at = {(row.member.depth, row.member.seed): half(row) for row in some}
        seeds = [seed for depth, seed in at if depth == deep and (shallow, seed) in at]
        return mean([at[deep, seed] - at[shallow, seed] for seed in seeds])

    return measure


GONE = Claim(
    "van-plain", "Every VAN ends without skips: share of networks, every α exactly 1", _gone("VAN"), (1, 1), published=1
)

FIG1_002 = Experiment(
    name="002-Fig1",
    title="Dense networks of width 50 with and without skips, from 1 to 30 blocks",
    paper="002 Variable activation networks, Figure 1",
    grid=_dense_grid(("mnist", "fashion-mnist")),
    claims=(
        Claim(
            "plain-falls",
            "Plain networks lose accuracy with depth on MNIST: best test accuracy at 1 block less that at 30",
            _falls("Plain"),
            band=(0.1, 0.9),
        ),
        Claim(
            "van-holds",
            "VANs lose much less on MNIST: best test accuracy at 1 block less that at 30",
            _falls("VAN"),
            band=(-0.05, 0.1),
            why="Eight epochs of a sixth of the images leave little time to recover once the skips are gone",
        ),
        Claim(
            "plain-falls-fashion",
            "Plain networks lose accuracy with depth on Fashion-MNIST: best test accuracy at 1 block less that at 30",
            _falls("Plain", "fashion-mnist"),
            band=(0.1, 0.9),
            scale="paper",
        ),
        Claim(
            "van-holds-fashion",
            "VANs lose much less on Fashion-MNIST: best test accuracy at 1 block less that at 30",
            _falls("VAN", "fashion-mnist"),
            band=(-0.05, 0.1),
            scale="paper",
        ),
        replace(
            GONE,
            why="In the others a late gradient opened a skip again by a crack: a mean (1 − α)² below 0.00001 is left",
        ),
    ),
    figures=(Figure("curves", "curves", CURVES), Figure("learning", "learning", LEARNING)),
)

PAPER_CIFAR = Settings(
    epochs=165,
    batch_size=128,
    optimiser="sgd",
    lr=0.1,
    weight_decay=1e-4,
    shuffle=True,
    schedule=LrSchedule("step", milestones=(82, 125)),
    augment=Augment(crop=4, flip=True),
    running=True,
    channels_last=True,
)
QUICK_CIFAR = Settings(
    epochs=3, batch_size=64, optimiser="sgd", lr=0.05, shuffle=True, augment=Augment(crop=4), running=True,
    channels_last=True,
)  # fmt: skip
PAPER_GATE: Options = (
    ("phase_out_steps", 46_900),
    ("ratio", 0.1),
)  # 120 epochs, as Figure 2 shows and its settings do not give
QUICK_GATE: Options = (("phase_out_steps", 60), ("ratio", 0.1))
FREE_GATE: Options = (("eta", 0.1), ("ratio", 0.1))


def _conv_grid(
    data: Sequence[str], methods: Sequence[tuple[str, str]], depths: Sequence[int], quick: Sequence[int]
) -> Callable[[str, str, int], list[Cell]]:
    def grid(scale: str, architecture: str, seed: int) -> list[Cell]:
        full = scale == "paper"
        return [
            Cell(
                Net(
                    "compared-conv",
                    depth,
                    64 if full else 8,
                    name,
                    seed,
                    (("kind", kind),),
                    gate=_gates(name, PAPER_GATE if full else QUICK_GATE, FREE_GATE),
                    training=PAPER_CIFAR if full else QUICK_CIFAR,
                ),
                one,
                points=None if full else 2048,
                test_points=None if full else 1000,
            )
            for one in (data if full else data[:1])
            for name, kind in methods
            for depth in (depths if full else quick)
        ]

    return grid


CONV = (("Plain", "plain"), ("ResNet", "resnet"), ("VAN", "van"), (FREE, "van"))


FIG2_002 = Experiment(
    name="002-Fig2",
    title="Convolutional networks of 10 to 82 layers on CIFAR-10: plain, residual, skips phased out",
    paper="002 Variable activation networks, Figure 2",
    grid=_conv_grid(("cifar10",), CONV, (10, 18, 26, 34, 42, 50, 66, 82), (10, 18)),
    claims=(
        Claim(
            "van-resnet",
            "Up to 40 layers VAN is about as good as ResNet: its lead in best test accuracy",
            lead(*(where(one, depths=(10, 18, 26, 34)) for one in ("VAN", "ResNet")), test=True),
            band=(-0.015, 0.015),
            scale="paper",
        ),
        Claim(
            "resnet-past-40",
            "Past 40 layers ResNet is ahead of VAN: its lead in best test accuracy",
            lead(*(where(one, depths=(42, 50, 66, 82)) for one in ("ResNet", "VAN")), test=True),
            band=(0.0, 0.2),
            scale="paper",
        ),
        GONE,
    ),
    figures=(Figure("curves", "curves", CURVES), Figure("learning", "learning", LEARNING)),
)

FIG3_002 = Experiment(
    name="002-Fig3",
    title="The same on CIFAR-100, 10 to 34 layers",
    paper="002 Variable activation networks, Figure 3",
    grid=_conv_grid(("cifar100",), CONV, (10, 18, 26, 34), (10,)),
    claims=(GONE,),
    figures=(Figure("curves", "curves", CURVES), Figure("learning", "learning", LEARNING)),
)

ERRORS = {  # mean and best of five runs, percent, Table 2
    ("VAN", 18, "cifar10"): (6.49, 6.23),
    ("VAN", 26, "cifar10"): (6.35, 6.08),
    (FREE, 26, "cifar10"): (6.40, 6.29),
    (FREE, 34, "cifar10"): (6.45, 6.28),
    ("VAN", 18, "cifar100"): (28.42, 28.20),
    ("VAN", 26, "cifar100"): (28.01, 27.70),
    (FREE, 26, "cifar100"): (27.42, 27.04),
    (FREE, 34, "cifar100"): (26.81, 26.46),
}
WITHIN = {"cifar10": 0.5, "cifar100": 1.0}  # percent: about three of the paper's standard deviations
NAMES = {"cifar10": "CIFAR-10", "cifar100": "CIFAR-100"}


def _of(method: str, depth: int, data: str) -> Where:
    return lambda row: where(method, depths=(depth,))(row) and row.cell.data == data


TABLE2_002 = Experiment(
    name="002-T2",
    title="Test error of VANs on CIFAR-10 and CIFAR-100",
    paper="002 Variable activation networks, Table 2",
    grid=_conv_grid(("cifar10", "cifar100"), (("VAN", "van"), (FREE, "van")), (18, 26, 34), (10,)),
    claims=tuple(
        Claim(
            f"{method}-{depth}-{data}",
            f"{method} of {depth} layers on {NAMES[data]}: test error in percent, mean of the runs (the paper's best "
            f"of five: {best:.2f})",
            error_percent(_of(method, depth, data)),
            band=(value - WITHIN[data], value + WITHIN[data]),
            published=value,
            scale="paper",
        )
        for (method, depth, data), (value, best) in ERRORS.items()
    ),
    figures=(Figure("learning", "learning", LEARNING),),
)

FORMS = (("VAN", "van"), ("VAN, eq 9", "convex"), ("ResNet", "resnet"), ("ResNet, eq 10", "half"))

FIG4_002 = Experiment(
    name="002-Fig4",
    title="Four ways to join branch and skip, against depth",
    paper="002 Variable activation networks, Figure 4",
    grid=_conv_grid(("cifar10", "cifar100"), FORMS, (10, 18, 26, 34, 42), (10, 18)),
    claims=(
        Claim(
            "eq9-worse",
            "The convex form (eq 9) is worse than eq 4: lead of eq 4 in best test accuracy",
            lead(where("VAN"), where("VAN, eq 9"), test=True),
            band=(0.0, 1.0),
        ),
        Claim(
            "eq10-worse",
            "Halving both (eq 10) is worse than a plain residual sum: lead of the sum",
            lead(where("ResNet"), where("ResNet, eq 10"), test=True),
            band=(0.0, 1.0),
        ),
    ),
    figures=(Figure("curves", "curves", CURVES),),
)

FIG5_002 = Experiment(
    name="002-Fig5",
    title="How the skips of VANs of several depths go",
    paper="002 Variable activation networks, Figure 5",
    grid=_conv_grid(("cifar10",), (("VAN", "van"),), (10, 18, 26, 34, 42), (10, 18)),
    claims=(
        GONE,
        Claim(
            "deeper-later",
            "Deeper VANs phase out later: epoch at which half of the skips is gone, 42 layers less 10",
            _later(42, 10),
            band=(0.5, 165),
            scale="paper",
        ),
    ),
    figures=(Figure("learning", "learning", LEARNING),),
)
