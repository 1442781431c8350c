"""The task of a network: its loss and its score, chosen by the targets or by the user."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..data import Data
from ..errors import AliveError, fault
from .losses import Loss, classes_last, counted, expect_known, expect_shares, loss_of, tensor_of, unclear
from .points import First
from .result import Result
from .scores import Accuracy, Cost, Fit, Score, right_class, right_labels, right_signs, spreads

LITTLE = 0.1  # of what can be learned
POINTS_AT_ONCE = 1000  # so that the memory for a large data set stays bounded


def task_loss(output: Any, y: Tensor) -> Tensor:
    """Binary cross-entropy for one logit [N, 1] or [N], else cross-entropy of [N, classes]; the labels are y [N].

    >>> task_loss(torch.zeros(3, 1), torch.tensor([0, 1, 1]))
    tensor(0.6931)
    """
    logits = tensor_of(output)
    shape = list(logits.shape)
    if logits.dim() == 1:
        logits = logits[:, None]
    if logits.dim() != 2 or len(logits) != len(y) or y.max() >= max(2, logits.shape[1]):
        raise AliveError(
            f"the model gave logits {shape} for {len(y)} points with labels up to {int(y.max())}",
            "It must give [N, classes], or one logit a point for two classes",
        )
    if logits.shape[1] == 1:
        return F.binary_cross_entropy_with_logits(logits[:, 0], y.to(logits.dtype))
    return F.cross_entropy(logits, y)


def accuracy(logits: Tensor, y: Tensor) -> float:
    """Part of the points whose label the logits name.

    >>> accuracy(torch.tensor([[2.0], [-1.0], [0.5], [3.0]]), torch.tensor([1, 0, 0, 1]))
    0.75
    """
    return right_class(logits, y)[1].double().mean().item()


@dataclass(frozen=True, slots=True)
class Task:
    """What a network is trained for. `said` are sentences that a user should read before the run.

    `weigh` counts what the loss of some targets is a mean of: points, or labels that are not left out.
    """

    name: str
    loss: Loss
    score: Score
    weigh: Callable[[Tensor], int] = len
    said: tuple[str, ...] = ()


CLASSES = Task("classes", task_loss, Accuracy(right_class))


def task_of(first: First, loss: str | Loss | None = None) -> Task:
    """The task of a model on its data: the loss of this name or function, by default what the targets ask for.

    What cannot fit the first answer of the model is refused here.

    >>> from alive.data import tensors
    >>> from alive.train.points import first
    >>> task = task_of(first(nn.Linear(1, 1), tensors([[0.0], [1.0]], [0.5, 2.0])))
    >>> task.name, task.score.name, task.said
    ('mse', 'r2', ('the targets [2] are real numbers: loss mse, score R²',))
    """
    why = ""
    if loss is None:
        loss, why = _default(first.data, first.output)
    task = _by_name(loss, first.data) if isinstance(loss, str) else _own(loss)
    with torch.no_grad():
        task.loss(first.output, first.y)
    if task.name == "ce":
        for _, y in first.data.parts:
            expect_known(classes_last(tensor_of(first.output), first.y), y)
    taken = "" if task.score.name == "loss" else unclear(first.output)
    said = (why, taken, _constant(first.data) if task.name == "mse" else "")
    return replace(task, said=tuple(each for each in said if each))


def _by_name(name: str, data: Data) -> Task:
    """A task by the name of its loss."""
    if name == CLASSES.name:
        return CLASSES
    loss, y = loss_of(name), data.train_y
    if name == "mse":
        return Task(name, loss, Fit())
    if name == "bce":
        for _, part in data.parts:
            expect_shares(part)
        return Task(name, loss, Accuracy(right_signs))
    if y.dim() == 1:
        return Task(name, loss, Accuracy(right_class))
    copied = not y.is_floating_point() and data.train_x.shape == y.shape
    if copied and bool((data.train_x == y)[y >= 0].all()):
        raise AliveError(
            "the labels are the inputs themselves, word for word, so that copying them would be learned",
            "For a language model give x[:, :-1] as inputs and x[:, 1:] as labels",
        )
    return Task(name, loss, Accuracy(right_labels), counted)


def _own(function: Loss) -> Task:
    """A task by a loss of the user's own: a callable(output, targets) that gives the mean over the points."""
    name = name_of(function)

    def loss(output: Any, y: Tensor) -> Tensor:
        try:
            value = function(output, y)
        except AliveError:
            raise
        except Exception as error:
            raise fault(f"the loss {name} on targets {list(y.shape)}", error) from error
        if not isinstance(value, Tensor) or value.numel() != 1 or not value.is_floating_point():
            shape = f"a tensor {list(value.shape)}" if isinstance(value, Tensor) else f"a {type(value).__name__}"
            raise AliveError(f"the loss {name} gave {shape}, not one number", "Let it return the mean over the points")
        return value.reshape(())

    return Task(name, loss, Cost(loss))


