"""One network for the torch loop, as a record: what it is, how it starts, how it is trained, what is left of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch import nn

from alive.data import Data
from alive.diagnosis import Census, census
from alive.errors import expect, near
from alive.penalties import attach
from alive.penalties.multipliers import AUTO, WEIGHT
from alive.penalties.van import VANController
from alive.train.log import Progress
from alive.train.loop import Keeper, train
from alive.train.result import Best, EpochHealth, Result
from alive.train.settings import Settings, reals, whole

from .networks.zoo import ZOO, Option, Shape, make

HEALTH_POINTS = 1000  # training points of the census at the end
POINTS = 60_000  # of a data set whose size is not told, for the cost
HEALTH = ("dead_units", "linear_units", "dead_points")
CURVES = ("epoch", "loss", "penalty")
EARLIER = (("aggregate", "sumsq"), ("weight", 1e-4))  # what a penalty was by default
Options = tuple[tuple[str, Option], ...]  # keywords and their values: a record that can be hashed


@dataclass(frozen=True, slots=True)
class Net:
    """A network of the zoo, trained by itself; the twin of a fleet's Member for networks the fleet does not know.

    network      a name in ZOO; `options` are its own keywords, (("head", "flatten"),)
    method       what a reader calls it: "ReLU", "Sep-UP", "FarkasNet"
    separation   keywords of Jumpstart, or None for none; ("penalty", name) asks for another of PENALTIES
    gate         keywords of VANController, by default in its literal preset; or None for none
    training     all else; its seed is this record's

    >>> Net("rectangle", 28, 4, "ReLU").lr
    0.01
    """

    network: str
    depth: int
    width: int
    method: str
    seed: int = 10
    options: Options = ()
    separation: Options | None = None
    gate: Options | None = None
    training: Settings = Settings()  # noqa: RUF009 - a frozen record

    def __post_init__(self) -> None:
        expect(
            [
                (self.network in ZOO, f"unknown network {self.network!r}: {near(self.network, ZOO)}"),
                (whole(self.depth, 1), f"depth must be a whole number of at least 1, got {self.depth!r}"),
                (whole(self.width, 1), f"width must be a whole number of at least 1, got {self.width!r}"),
                (whole(self.seed, 0), f"seed must be a whole number of at least 0, got {self.seed!r}"),
                (self.separation is None or self.gate is None, "a network has one keeper: separation or gate"),
            ]
        )

    @property
    def epochs(self) -> int:
        """Times over the data."""
        return self.training.epochs

    @property
    def lr(self) -> float:
        """The first learning rate."""
        return self.training.lr

    @property
    def engine(self) -> str:
        """Who trains it."""
        return "loop"

    @property
    def label(self) -> str:
        """The method as a reader names it."""
        return self.method

    @property
    def keeps(self) -> bool:
        """Whether the trained network can be kept."""
        return False

    @property
    def settings(self) -> dict[str, Any]:
        """The record, its keywords sorted by name; what the optimiser does not read and the seed's copy left out."""
        record = asdict(self)
        training = self.training.record
        for name in ("seed", "momentum" if self.training.optimiser == "adam" else "eps"):
            del training[name]
        for name in ("options", "separation", "gate"):
            record[name] = None if record[name] is None else dict(record[name])
        if record["separation"] is not None:
            record["separation"] = _told(record["separation"])
        return record | {"training": training | reals(training, "lr", "weight_decay")}

    def cost(self, points: int | None = None, shape: Shape | None = None) -> float:
        """About how many seconds it takes on one core, shown so many points of a shape an epoch; ratios matter."""
        return 1e-8 * self.epochs * (points or POINTS) * self.depth * self.width * (self.width + 8)


@dataclass(frozen=True, slots=True, eq=False)
class NetResult:
    """Its epochs, its health at the end on some training points, and for gates their residual after each epoch."""

    result: Result
    health: Census | None
    residuals: tuple[float, ...] = ()

    @property
    def best(self) -> Best:
        """The best accuracies over all epochs."""
        return self.result.best

    @property
    def stopped(self) -> str | None:
        """Why it ended before its last epoch, or None."""
        return self.result.stopped

    @property
    def last(self) -> EpochHealth | None:
        """The last epoch, if there is one, with the health at the end; counts are 0 where no census was taken."""
        if self.result.last is None:
            return None
        found = self.health
        counts = (0, 0, 0) if found is None else (found.units.dead, found.units.linear, found.points.dead)
        end = self.result.last
        return EpochHealth(end.epoch, end.loss, end.penalty, end.train or 0.0, end.test, *counts)

    @property
    def curves(self) -> dict[str, list[float]]:
        """Every epoch by the names of its columns; for gates also their residual."""
        rows = self.result.rows
        gates = {"residual": list(self.residuals[: len(rows)])} if self.residuals else {}
        scores = {
            "train_accuracy": [row.train or 0.0 for row in rows],
            "test_accuracy": [row.test or 0.0 for row in rows],
        }
        return {name: [getattr(row, name) for row in rows] for name in CURVES} | scores | gates

    @property
    def kept(self) -> tuple[bytes, int]:
        """Nothing: networks of the loop are not kept."""
        return b"", 0


def _told(separation: dict[str, Option]) -> dict[str, Option]:
    """The keywords of a penalty as rows are known by: those of ours with its defaults.

    Rows from before "meansq" was the default are sums of squares at 1e-4 where they tell nothing else; so these two
    stay untold.
    """
    if separation.get("penalty", "jumpstart") != "jumpstart":
        return separation
    told: dict[str, Option] = {"weight": WEIGHT, "aggregate": "meansq", **separation}
    if told["weight"] == "auto":
        told |= {f"auto_{name}": value for name, value in AUTO.items()}
    if told["aggregate"] != "sumsq":
        return told
    return {name: value for name, value in told.items() if (name, value) not in EARLIER}


def build(net: Net, data: Data) -> nn.Module:
    """The network as it starts: seed and record decide every weight."""
    chance = torch.Generator().manual_seed(net.seed)
    shape = tuple(data.train_x.shape[1:])
    return make(
        net.network, shape, data.outputs, depth=net.depth, width=net.width, generator=chance, **dict(net.options)
    )


def train_net(net: Net, data: Data, *, progress: Progress | None = None) -> NetResult:
    """Train one network from its start to its end.

    >>> from alive.data import moons
    >>> done = train_net(Net("rectangle", 2, 4, "Sep-UP", separation=(), training=Settings(epochs=3)), moons())
    >>> len(done.result.rows), done.health.points.total
    (3, 85)
    """
    model = build(net, data)
    residuals: list[float] = []
    with _keeper(net, model) as keep:
        gates = keep if isinstance(keep, VANController) else None
        result = train(
            model,
            data,
            replace(net.training, seed=net.seed),
            keep=keep,
            progress=progress,
            on_epoch=None if gates is None else lambda *_: residuals.append(gates.residual()),
        )
    sample = data.pixels(data.train_x[:HEALTH_POINTS]) if not result.stopped else None
    return NetResult(result, None if sample is None else census(model, sample), tuple(residuals))


@contextmanager
def _keeper(net: Net, model: nn.Module) -> Iterator[Keeper | None]:
    """What keeps the network alive, attached while it trains."""
    asked = net.separation if net.gate is None else net.gate
    options = dict(asked or ())
    name = str(options.pop("penalty", "jumpstart" if net.gate is None else "phase-out"))
    if name == "phase-out":
        options.setdefault("preset", "literal")
    with nullcontext() if asked is None else attach(name, model, **options) as keep:
        yield keep
