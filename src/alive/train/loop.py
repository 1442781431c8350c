"""Train one network on one data set. Model, data and settings decide every number."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from os import PathLike
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from ..data import Data
from ..data.arrays import Inputs
from ..errors import AliveError, expect
from ..nn import set_epoch
from .checkpoint import checksum
from .log import Logger, Progress
from .losses import Loss, tensor_of
from .points import Points, first
from .ranks import ALONE, Ranks
from .result import Epoch, Result
from .saver import Saver, Standing, sole
from .settings import OPTIMISERS, Settings, chance, groups
from .task import CLASSES, POINTS_AT_ONCE, Task, accuracy, logits_of, task_of

DEFAULTS = Settings()
UNTOUCHED = "No step was made yet: look at the scale of inputs and targets, the loss and the initialiser"


class Keeper(Protocol):
    """What keeps units and points alive, such as an attached alive.Jumpstart; runs are resumed under the same repr."""

    def penalty(self) -> Tensor:
        """The penalty of the forward pass just made, a scalar to add to the loss."""

    def set_progress(self, fraction: float) -> None:
        """Say which share of all steps is done, from 0 to 1."""


@runtime_checkable
class Mover(Keeper, Protocol):
    """A keeper that moves some parameters of the model itself, such as the gates of a VAN.

    All it remembers must lie in the model, parameters or buffers, so that checkpoints hold it.
    """

    def owned(self) -> Sequence[nn.Parameter]:
        """Parameters that are the keeper's: the optimiser and its weight decay leave them alone."""

    def after_step(self) -> None:
        """The optimiser has made its step; the gradients are still there."""


