"""One network of a fleet, as a record: what it is, how it starts, how it is trained."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import Any

from alive.data import Augment
from alive.errors import expect, near
from alive.nn import FITTED, INITIALISERS
from alive.nn.init import PAIRED
from alive.penalties import Schedule
from alive.penalties.multipliers import KI, KP, NU, TOL, TOP, WEIGHT
from alive.train.settings import CONSTANT, LrSchedule, above_zero_or_none, real, reals, whole

from .architecture import Architecture, Shape
from .architectures import ARCHITECTURES
from .doubled import DOUBLED

MAX_WIDTH = (
    512  # the engine is for thin networks: beyond this one network leaves the cache, and torch is the better tool
)
BLOCKS = ("plain", "residual", "van", "farkas", "rezero", "fixup", "concatenated", "leaky")
AGGREGATES = ("sumsq", "sum", "meansq")
OPTIMISERS = ("adam", "sgd")
PENALTY = ("weight", "aggregate", "balance")
SUM_WEIGHT = 1e-4  # of the papers' sums on MOONS
STARTS = {"glorot": "", "zeros": ", zero start", "mirrored": ", mirrored", "lsuv": ", LSUV"}  # as a reader names them


@dataclass(frozen=True, slots=True)
class Method:
    """What a name such as Sep-UP stands for: the axes of its penalty, batch norm or not, and the kind of block."""

    axes: str = ""
    batch_norm: bool = False
    block: str = "plain"


METHODS: Mapping[str, Method] = MappingProxyType(
    {
        "ReLU": Method(),
        "ReLU+BN": Method(batch_norm=True),
        "Sep-U": Method("U"),
        "Sep-P": Method("P"),
        "Sep-UP": Method("UP"),
        "Sep-L": Method("L"),
        "Residual": Method(block="residual"),
        "Residual+BN": Method(batch_norm=True, block="residual"),
        "VAN": Method(block="van"),
        "VAN+BN": Method(batch_norm=True, block="van"),
        "Farkas": Method(block="farkas"),
        "ReZero": Method(block="rezero"),
        "Fixup": Method(block="fixup"),
        "CReLU": Method(block="concatenated"),
        "TAT": Method(block="leaky"),
    }
)


@dataclass(frozen=True, slots=True)
class Gate:
    """How a VAN closes its skips (002): α ← clip(α − eta(∂C/∂α + λ), 0, 1), then λ ← λ + ratio·eta(α − 1)."""

    eta: float = 0.001
    ratio: float = 0.5
    start: float = -1.0

    def __post_init__(self) -> None:
        expect(
            [
                (real(self.eta) and self.eta >= 0, f"eta must be finite and at least 0, got {self.eta!r}"),
                (real(self.ratio) and self.ratio >= 0, f"ratio must be finite and at least 0, got {self.ratio!r}"),
                (real(self.start), f"start, the first λ, must be finite, got {self.start!r}"),
            ]
        )


@dataclass(frozen=True, slots=True)
class Fade:
    """Annealed dropout on the input of every hidden layer, at rate max(0, p0 (1 − e/epochs)) in epoch e."""

    p0: float = 0.9
    epochs: int = 1000
    first_epoch_p: float | None = None

    def __post_init__(self) -> None:
        first = self.first_epoch_p
        expect(
            [
                (real(self.p0) and 0 <= self.p0 < 1, f"p0 must be at least 0 and below 1, got {self.p0!r}"),
                (whole(self.epochs, 1), f"dropout epochs must be a whole number of at least 1, got {self.epochs!r}"),
                (first is None or 0 <= first < 1, f"first_epoch_p must be at least 0 and below 1, got {first!r}"),
            ]
        )


@dataclass(frozen=True, slots=True)
class Member:
    """A rectangle of `depth` hidden layers of `width` units, trained by itself; by default the papers' run on MOONS.

    method        a name in METHODS; `weight`, `aggregate` and `balance` belong to the Sep methods
    weight        of the aggregate: None is 1e-4 for the papers' sums, and for "meansq" what means the same everywhere;
                  "auto" lets each layer and axis of "meansq" have a multiplier that follows its slacks
    architecture  "dense"; "keras_same", the convolution over two positions of the published heat maps; or "conv",
                  square maps under convolutions that keep their size
    head          of "conv": "flatten", all positions to the output, or "mean" over them
    kernel        of "conv": 3 or 1
    conv          of a Sep method of "conv": whether a unit is a "channel", or a channel at a "position"
    augment       of "conv": how the images of each step are changed by chance
    running       training accuracy is that of the steps themselves, as Keras tells it, and health that of 1000 points
    seed          of the start, of the order of mini-batches and of the dropout masks
    noise         of the initialiser "mirrored"; None is its default
    output_lr     the rate of the output layer; None is that of all layers
    margin        δ of the block "farkas": 0 is the paper's bias, above 0 the strict one
    task          False learns from the penalty alone, without cross-entropy, whose value is still recorded

    >>> Member(depth=0, width=4, lr=-1)
    Traceback (most recent call last):
    ...
    alive.errors.AliveError: depth must be a whole number of at least 1, got 0; lr must be finite and above 0, got -1.
    """

    depth: int
    width: int
    method: str = "Sep-UP"
    seed: int = 10
    weight: float | Schedule | str | None = None
    aggregate: str = "sumsq"
    balance: float = 0.5
    architecture: str = "dense"
    init: str = "glorot"
    noise: float | None = None
    epochs: int = 1000
    batch_size: int | None = None
    shuffle: bool = False
    optimiser: str = "adam"
    lr: float = 0.01
    schedule: LrSchedule = CONSTANT
    momentum: float = 0.9
    eps: float = 1e-7
    dropout: Fade | None = None
    gate: Gate = Gate()
    margin: float = 0.0
    task: bool = True
    head: str = "flatten"
    kernel: int = 3
    conv: str = "channel"
    running: bool = False
    augment: Augment | None = None
    output_lr: float | None = None

    def __post_init__(self) -> None:
        if self.weight is None:
            object.__setattr__(self, "weight", WEIGHT if self.aggregate == "meansq" else SUM_WEIGHT)
        names = {
            "method": METHODS,
            "aggregate": AGGREGATES,
            "architecture": ARCHITECTURES,
            "init": (*INITIALISERS, *FITTED),
            "optimiser": OPTIMISERS,
        }
        batch = self.batch_size is None or whole(self.batch_size, 1)
        expect(
            [
                (whole(self.depth, 1), f"depth must be a whole number of at least 1, got {self.depth!r}"),
                (
                    whole(self.width, 1) and self.width <= MAX_WIDTH,
                    f"width must be a whole number from 1 to {MAX_WIDTH}, got {self.width!r}",
                ),
                *((getattr(self, what) in known, self._unknown(what, known)) for what, known in names.items()),
                (whole(self.seed, 0), f"seed must be a whole number of at least 0, got {self.seed!r}"),
                (
                    self.weight == "auto" or isinstance(self.weight, Schedule) or _at_least_zero(self.weight),
                    f"weight must be a Schedule, or finite and at least 0, or 'auto', got {self.weight!r}",
                ),
                (
                    real(self.balance) and 0 <= self.balance <= 1,
                    f"balance must lie in [0, 1], got {self.balance!r}",
                ),
                (whole(self.epochs, 1), f"epochs must be a whole number of at least 1, got {self.epochs!r}"),
                (batch, f"batch_size must be None or a whole number of at least 1, got {self.batch_size!r}"),
                (real(self.lr) and self.lr > 0, f"lr must be finite and above 0, got {self.lr!r}"),
                above_zero_or_none("output_lr", self.output_lr),
                (
                    real(self.momentum) and 0 <= self.momentum < 1,
                    f"momentum must be at least 0 and below 1, got {self.momentum!r}",
                ),
                (real(self.eps) and self.eps > 0, f"eps must be finite and above 0, got {self.eps!r}"),
                (real(self.margin) and self.margin >= 0, f"margin must be at least 0, got {self.margin!r}"),
                *self._misfits(),
            ]
        )

    @property
    def kind(self) -> Method:
        """What the method stands for."""
        return METHODS[self.method]

    @property
    def form(self) -> Architecture:
        """What the architecture stands for."""
        return ARCHITECTURES[self.architecture]

    @property
    def engine(self) -> str:
        """Who trains it."""
        return self.form.engine

    @property
    def label(self) -> str:
        """The method as a reader names it: with its start, where that is not Glorot's."""
        return self.method + STARTS.get(self.init, f", {self.init}")

    @property
    def keeps(self) -> bool:
        """Whether the trained network can be kept: a plain one."""
        return self.kind.block == "plain"

    @property
    def settings(self) -> dict[str, Any]:
        """Everything that decides the result, and nothing that the method does not read."""
        record = asdict(self)
        unread = [*(() if self.kind.axes else PENALTY), *self.form.unread(self)]
        unread += [] if self.kind.block == "van" else ["gate"]
        unread += [] if self.kind.block == "farkas" else ["margin"]
        unread += [] if self.optimiser == "sgd" else ["momentum"]
        unread += ["eps"] if self.optimiser == "sgd" else []
        unread += ["task"] if self.task else []
        unread += ["output_lr"] if self.output_lr is None else []
        for name in unread:
            del record[name]
        rule = {"multipliers": (WEIGHT, KI, KP, NU, TOL, TOP)} if record.get("weight") == "auto" else {}
        return record | reals(record, "lr", "weight", "output_lr") | rule

    def cost(self, points: int | None = None, shape: Shape | None = None) -> float:
        """About how many seconds it takes on one core, shown so many points of a shape an epoch; ratios matter."""
        return self.form.cost(self, points, shape)

    def _unknown(self, what: str, known: Collection[str]) -> str:
        """What to say of a name; worked out only where it is wrong, for grids make thousands of members."""
        got = getattr(self, what)
        return "" if got in known else f"unknown {what} {got!r}: {near(got, known)}"

    def _misfits(self) -> list[tuple[bool, str]]:
        """What each setting allows, but not together."""
        known = self.method in METHODS and self.architecture in ARCHITECTURES
        block = METHODS[self.method].block if known else "plain"
        return [
            *(self.form.faults(self) if known else ()),
            (block != "farkas" or self.width != 1, "a Farkas layer needs width 2 or more"),
            (block != "concatenated" or self.width % 2 == 0, "concatenated ReLUs come in pairs: width must be even"),
            (
                self.init not in PAIRED or block not in ("farkas", "leaky"),
                f"the initialiser {self.init!r} belongs to ReLU layers that are not Farkas",
            ),
            (self.init not in PAIRED or self.width != 1, f"the initialiser {self.init!r} needs width 2 or more"),
            (
                self.init not in FITTED or block == "plain",
                f"the start {self.init!r} belongs to plain blocks, not {block}",
            ),
            (
                self.weight != "auto" or self.aggregate == "meansq",
                f"weight 'auto' belongs to the aggregate 'meansq', not {self.aggregate!r}",
            ),
            (self.noise is None or self.init == "mirrored", "noise belongs to the initialiser 'mirrored'"),
            (
                self.output_lr is None or block not in DOUBLED,
                f"{self.method} has no output_lr: what it trains is not stored in the order of layers",
            ),
        ]


def _at_least_zero(value: object) -> bool:
    return isinstance(value, int | float) and real(value) and value >= 0