def name_of(loss: str | Loss) -> str:
    """How a loss is called in a checkpoint: its name, or module and name of the function."""
    if isinstance(loss, str):
        return loss
    named = loss if hasattr(loss, "__qualname__") else type(loss)
    return f"{named.__module__}:{named.__qualname__}"


def _default(data: Data, output: Any) -> tuple[str, str]:
    """The loss that the targets ask for, and a note for the user where the choice is not obvious."""
    y, shape = data.train_y, list(data.train_y.shape)
    if data.is_real:
        return "mse", f"the targets {shape} are real numbers: loss mse, score R²"
    if y.dim() == 1:
        return CLASSES.name, ""
    answer = tensor_of(output)
    if answer.dim() == y.dim() + 1 and answer.shape[-1] > 1:
        return "ce", f"each point has labels {shape[1:]}: loss ce, accuracy over all labels"
    if data.classes > 2 or bool((y < 0).any()):
        raise AliveError(
            f"the labels {shape} go up to {data.classes - 1}, and the model gives {list(answer.shape)}",
            "Give a logit for each class, or say --loss mse for numbers to predict",
        )
    if y.dim() == 2 and y.shape[1] > 1 and bool((y.sum(1) == 1).all()):
        raise AliveError(
            f"the labels {shape} have a single 1 in each row, so that they may be classes or yes and no",
            "Give class numbers, y.argmax(1), or say --loss bce for a yes or no each",
        )
    return "bce", f"each point has {shape[1:]} labels 0 or 1: loss bce, accuracy over all labels"


def _constant(data: Data) -> str:
    """Say which part of the training targets R² says nothing about."""
    fixed = int((spreads(data.train_y) == 0).sum())
    every = data.train_y[:1].numel()
    if fixed == every:
        return "the training targets are constant, so that R² is undefined: the loss alone tells"
    return f"{fixed} of {every} targets are constant and have no R²; the mean is over the others" if fixed else ""


def in_vain(task: Task, result: Result, data: Data) -> bool:
    """Whether a whole run has learned next to nothing: less than a tenth of the way from chance to perfect.

    If chance is not known: the loss has fallen by less than a tenth.
    """
    if result.last is None or result.last.train is None:
        return False
    chance = task.score.chance(data.train_y)
    if chance is None:
        return result.last.loss > (1 - LITTLE) * result.rows[0].loss
    return result.last.train < chance + LITTLE * (1 - chance)


@torch.no_grad()
def logits_of(model: nn.Module, *parts: Tensor, read: Callable[[Tensor], Tensor] | None = None) -> tuple[Tensor, ...]:
    """Logits of each part of the points in eval mode, in which the model is left; few points go in one pass.

    `read` makes stored points what the model reads; without it they are that already.
    """
    model.eval()

    def answer(x: Tensor) -> Tensor:
        return tensor_of(model(x if read is None else read(x)))

    sizes = [len(part) for part in parts]
    if sum(sizes) == 0:
        return ()
    if sum(sizes) <= POINTS_AT_ONCE:
        return answer(torch.cat(parts)).split(sizes)  # type: ignore[no-any-return]
    return tuple(torch.cat([answer(some) for some in part.split(POINTS_AT_ONCE)]) for part in parts)
