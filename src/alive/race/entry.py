"""What is raced: the user's factory, data and loss, checked once, with points held out to judge by."""

from __future__ import annotations

import hashlib
import math
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakSet

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

from .._version import __version__
from ..data import Data
from ..data.batches import draw
from ..data.convert import precision
from ..data.memory import labelled
from ..data.record import rows
from ..diagnosis.task import ENOUGH, constant
from ..errors import AliveError, fault
from ..train import OPTIMISERS, Settings, Task, first, task_of
from ..train.checkpoint import checksum
from ..train.losses import Loss
from ..train.points import First
from ..train.settings import groups

Optimiser = Callable[[nn.Module], torch.optim.Optimizer]
Own = Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer]

HELD_OUT = 5  # one point of so many judges, where data have no test points
FEWEST = 10  # points of which some can be held out
BATCH = 64
MARKS = 8  # looks at a network on its way; the rungs are some of them


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """A race before its first step.

    data     its test points judge; where it has none, the training points do
    x        the training inputs as the model reads them, where they are one tensor; dtype: its precision
    chance   the score of the best answer that is the same for all points; None where it is not known
    steps    of a whole run; 0 before it is known how many there is time for
    key      a sum of all that decides a run but arm, seed and steps
    """

    make: Callable[[], nn.Module]
    name: str
    data: Data
    task: Task
    optimiser: Optimiser
    batch_size: int
    steps: int
    x: Tensor | None
    dtype: torch.dtype
    chance: float | None
    key: str
    notes: tuple[str, ...]
    made: WeakSet[nn.Module] = field(default_factory=WeakSet)

    @property
    def marks(self) -> frozenset[int]:
        """The steps at which a network is looked at."""
        return frozenset(math.ceil(self.steps * k / MARKS) for k in range(MARKS + 1))

    @property
    def rungs(self) -> tuple[int, ...]:
        """The steps after which losers are stopped, and the last one."""
        return tuple(sorted({math.ceil(self.steps * part) for part in (1 / 4, 1 / 2, 1)}))

    @property
    def larger(self) -> bool:
        """Whether a larger score is a better one."""
        return self.task.score.name != "loss"

    def fresh(self, seed: int) -> nn.Module:
        """A model by the user's factory, under the seed that is set."""
        return _make(self.make, self.name, seed, self.made)

    def looked_at(self, most: int) -> Any:
        """So many training points for a census, from all over the data."""
        every = len(self.data.train_y)
        numbers = torch.linspace(0, every - 1, min(most, every)).long()
        inputs, _ = self.data.parts[0]
        first, *more = (_place(x[numbers], self.dtype) for x in inputs)
        some = (self.data.pixels(first, self.dtype), *more)
        if self.data.names:
            return dict(zip(self.data.names, some, strict=True))
        return some[0] if len(some) == 1 else some


def opened(
    make: Callable[[], nn.Module],
    data: Any,
    *,
    name: str,
    source: str | None,
    loss: str | Loss | None,
    lr: float,
    optimiser: str | Own,
    batch_size: int | None,
    points: int | None,
) -> tuple[Entry, nn.Module]:
    """Check all that can be checked before the first step; the entry, and a fresh model."""
    if isinstance(make, nn.Module) or not callable(make):
        raise AliveError(
            f"a race needs a function that makes the model anew for each seed and cure, got {type(make).__name__}",
            "Give make_model itself, not called",
        )
    settings = Settings(optimiser=optimiser if isinstance(optimiser, str) else "adam", lr=lr, batch_size=batch_size)
    made: WeakSet[nn.Module] = WeakSet()
    model, other = (_make_under_seed(make, name, seed, made) for seed in (0, 1))
    notes = _expect_fresh(name, model, other)
    size = batch_size or (data.batch_size if isinstance(data, DataLoader) else None) or BATCH
    whole = labelled(data, real=True if loss == "mse" else None, model=model, name=source)
    _expect_points(whole)
    if points is not None and points < len(whole.train_y):
        whole = whole.subset(draw(len(whole.train_y), points, 0))
    held, said = _hold_out(whole)
    size = min(size, len(held.train_y))
    seen = first(model, held, size)
    task = _task(seen, loss)
    held = seen.data
    _expect_loss(task, seen)
    chance = _chance(task, seen, held)
    inputs, _ = held.parts[0]
    dtype = precision(model)
    x = held.pixels(_place(inputs[0], dtype), dtype) if len(inputs) == 1 and not held.names else None
    chosen = _optimiser(settings, optimiser)
    entry = Entry(
        make,
        name,
        held,
        task,
        chosen,
        size,
        0,
        x,
        dtype,
        chance,
        _key(model, seen, task, held, (size, chosen(model))),
        (*task.said, *notes, *said),
        made,
    )
    return entry, model


