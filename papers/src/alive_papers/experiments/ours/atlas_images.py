"""Beyond the papers: the starts and methods of the atlas that convolutions know, on MNIST, with one budget."""

from __future__ import annotations

from ...fleet import Member
from ..cell import Cell
from ..keras_grids import DEEP, IMAGES, SCALES, learnt
from ..measure import share, where
from ..spec import Claim, Experiment, Figure, Measure
from .atlas import wins

DATA = "mnist-14"  # averaged to 14x14, a quarter of the work
PLACES = {
    "quick": ((4, 4), (28, 4)),
    "middle": ((4, 4), (28, 4), (60, 4), (4, 8), (28, 8)),  # 60 layers of 8 channels take as long as all of these
    "paper": ((4, 4), (28, 4), (60, 4), (4, 8), (28, 8), (60, 8)),
}  # depths and widths
RATES = (1e-3, 3e-4)  # every method may choose the better of the two, at every depth and width
WEIGHT, LIGHT = 1e-3, 1e-5  # of the penalty from Glorot's start, and from those that are alive
METHODS = (
    *((method, "glorot", WEIGHT) for method in ("ReLU", "ReLU+BN", "Sep-UP", "Residual", "Residual+BN", "VAN")),
    *(("ReLU", init, 0.0) for init in ("kaiming", "orthogonal", "delta-orthogonal", "mean-orthogonal")),
    *(("ReLU", init, 0.0) for init in ("lsuv", "deterministic")),
    *((method, init, LIGHT) for init in ("looks-linear", "mirrored") for method in ("ReLU", "Sep-UP")),
)


def _members(depth: int, width: int, seed: int, epochs: int) -> list[Member]:
    return [
        Member(
            depth,
            width,
            method,
            seed,
            weight,
            architecture="conv",
            init=init,
            lr=lr,
            epochs=epochs,
            batch_size=64,
            shuffle=True,
            running=True,
        )
        for lr in RATES
        for method, init, weight in METHODS
    ]


def _grid(scale: str, architecture: str, seed: int) -> list[Cell]:
    points, test_points = IMAGES[scale]
    return [
        Cell(member, DATA, points=points, test_points=test_points)
        for depth, width in PLACES[scale]
        for member in _members(depth, width, seed, 4 if scale == "quick" else 10)
    ]


def _deep(label: str) -> Measure:
    """Share of the deep networks that learn, at the larger rate."""
    of = where(label, depths=DEEP)
    return share(lambda row: of(row) and row.member.lr == RATES[0], learnt)


ATLAS_IMAGES = Experiment(
    name="atlas-images",
    title="Methods and starts on MNIST averaged to 14x14: thin convolutions, one budget",
    paper="ours",
    grid=_grid,
    claims=(
        Claim(
            "mirrored-wins",
            "The mirrored start with a small Sep-UP is best or ties at half of the places or more",
            wins("Sep-UP, mirrored"),
            (0.5, 1),
        ),
        Claim("relu-deep", "Plain ReLU from 28 layers on, Glorot's start: share that learns", _deep("ReLU"), (0, 0.1)),
        Claim("sep-up-deep", "From 28 layers on with Sep-UP: share that learns", _deep("Sep-UP"), (0.9, 1)),
        Claim(
            "delta-orthogonal-deep",
            "Plain ReLU from 28 thin layers on, the delta-orthogonal start, which was made for wide tanh networks: "
            "share that learns",
            _deep("ReLU, delta-orthogonal"),
            (0, 0.5),
        ),
        Claim(
            "looks-linear-deep",
            "From 28 layers on, the looks-linear start without a penalty: share that learns",
            _deep("ReLU, looks-linear"),
            (0.9, 1),
        ),
    ),
    figures=(
        Figure(
            "winners",
            "winners",
            "Every method at each depth and width, at its better rate; framed: the best, and who ties",
        ),
    ),
    scales=SCALES,
)
