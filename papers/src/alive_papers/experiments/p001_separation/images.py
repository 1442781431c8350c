"""Thin deep convolutions on MNIST and CIFAR-10: 001-Fig2, 001-Fig3."""

from __future__ import annotations

from collections.abc import Iterable

from ..keras_grids import CHANCE, DEEP, FEWER, HEAT, LARGE, QUICK_DEPTHS, SCALES, WIDTHS, keras_grid, learnt
from ..measure import best_accuracy, share, where, worst_accuracy
from ..spec import Claim, Experiment, Figure

DEPTHS = (2, 4, *range(12, 69, 8))

FIG2_001 = Experiment(
    name="001-Fig2",
    title="Which convolutional networks learn MNIST: ReLU, batch norm, separation constraints",
    paper="001 Separation constraints, Figure 2",
    grid=keras_grid("mnist", ("ReLU", "ReLU+BN", "Sep-UP"), DEPTHS, quick=QUICK_DEPTHS, widths=WIDTHS),
    claims=(
        Claim(
            "sep-up-worst",
            "With Sep-UP every network of the grid learns: lowest validation accuracy",
            worst_accuracy(where("Sep-UP")),
            band=(0.9457, 1.0),
            published=0.9657,
            scale=LARGE,
            why=FEWER,
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
    scales=SCALES,
)

PUBLISHED_FIG3 = {
    "ReLU": (0.60, 0.60, 0.10, 0.10, 0.10),
    "ReLU+BN": (0.57, 0.54, 0.54, 0.53, 0.45),
    "Sep-UP": (0.59, 0.57, 0.54, 0.53, 0.53),
}
FIG3_DEPTHS = (2, 10, 25, 30, 40)


def _fig3_claims() -> Iterable[Claim]:
    for method, values in PUBLISHED_FIG3.items():
        for depth, value in zip(FIG3_DEPTHS, values, strict=True):
            yield Claim(
                f"{method}-{depth}",
                f"{method}, {depth} layers of width 10: best validation accuracy",
                best_accuracy(where(method, depths=(depth,)), test=True),
                band=(value - 0.04, value + 0.04),
                published=value,
                scale=LARGE,
                why=FEWER,
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
    grid=keras_grid("cifar10", PUBLISHED_FIG3, FIG3_DEPTHS, quick=(2, 25, 40), widths=(10,)),
    claims=tuple(_fig3_claims()),
    figures=(Figure("curves", "curves", "Best validation accuracy against depth; bars are standard deviations"),),
    scales=SCALES,
)
