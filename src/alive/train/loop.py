"""Train one network on one data set. Given the model, the data and the settings, every number is decided."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from os import PathLike
from typing import Protocol

import numpy as np
import torch
from torch import Tensor, nn

from ..data import Data
from ..errors import expect
from ..nn import set_epoch
from .checkpoint import checksum
from .log import Logger, Progress
from .result import Result, Row
from .saver import Place, Saver
from .settings import OPTIMISERS, Settings
from .task import accuracy, logits_of, task_loss

DEFAULTS = Settings()


class Keeper(Protocol):
    """What keeps units and points alive, such as an attached alive.Jumpstart; runs are resumed under the same repr."""

    def penalty(self) -> Tensor:
        """The penalty of the forward pass just made, a scalar to add to the loss."""

    def set_progress(self, fraction: float) -> None:
        """Tell which part of all steps is done, from 0 to 1."""


def train(
    model: nn.Module,
    data: Data,
    settings: Settings = DEFAULTS,
    *,
    keep: Keeper | None = None,
    loggers: Sequence[Logger] = (),
    checkpoint: str | PathLike[str] | None = None,
    resume: bool = False,
    checkpoint_every: float = 60.0,
    progress: Progress | None = None,
    on_epoch: Callable[[int, nn.Module], object] | None = None,
) -> Result:
    """Minimise the task loss plus the keeper's penalty, in place; log a row an epoch and close the loggers.

    The task is binary cross-entropy for one logit, else cross-entropy. A loss that is not finite ends the run before
    it reaches the weights, and Result.stopped says so. With a checkpoint path, the run is saved every
    `checkpoint_every` seconds and on Ctrl-C; `resume=True` continues it to the bit, also in the middle of an epoch.
    `on_epoch(epoch, model)` is called after each epoch, the model in eval mode. The caller's random state is untouched.

    >>> from alive.data import moons
    >>> from alive.nn import Rectangular
    >>> net = Rectangular(2, 1, depth=2, width=8, generator=torch.Generator().manual_seed(0))
    >>> train(net, moons(), Settings(epochs=60, lr=0.05)).last.train_accuracy > 0.8
    True
    """
    watchers = [*loggers, *([] if progress is None else [progress])]
    with ExitStack() as at_end:
        for watcher in watchers:
            at_end.callback(watcher.close)
        at_end.callback(model.train, model.training)
        at_end.enter_context(_seeded(model, settings.seed))
        run = _Run(model, data, settings, keep)
        kept_by = None if keep is None else repr(keep)
        identity = {"settings": asdict(settings), "data": _fingerprint(data), "keep": kept_by}
        saver = Saver(checkpoint, (model, run.optimiser), identity=identity, every=checkpoint_every)
        place = saver.begin(resume=resume)
        if progress is not None:
            progress.start(settings.epochs, len(place.rows))
        with saver:
            stopped = None
            while place.epoch < settings.epochs and not (stopped := run.epoch(place, saver)):
                for watcher in watchers:
                    watcher.row(place.rows[-1])
                if on_epoch is not None:
                    on_epoch(place.rows[-1].epoch, model)
                saver.between_steps(place)
            if not stopped:
                saver.save(place)
        return Result(tuple(place.rows), stopped, saver.seconds)


class _Run:
    """The parts of a run that stay, and one step, one epoch of it."""

    def __init__(self, model: nn.Module, data: Data, settings: Settings, keep: Keeper | None) -> None:
        trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
        _expect_fit(model, len(trained), len(data.train_y), settings)
        self.model, self.settings, self.keep = model, settings, keep
        self.optimiser = OPTIMISERS[settings.optimiser](trained, settings)
        self.train = _like(trained[0], data.train)
        self.test = data.test and _like(trained[0], data.test)

    def epoch(self, place: Place, saver: Saver) -> str | None:
        """Go from where the epoch stands to its end, and add its row; or say why that was not possible."""
        set_epoch(self.model, place.epoch)
        self.model.train()
        for points in self._order(place.epoch)[place.step :]:
            if fault := self._step(points, place):
                return fault
            saver.between_steps(place)
        return self._measure(place)

    def _order(self, epoch: int) -> tuple[Tensor, ...]:
        """Batches of point numbers; they follow from seed and epoch alone, so that any epoch can be resumed."""
        count = len(self.train[1])
        order = torch.arange(count)
        if self.settings.shuffle:
            seed = int(np.random.SeedSequence((self.settings.seed, epoch)).generate_state(1, np.uint64)[0] >> 1)
            order = torch.randperm(count, generator=torch.Generator().manual_seed(seed))
        return torch.split(order, self.settings.batch_size or count)

    def _step(self, points: Tensor, place: Place) -> str | None:
        """One step downhill; a loss that is not finite is named and does not touch the weights."""
        x, y = (part[points.to(part.device)] for part in self.train)
        if self.keep is not None:
            self.keep.set_progress(self._progress(place))
        self.optimiser.zero_grad()
        task = task_loss(self.model(x), y)
        penalty = task.new_zeros(()) if self.keep is None else self.keep.penalty()
        values = {"task loss": task.item(), "penalty": penalty.item()}
        wrong = [f"the {name} is {value}" for name, value in values.items() if not math.isfinite(value)]
        if wrong:
            return self._advise(f"{' and '.join(wrong)} in epoch {place.epoch}, step {place.step}, which was not taken")
        torch.autograd.backward(task + penalty)
        self.optimiser.step()
        place.count(*values.values(), points=len(points))
        return None

    def _advise(self, fault: str) -> str:
        penalty = "" if self.keep is None else ", a smaller penalty"
        return f"{fault}. Try an lr below {self.settings.lr}{penalty} or another initialiser."

    def _progress(self, place: Place) -> float:
        steps = math.ceil(len(self.train[1]) / (self.settings.batch_size or len(self.train[1])))
        return (place.epoch * steps + place.step) / (self.settings.epochs * steps)

    def _measure(self, place: Place) -> str | None:
        """Add the row of a finished epoch, with the accuracies of the network as it now is."""
        parts = [self.train, *([self.test] if self.test else [])]
        logits = logits_of(self.model, *(x for x, _ in parts))
        if not all(part.isfinite().all() for part in logits):
            return self._advise(f"the logits are not finite after epoch {place.epoch}")
        points = len(self.train[1])
        trained, *tested = (accuracy(part, y) for part, (_, y) in zip(logits, parts, strict=True))
        row = Row(place.epoch, place.loss / points, place.penalty / points, trained, tested[0] if tested else None)
        place.finish(row)
        return None


def _like(parameter: Tensor, part: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """Points and labels on the device of the model, points in its precision."""
    x, y = part
    return x.to(parameter), y.to(parameter.device)


def _expect_fit(model: nn.Module, trained: int, points: int, settings: Settings) -> None:
    """Refuse before the first step what must fail later."""
    batch = settings.batch_size or points
    lone = points % batch == 1 or batch == 1
    expect(
        [
            (trained > 0, f"{type(model).__name__} has no parameter to train"),
            (batch <= points, f"batch_size {batch} is larger than the {points} training points"),
            (
                not lone or not any(isinstance(module, nn.BatchNorm1d) for module in model.modules()),
                f"batch_size {batch} leaves a batch of one of {points} points, where batch norm is not defined",
            ),
        ]
    )


@contextmanager
def _seeded(model: nn.Module, seed: int) -> Iterator[None]:
    """Seed what draws dropout masks, and give the caller's random state back."""
    devices = sorted({p.device.index for p in model.parameters() if p.device.type == "cuda"})
    with torch.random.fork_rng(devices=devices):
        torch.default_generator.manual_seed(seed)
        for device in devices:
            with torch.cuda.device(device):
                torch.cuda.manual_seed(seed)
        yield


def _fingerprint(data: Data) -> str:
    """Name, size and checksum of the training set."""
    return f"{data.name} of {len(data.train_y)} points, sum {checksum(*data.train)}"
