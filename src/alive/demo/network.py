"""One network of the demonstration: how it is trained, and what is kept of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass

import numpy as np
import torch

from .._version import __version__
from ..data import Data, moons
from ..diagnosis import Tally, census
from ..nn import Rectangular
from ..penalties import Jumpstart
from ..report import Panel
from ..train import Epoch, Settings, logits_of, train

DEPTH, WIDTH, EPOCHS, WEIGHT, FIRST_SEED = 50, 4, 1000, 1e-4, 10
TRACES = 100  # how often in a run the units and points are counted
CHANCE = 44 / 85  # the larger class of the training set


@dataclass(frozen=True, slots=True)
class Method:
    """A way to train the network; `published` are the paper's best training and validation accuracies (001-T1)."""

    name: str
    note: str
    mode: str | None = None
    batch_norm: bool = False
    init: str = "glorot"
    lr: float = 0.01
    published: tuple[float, float] | None = None


METHODS = (
    Method("ReLU", "plain network", published=(0.5176, 0.4)),
    Method("ReLU+BN", "with batch norm", batch_norm=True, published=(0.8117, 0.6)),
    Method("Sep-U", "with the penalty on units", mode="U", published=(0.9058, 0.8)),
    Method("Sep-P", "with the penalty on points", mode="P", published=(0.9294, 0.8)),
    Method("Sep-UP", "with the penalty on units and points", mode="UP", published=(0.9882, 0.9333)),
    Method("mirrored", "plain network, mirrored start", init="mirrored", lr=0.001),
)


@dataclass(frozen=True, slots=True)
class Job:
    """One network to train."""

    method: Method
    seed: int
    epochs: int

    @property
    def file(self) -> str:
        """Where its outcome waits while others of the run are still to come."""
        return f"{__version__}-{self.method.name}-{self.seed}-{self.epochs}.json"


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """One trained network: accuracies (best over epochs and last), its census, and what is drawn of it."""

    method: str
    seed: int
    best: tuple[float, float]
    last: tuple[float, float]
    units: Tally
    points: Tally
    stopped: str | None
    seconds: float
    panel: Panel

    def to_json(self) -> str:
        """All of it as text."""
        return json.dumps(asdict(self), default=np.ndarray.tolist)

    @classmethod
    def from_json(cls, text: str) -> Outcome:
        """What `to_json` wrote."""
        record = json.loads(text)
        drawn = {key: np.array(value) if isinstance(value, list) else value for key, value in record["panel"].items()}
        panel = Panel(**drawn | {"extent": tuple(record["panel"]["extent"])})
        pairs = {key: tuple(record[key]) for key in ("best", "last")}
        tallies = {key: Tally(*record[key]) for key in ("units", "points")}
        return cls(**record | pairs | tallies | {"panel": panel})


def train_one(job: Job, tick: Callable[[int], None] = lambda epoch: None) -> Outcome:
    """Train one network and count its units and points on the way; `tick(epoch)` after each epoch."""
    data, method = moons(), job.method
    chance = torch.Generator().manual_seed(job.seed)
    model = Rectangular(
        data.inputs,
        data.outputs,
        depth=DEPTH,
        width=WIDTH,
        batch_norm=method.batch_norm,
        init=method.init,
        generator=chance,
    )
    every = max(1, job.epochs // TRACES)
    trace: list[tuple[int, Tally, Tally]] = []

    def count(epoch: int, model: torch.nn.Module) -> None:
        tick(epoch)
        if epoch % every == 0 or epoch == job.epochs - 1:
            found = census(model, data.train_x)
            trace.append((epoch, found.units, found.points))

    attached = Jumpstart(model, WEIGHT, mode=method.mode) if method.mode else None
    with attached or nullcontext():
        settings = Settings(epochs=job.epochs, lr=method.lr, seed=job.seed)
        result = train(model, data, settings, keep=attached, on_epoch=count)
    found = census(model, data.train_x)
    last = result.last or Epoch(0, float("nan"), 0.0, CHANCE, 0.0)
    return Outcome(
        method.name,
        job.seed,
        (result.best.train_accuracy or 0.0, result.best.test_accuracy or 0.0),
        (last.train_accuracy, last.test_accuracy or 0.0),
        found.units,
        found.points,
        result.stopped,
        result.seconds,
        _panel(method, model, data, trace, result.rows),
    )


def _panel(
    method: Method, model: torch.nn.Module, data: Data, trace: Sequence[tuple[int, Tally, Tally]], rows: Sequence[Epoch]
) -> Panel:
    """What is drawn of one network."""
    low, high = data.train_x.amin(0) - 0.1, data.train_x.amax(0) + 0.1
    sides = [np.linspace(float(a), float(b), 120) for a, b in zip(low, high, strict=True)]
    plane = np.stack(np.meshgrid(*sides), axis=-1).reshape(-1, 2)
    (logits,) = logits_of(model, torch.tensor(plane, dtype=torch.float32))
    epochs = np.array([epoch for epoch, _, _ in trace])
    return Panel(
        method.name,
        logits.sigmoid().reshape(120, 120).double().numpy(),
        (float(low[0]), float(high[0]), float(low[1]), float(high[1])),
        epochs,
        np.array([units.dead / units.total for _, units, _ in trace]),
        np.array([units.linear / units.total for _, units, _ in trace]),
        np.array([points.dead / points.total for _, _, points in trace]),
        np.array([rows[epoch].train_accuracy for epoch in epochs]),
        method.note,
    )
