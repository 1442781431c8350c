"""Train one network on one data set. Given the model, the data and the settings, every number is decided."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from os import PathLike
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor, nn

from ..data import Data
from ..errors import AliveError, expect
from ..nn import set_epoch
from .checkpoint import checksum
from .log import Logger, Progress
from .points import Points
from .ranks import ALONE, Ranks
from .result import Result, Row
from .saver import Place, Saver, sole
from .settings import OPTIMISERS, Settings, groups
from .task import accuracy, logits_of, task_loss

DEFAULTS = Settings()


class Keeper(Protocol):
    """What keeps units and points alive, such as an attached alive.Jumpstart; runs are resumed under the same repr."""

    def penalty(self) -> Tensor:
        """The penalty of the forward pass just made, a scalar to add to the loss."""

    def set_progress(self, fraction: float) -> None:
        """Tell which part of all steps is done, from 0 to 1."""


@runtime_checkable
class Mover(Keeper, Protocol):
    """A keeper that moves some parameters of the model itself, such as the gates of a VAN.

    All it remembers must lie in the model, parameters or buffers, so that checkpoints hold it.
    """

    def owned(self) -> Sequence[nn.Parameter]:
        """Parameters that are the keeper's: the optimiser and its weight decay leave them alone."""

    def after_step(self) -> None:
        """The optimiser has made its step; the gradients are still there."""


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
    ranks: Ranks = ALONE,
) -> Result:
    """Minimise the task loss plus the keeper's penalty, in place; log a row an epoch and close the loggers.

    The task is binary cross-entropy for one logit, else cross-entropy. A loss that is not finite ends the run before
    it reaches the weights, and Result.stopped says so. With a checkpoint path, the run is saved every
    `checkpoint_every` seconds and on Ctrl-C; `resume=True` continues it to the bit, also in the middle of an epoch.
    `on_epoch(epoch, model)` is called after each epoch, the model in eval mode. The caller's random state is untouched.
    Of several `ranks` (see `train.ranks.joined`) each takes its part of every batch; the first one logs and saves.

    >>> from alive.data import moons
    >>> from alive.nn import Rectangular
    >>> net = Rectangular(2, 1, depth=2, width=8, generator=torch.Generator().manual_seed(0))
    >>> train(net, moons(), Settings(epochs=60, lr=0.05)).last.train_accuracy > 0.8
    True
    """
    progress = progress if ranks.is_main else None
    watchers = [*(loggers if ranks.is_main else ()), *([] if progress is None else [progress])]
    with ExitStack() as at_end:
        for watcher in watchers:
            at_end.callback(watcher.close)
        at_end.callback(model.train, model.training)
        at_end.enter_context(_seeded(model, ranks.seed(settings.seed)))
        run = _Run(model, data, settings, keep, ranks)
        kept_by = None if keep is None else repr(keep)
        identity = {"settings": asdict(settings), "data": _fingerprint(data), "keep": kept_by}
        at_end.enter_context(sole(checkpoint if ranks.is_main else None))
        saver = Saver(checkpoint, (model, run.optimiser), identity=identity, every=checkpoint_every, ranks=ranks)
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

    def __init__(self, model: nn.Module, data: Data, settings: Settings, keep: Keeper | None, ranks: Ranks) -> None:
        self.mover = keep if isinstance(keep, Mover) else None
        owned = set(self.mover.owned()) if self.mover else set()
        trained = [p for p in model.parameters() if p.requires_grad and p not in owned]
        _expect_fit(model, len(trained), data, settings)
        self.model, self.settings, self.keep, self.ranks = model, settings, keep, ranks
        self.shared = ranks.wrap(model)
        parts = groups(model, trained, settings)
        self.rates = [part["lr"] for part in parts]
        self.optimiser = OPTIMISERS[settings.optimiser](parts, settings)
        self.points = Points(data, trained[0], channels_last=settings.channels_last)
        if settings.channels_last:
            model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def epoch(self, place: Place, saver: Saver) -> str | None:
        """Go from where the epoch stands to its end, and add its row; or say why that was not possible."""
        set_epoch(self.model, place.epoch)
        for group, rate in zip(self.optimiser.param_groups, self.rates, strict=True):
            group["lr"] = rate * self.settings.schedule(place.epoch, self.settings.epochs)
        self.model.train()
        for points in self._order(place.epoch)[place.step :]:
            if fault := self._step(points, place):
                return fault
            saver.between_steps(place)
        return self._measure(place)

    def _order(self, epoch: int) -> tuple[Tensor, ...]:
        """Batches of point numbers; they follow from seed and epoch alone, so that any epoch can be resumed."""
        count = len(self.points.train_y)
        order = torch.arange(count)
        if self.settings.shuffle:
            order = torch.randperm(count, generator=_chance(self.settings.seed, epoch))
        return torch.split(order, self.settings.batch_size or count)

    def _batch(self, numbers: Tensor, place: Place) -> tuple[Tensor, Tensor]:
        """The points of a step; how images are changed follows from seed, epoch and step."""
        if self.settings.augment is None:
            return self.points.batch(numbers)
        chance = _chance(self.settings.seed, place.epoch, place.step)
        return self.points.batch(numbers, change=lambda images: self.settings.augment(images, chance))  # type: ignore[misc]

    def _step(self, numbers: Tensor, place: Place) -> str | None:
        """One step downhill; a loss that is not finite is named and does not touch the weights."""
        x, y = (self.ranks.shard(part) for part in self._batch(numbers, place))
        sizes = {"own": len(y), "total": len(numbers)}
        if self.keep is not None:
            self.keep.set_progress(self._progress(place))
        self.optimiser.zero_grad()
        logits = self._logits(x)
        task = task_loss(logits, y)
        penalty = task.new_zeros(()) if self.keep is None else self.keep.penalty()
        values = {"task loss": self.ranks.mean(task.item(), **sizes), "penalty": penalty.item()}
        wrong = [f"the {name} is {value}" for name, value in values.items() if not math.isfinite(value)]
        if wrong:
            return self._advise(f"{' and '.join(wrong)} in epoch {place.epoch}, step {place.step}, which was not taken")
        torch.autograd.backward(self.ranks.share(task, **sizes) + penalty)
        self.optimiser.step()
        if self.mover is not None:
            self.mover.after_step()
        right = self.ranks.mean(accuracy(logits, y), **sizes) if self.settings.running else 0.0
        place.count(values["task loss"], values["penalty"], right, points=len(numbers))
        return None

    def _logits(self, x: Tensor) -> Tensor:
        """What the model makes of a batch; a model that cannot read it is told so with the shape."""
        try:
            return self.shared(x)  # type: ignore[no-any-return]
        except Exception as error:
            if isinstance(error, AliveError):
                raise
            reason = str(error).strip().split("\n")[0].rstrip(".")
            raise AliveError(
                f"the model could not run on points {list(x.shape)}: {reason}",
                "Check the shapes that forward() expects",
            ) from error

    def _advise(self, fault: str) -> str:
        penalty = "" if self.keep is None else ", a smaller penalty"
        return f"{fault}. Try an lr below {self.settings.lr}{penalty} or another initialiser."

    def _progress(self, place: Place) -> float:
        count = len(self.points.train_y)
        steps = math.ceil(count / (self.settings.batch_size or count))
        return (place.epoch * steps + place.step) / (self.settings.epochs * steps)

    def _measure(self, place: Place) -> str | None:
        """Add the row of a finished epoch, with the accuracies of the network as it now is."""
        whole = self.points.parts[self.settings.running :]
        parts = [(self.ranks.shard(x), self.ranks.shard(y)) for x, y in whole]
        logits = logits_of(self.model, *(x for x, _ in parts), read=self.points.read)
        if self.ranks.any(not all(part.isfinite().all() for part in logits)):
            return self._advise(f"the logits are not finite after epoch {place.epoch}")
        points = len(self.points.train_y)
        right = [
            self.ranks.mean(accuracy(part, y), own=len(y), total=len(all_y))
            for part, (_, y), (_, all_y) in zip(logits, parts, whole, strict=True)
        ]
        if self.settings.running:
            right = [place.right / points, *right]
        tested = right[1] if len(right) > 1 else None
        place.finish(Row(place.epoch, place.loss / points, place.penalty / points, right[0], tested))
        return None


def _chance(*numbers: int) -> torch.Generator:
    """Randomness that follows from seed and place alone."""
    seed = int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0] >> 1)
    return torch.Generator().manual_seed(seed)


def _expect_fit(model: nn.Module, trained: int, data: Data, settings: Settings) -> None:
    """Refuse before the first step what must fail later."""
    points = len(data.train_y)
    batch = settings.batch_size or points
    lone = points % batch == 1 or batch == 1
    expect(
        [
            (trained > 0, f"{type(model).__name__} has no parameter to train"),
            (batch <= points, f"batch_size {batch} is larger than the {points} training points"),
            (
                settings.augment is None or data.train_x.dim() == 4,
                f"augmentation is for images [N, C, H, W], and {data.name} has points {list(data.train_x.shape)}",
            ),
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
    """Name, size and checksum of the training set, and of the scale at which its bytes are read."""
    scale = [] if data.mean is None else [repr((data.mean, data.std))]
    return f"{data.name} of {len(data.train_y)} points, sum {checksum(*data.train, *scale)}"