@runtime_checkable
class Remembering(Keeper, Protocol):
    """A keeper with a memory of its own beside the model: plain numbers, which checkpoints hold."""

    def state_dict(self) -> dict[str, Any]:
        """All that the next step depends on, as JSON holds it."""

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from there."""


def train(
    model: nn.Module,
    data: Data,
    settings: Settings = DEFAULTS,
    *,
    loss: str | Loss | Task | None = None,
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

    `loss` is "ce", "bce", "mse" or a function of output and targets that gives the mean over the points. By default it
    is what the targets ask for: for labels [N] binary cross-entropy of one logit, else cross-entropy; mse for real
    targets; for labels [N, ...] ce, or bce where each has one logit. A model that gives more than a tensor is trained
    by its `logits`, or by its first tensor. A loss that is not finite ends the run before it reaches the weights, and
    Result.stopped says so. With a checkpoint path, the run is saved every
    `checkpoint_every` seconds, on Ctrl-C and on SIGTERM, which ends the process with 143; `resume=True` continues it to
    the bit, also in the middle of an epoch, and begins where there is no checkpoint yet.
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
        at_end.enter_context(_seed(model, ranks.seed(settings.seed)))
        task, data = _task(model, data, loss, settings)
        run = _Run(model, data, task, settings, keep, ranks)
        kept_by = None if keep is None else repr(keep)
        identity = {"settings": settings.record, "data": _fingerprint(data), "keep": kept_by}
        if task.name != CLASSES.name:
            identity["loss"] = task.name
        at_end.enter_context(sole(checkpoint if ranks.is_main else None))
        memory = keep if isinstance(keep, Remembering) else None
        parts = (model, run.optimiser)
        saver = Saver(checkpoint, parts, identity=identity, every=checkpoint_every, ranks=ranks, memory=memory)
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
    """What stays the same during a run, and one step and one epoch of it."""

    def __init__(
        self, model: nn.Module, data: Data, task: Task, settings: Settings, keep: Keeper | None, ranks: Ranks
    ) -> None:
        self.mover = keep if isinstance(keep, Mover) else None
        owned = set(self.mover.owned()) if self.mover else set()
        trained = [p for p in model.parameters() if p.requires_grad and p not in owned]
        _expect_fit(model, len(trained), data, settings)
        self.model, self.task, self.settings, self.keep, self.ranks = model, task, settings, keep, ranks
        self.shared = ranks.wrap(model)
        parts = groups(model, trained, settings)
        self.rates = [part["lr"] for part in parts]
        self.optimiser = OPTIMISERS[settings.optimiser](parts, settings)
        self.points = Points(data, trained[0], channels_last=settings.channels_last)
        if settings.channels_last:
            model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def epoch(self, place: Standing, saver: Saver) -> str | None:
        """Finish the epoch from where it stands and add its row; or return why it stopped."""
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
            order = torch.randperm(count, generator=chance(self.settings.seed, epoch))
        return torch.split(order, self.settings.batch_size or count)

    def _batch(self, numbers: Tensor, place: Standing) -> tuple[Inputs, Tensor]:
        """The points of a step; how images are changed follows from seed, epoch and step."""
        if self.settings.augment is None:
            return self.points.batch(numbers)
        drawn = chance(self.settings.seed, place.epoch, place.step)
        return self.points.batch(numbers, change=lambda images: self.settings.augment(images, drawn))  # type: ignore[misc]

    def _step(self, numbers: Tensor, place: Standing) -> str | None:
        """One step downhill; a loss that is not finite is named and does not touch the weights."""
        inputs, all_y = self._batch(numbers, place)
        y = self.ranks.shard(all_y)
        sizes = {"own": self.task.weigh(y), "total": self.task.weigh(all_y)}
        if self.keep is not None:
            self.keep.set_progress(self._progress(place))
        self.optimiser.zero_grad()
        output = self.points.answer(self.shared, tuple(map(self.ranks.shard, inputs)))
        task = self.task.loss(output, y)
        penalty = task.new_zeros(()) if self.keep is None else _price(self.keep)
        values = {"task loss": self.ranks.mean(task.item(), **sizes), "penalty": penalty.item()}
        wrong = [f"the {name} is {value}" for name, value in values.items() if not math.isfinite(value)]
        if wrong:
            fault = f"{' and '.join(wrong)} in epoch {place.epoch}, step {place.step}, which was not taken"
            return self._advise(fault) if place.epoch or place.step else f"{fault}. {UNTOUCHED}."
        _expect_slope(task, self.task.name)
        torch.autograd.backward(self.ranks.share(task, **sizes) + penalty)
        self.optimiser.step()
        if self.mover is not None:
            self.mover.after_step()
        right = self.ranks.mean(accuracy(tensor_of(output), y), **sizes) if self.settings.running else 0.0
        place.count(values["task loss"], values["penalty"], right, points=len(numbers))
        return None

    def _advise(self, fault: str) -> str:
        penalty = "" if self.keep is None else ", a smaller penalty"
        return f"{fault}. Try an lr below {self.settings.lr}{penalty} or another initialiser."

    def _progress(self, place: Standing) -> float:
        count = len(self.points.train_y)
        steps = math.ceil(count / (self.settings.batch_size or count))
        return (place.epoch * steps + place.step) / (self.settings.epochs * steps)

    def _measure(self, place: Standing) -> str | None:
        """Add the row of a finished epoch, with the scores of the network as it now is."""
        whole = self.points.parts[self.settings.running :]
        sums = [self.ranks.total(each) for each in self._sums(whole)]
        if not all(bool(each.isfinite().all()) for each in sums):
            what = "logits" if self.task.score.name == "accuracy" else "outputs"
            return self._advise(f"the {what} are not finite after epoch {place.epoch}")
        points = len(self.points.train_y)
        scores = [self.task.score.value(each, y) for each, (_, y) in zip(sums, whole, strict=True)]
        if self.settings.running:
            scores = [place.right / points, *scores]
        tested = scores[1] if len(scores) > 1 else None
        means = place.loss / points, place.penalty / points
        place.finish(Epoch(place.epoch, *means, scores[0], tested, self.task.score.name))
        return None

    @torch.no_grad()
    def _sums(self, whole: list[tuple[Inputs, Tensor]]) -> list[Tensor]:
        """The score's sums over this rank's part of each set; with one label a point, in as few passes as possible."""
        parts = [(tuple(map(self.ranks.shard, inputs)), self.ranks.shard(y)) for inputs, y in whole]
        if self.task.name == CLASSES.name and all(len(inputs) == 1 for inputs, _ in parts):
            logits = logits_of(self.model, *(inputs[0] for inputs, _ in parts), read=self.points.read)
            return [self.task.score.sums(each, y) for each, (_, y) in zip(logits, parts, strict=True)]
        self.model.eval()
        return [sum(self._pieces(inputs, y)) for inputs, y in parts]  # type: ignore[misc]

    def _pieces(self, inputs: Inputs, y: Tensor) -> Iterator[Tensor]:
        """The sums of pieces no larger than a batch: outputs may be as large as a sequence of words."""
        size = min(self.settings.batch_size or POINTS_AT_ONCE, POINTS_AT_ONCE)
        for *some, wanted in zip(*(part.split(size) for part in (*inputs, y)), strict=True):
            output = self.points.answer(self.model, (self.points.read(some[0]), *some[1:]))
            yield self.task.score.sums(output, wanted)


def _task(model: nn.Module, data: Data, loss: str | Loss | Task | None, settings: Settings) -> tuple[Task, Data]:
    """What is trained, on the data as the model can read them; only what is new is looked at before the first step."""
    plain = data.classes and data.train_y.dim() == 1 and data.train_x.dtype != torch.int64 and not data.names
    if isinstance(loss, Task) or (loss is None and plain and not data.train_more):
        task = loss if isinstance(loss, Task) else CLASSES
    else:
        seen = first(model, data, settings.batch_size)
        task, data = task_of(seen, loss), seen.data
    if settings.running and task.score.name != "accuracy":
        raise AliveError(f"running takes the accuracy of the steps, and the score is {task.score.name}", "Leave it out")
    return task, data


def _expect_slope(loss: Tensor, name: str) -> None:
    """Refuse a loss that no weight can lower."""
    if not loss.requires_grad:
        raise AliveError(
            f"the loss {name} does not depend on the weights",
            "Compute it from the output in torch alone: no detach(), item(), argmax or numpy",
        )


def _price(keep: Keeper) -> Tensor:
    """The penalty of the pass just made, refused if no gradient can come of it."""
    price = keep.penalty()
    if isinstance(price, Tensor) and price.numel() == 1:
        return price.reshape(())
    got = f"a tensor of shape {list(price.shape)}" if isinstance(price, Tensor) else f"{type(price).__name__} {price!r}"
    raise AliveError(
        f"the penalty of {type(keep).__name__} is {got}, not a tensor of one number",
        "Compute it in torch alone and give it as it is: no float(), item() or numpy",
    )


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
def _seed(model: nn.Module, seed: int) -> Iterator[None]:
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
    more: list[Tensor | str] = [*data.train_more, *data.names, *scale]
    return f"{data.name} of {len(data.train_y)} points, sum {checksum(*data.train, *more)}"
