"""The experiment of 003: the all-convolutional residual network."""

from __future__ import annotations

from alive.data import Augment
from alive.train import LrSchedule, Settings

from ..net import Net, Options
from .cell import Cell
from .measure import Where, best_accuracy, error_percent, lead, where
from .p000_farkas import LEARNING
from .spec import Claim, Experiment, Figure

PAPER = Settings(
    epochs=154,  # 60,000 steps of 128; the paper names none, and has its peak at about 50,000
    batch_size=128,
    optimiser="sgd",
    lr=0.05,
    weight_decay=1e-4,
    shuffle=True,
    schedule=LrSchedule("step", milestones=(77, 128)),  # 30,000 and 50,000 steps
    augment=Augment(crop=2, flip=True),  # 36 to 32, as the reference code, which also scales each image by itself
    running=True,
    channels_last=True,
)


HEADS: tuple[tuple[str, Options], ...] = (("All-conv", ()), ("All-conv, trained head", (("train_head", True),)))


def _all_conv(scale: str, architecture: str, seed: int) -> list[Cell]:
    if scale == "paper":
        return [
            Cell(Net("all-conv", 9, 64, "All-conv", seed, training=PAPER), data) for data in ("cifar10", "cifar100")
        ]
    # At .05 six blocks become NaN or not by the seventh figure of their start, and in 20 epochs they hardly begin.
    training = Settings(
        epochs=120, batch_size=64, optimiser="sgd", lr=0.02, weight_decay=1e-4, shuffle=True, running=True,
        schedule=LrSchedule("step", milestones=(60, 100)), channels_last=True,
    )  # fmt: skip
    small: Options = (("stem", 8), ("stages", 2))
    return [
        Cell(Net("all-conv", blocks, 8, name, seed, (*small, *head), training=training), "digits")
        for name, head in HEADS
        for blocks in (2, 6)
    ]


def _on(data: str) -> Where:
    return lambda row: row.cell.data == data


TABLE2_003 = Experiment(
    name="003-T2",
    title="The all-convolutional residual network: no norm, no dropout, a random head that does not learn",
    paper="003 Identity matters, Tables 1 and 2, Figure 1",
    grid=_all_conv,
    claims=(
        Claim("cifar10", "CIFAR-10: test error in percent", error_percent(_on("cifar10")), (5.4, 7.4), 6.38, "paper"),
        Claim(
            "cifar100", "CIFAR-100: test error in percent", error_percent(_on("cifar100")), (22.6, 26.6), 24.64, "paper"
        ),
        Claim(
            "digits",
            "A small one learns the digits: best test accuracy",
            best_accuracy(where("All-conv"), test=True),
            (0.93, 1),
            scale="quick",
        ),
        Claim(
            "random-head",
            "A random head that does not learn costs little: lead of a trained one in best test accuracy on the digits",
            lead(where("All-conv, trained head"), where("All-conv"), test=True),
            (-1.0, 0.03),
            scale="quick",
        ),
    ),
    figures=(Figure("learning", "learning", LEARNING),),
)