def _optimiser(settings: Settings, wanted: str | Own) -> Optimiser:
    """What makes the optimiser of a model: one by name, or the user's own."""
    if isinstance(wanted, str):
        return lambda model: OPTIMISERS[settings.optimiser](groups(model, trained(model), settings), settings)

    def own(model: nn.Module) -> torch.optim.Optimizer:
        try:
            made = wanted(trained(model))
        except Exception as error:
            raise fault("making the optimiser", error) from error
        if not isinstance(made, torch.optim.Optimizer):
            raise AliveError(
                f"optimiser(parameters) gave a {type(made).__name__}, not a torch.optim.Optimizer",
                "Let it return one: lambda parameters: torch.optim.AdamW(parameters, lr=1e-3)",
            )
        return made

    return own


def trained(model: nn.Module) -> list[nn.Parameter]:
    """The parameters of a model that are trained."""
    return [p for p in model.parameters() if p.requires_grad]


def _place(x: Tensor, dtype: torch.dtype) -> Tensor:
    """Floats in the precision of the model, all else as it is."""
    return x.to(dtype) if x.is_floating_point() else x


# The factory.


def _make_under_seed(make: Callable[[], nn.Module], name: str, seed: int, made: WeakSet[nn.Module]) -> nn.Module:
    torch.manual_seed(seed)
    return _make(make, name, seed, made)


def _make(make: Callable[[], nn.Module], name: str, seed: int, before: WeakSet[nn.Module]) -> nn.Module:
    """A fresh model; what fails, is no model, or was there before is refused."""
    try:
        model = make()
    except Exception as error:
        raise fault(f"{name} under seed {seed}", error) from error
    if not isinstance(model, nn.Module):
        raise AliveError(f"{name} gave a {type(model).__name__}, not a torch.nn.Module", "Let it return the model")
    if model in before:
        raise _same(name)
    before.add(model)
    return model


def _same(name: str) -> AliveError:
    return AliveError(
        f"{name} returns the same model each time, so that one cure would go on where another stopped",
        "Let it build the model anew in each call",
    )


def _expect_fresh(name: str, model: nn.Module, other: nn.Module) -> tuple[str, ...]:
    """Refuse two models that share weights; say so where two seeds give the same ones."""
    _expect_trained(name, model)
    ours, theirs = list(model.parameters()), list(other.parameters())
    if any(a is b for a in ours for b in theirs):
        raise _same(name)
    alike = len(ours) == len(theirs) and all(
        a.shape == b.shape and torch.equal(a, b) for a, b in zip(ours, theirs, strict=True)
    )
    said = f"{name} gives the same weights under every seed: as it is, seeds differ by the order of points alone"
    return (said,) if alike else ()


def _expect_trained(name: str, model: nn.Module) -> None:
    if not trained(model):
        raise AliveError(f"the model of {name} has no parameter to train", "Let some of its weights require gradients")
    if any(isinstance(p, nn.UninitializedParameter) for p in trained(model)):
        raise AliveError(
            f"the model of {name} has lazy layers, which have no weights yet",
            "Run it on an example before it is returned",
        )


# The data.


def _expect_points(data: Data) -> None:
    points = len(data.train_y)
    if points < 2:
        raise AliveError(
            f"{data.name} holds one point, and nothing can be learned or judged from one", "Give at least two"
        )
    rows = data.train_y.reshape(points, -1)
    if bool((rows == rows[:1]).all()):
        raise AliveError(
            f"all {points} targets of {data.name} are the same, so that there is nothing to learn",
            "Look at how the targets are read",
        )


