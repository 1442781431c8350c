"""One network for the torch loop, as a record: what it is, how it starts, how it is trained, what is left of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace

import torch
from torch import nn

from ..data import Data
from ..diagnosis import Census, census
from ..errors import expect, near
from ..nn.zoo import ZOO, Option, make
from ..penalties import attached
from ..penalties.van import VANController
from .log import Progress
from .loop import Keeper, train
from .result import Result
from .settings import Settings, whole

HEALTH_POINTS = 1000  # training points of the census at the end
Options = tuple[tuple[str, Option], ...]  # keywords and their values: a record that can be hashed


@dataclass(frozen=True, slots=True)
class Net:
    """A network of the zoo, trained by itself; the twin of a fleet's Member for networks the fleet does not know.

    network      a name in ZOO; `options` are its own keywords, (("head", "flatten"),)
    method       what a reader calls it: "ReLU", "Sep-UP", "FarkasNet"
    separation   keywords of Jumpstart, or None for none; ("penalty", name) asks for another of PENALTIES
    gate         keywords of VANController, or None for none
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


@dataclass(frozen=True, slots=True, eq=False)
class NetResult:
    """Its epochs, its health at the end on some training points, and for gates their residual after each epoch."""

    result: Result
    health: Census | None
    residuals: tuple[float, ...] = ()


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
    with nullcontext() if asked is None else attached(name, model, **options) as keep:
        yield keep