def _hold_out(data: Data) -> tuple[Data, tuple[str, ...]]:
    """The same with some training points as test points, and words on who judges."""
    every = len(data.train_y)
    if data.test is not None:
        return data, (f"judged by the {len(data.test[1])} test points of {data.name}",)
    if every < FEWEST:
        return data, (f"{every} points are too few to hold any out: judged by the training points themselves",)
    order = torch.randperm(every, generator=torch.Generator().manual_seed(0))
    out, kept = (part.sort().values for part in (order[: every // HELD_OUT], order[every // HELD_OUT :]))
    split = data.with_parts(*(rows(data.parts[0], part) for part in (kept, out)))
    return split, (f"judged by {len(out)} of the {every} points, drawn at random and held out of training",)


# The loss.


def _task(seen: First, loss: str | Loss | None) -> Task:
    """The task of the loss; one that stretches targets to the shape of the output, as torch warns of, is refused."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        task = task_of(seen, loss)
    if stretched := next((str(each.message) for each in said if "target size" in str(each.message)), ""):
        raise AliveError(
            f"the loss {task.name} stretches targets to another shape: {stretched.split('. ')[0]}",
            "Let the model give one number for each target",
        )
    return task


def _expect_loss(task: Task, seen: First) -> None:
    """Refuse a loss that no network can lower: not finite, or blind to the output."""
    if not isinstance(seen.output, Tensor):
        return
    output = seen.output.detach().clone().requires_grad_()
    with torch.enable_grad():
        value = task.loss(output, seen.y)
    if not bool(value.isfinite()) and bool(output.isfinite().all()):
        raise AliveError(
            f"the loss {task.name} is {float(value.detach())} from the start, on outputs that are finite",
            "Look at the loss and at the targets; no cure of the network can mend it",
        )
    if bool(value.isfinite()) and not _feels(task, seen, output, value):
        raise AliveError(
            f"the loss {task.name} does not depend on the output of the model",
            "Compute it from the output in torch alone: no detach(), item(), argmax or numpy",
        )


def _feels(task: Task, seen: First, output: Tensor, value: Tensor) -> bool:
    """Whether the loss has a slope by the output, here or at another output."""
    for other in (value, None):
        if other is None:
            chance = torch.Generator().manual_seed(0)
            moved = output.detach().cpu() + torch.randn(output.shape, generator=chance).to(output.dtype)
            output = moved.to(output.device).requires_grad_()
            with torch.enable_grad():
                other = task.loss(output, seen.y)
        if other.requires_grad:
            (slope,) = torch.autograd.grad(other, output, allow_unused=True)
            if slope is not None and bool((slope != 0).any()):
                return True
    return False


def _chance(task: Task, seen: First, data: Data) -> float | None:
    """What one answer for all points can reach on the points that judge."""
    judges = data.parts[-1][1]
    known = task.score.chance(judges)
    if known is not None or not isinstance(seen.output, Tensor) or len(seen.output) != len(seen.y):
        return known
    return constant(task.loss, seen.output, data.train_y, ENOUGH, judges[:ENOUGH])


# What it all is, as a sum.


def _key(model: nn.Module, seen: First, task: Task, data: Data, settings: tuple[Any, ...]) -> str:
    """Model (its parts, its weights, what it answers), data, loss and settings."""
    weights = [part for name, value in model.state_dict().items() for part in (name, value) if _is_plain(part)]
    answer = [seen.output] if isinstance(seen.output, Tensor) else []
    points = [x for inputs, y in data.parts for x in (*inputs, y)]
    with torch.no_grad():
        loss = float(task.loss(seen.output, seen.y))
    told = [__version__, torch.__version__, repr(model), *(str(checksum(*part)) for part in (weights, answer, points))]
    told += [repr((data.names, data.mean, data.std)), task.name, repr(loss), *map(repr, settings)]
    return hashlib.sha256("\n".join(told).encode()).hexdigest()[:16]


def _is_plain(part: Any) -> bool:
    return isinstance(part, str) or (isinstance(part, Tensor) and part.numel() > 0)
