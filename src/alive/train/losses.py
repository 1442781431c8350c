"""The losses a network is trained with, each of whatever the model gives and the targets; shapes never broadcast."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from torch import Tensor
from torch.nn import functional as F

from ..data.faults import IGNORED
from ..errors import AliveError, expect_one_of

Loss = Callable[[Any, Tensor], Tensor]  # output of the model, targets: a scalar, the mean over the points


def tensor_of(output: Any) -> Tensor:
    """What a model answers: the tensor itself, the output's `logits` if it has them, else its first tensor of floats.

    >>> import torch
    >>> tensor_of({"hidden": torch.zeros(2), "logits": torch.ones(2)})
    tensor([1., 1.])
    """
    if isinstance(output, Tensor) and output.is_floating_point():
        return output
    if isinstance(named := _logits(output), Tensor):
        return named
    found = next(_tensors(output), None)
    if found is None:
        kind = f"tensor of {output.dtype}" if isinstance(output, Tensor) else type(output).__name__
        raise AliveError(
            f"the model gave a {kind}, not logits",
            "It must give a tensor of floats, or something that holds one",
        )
    return found


def unclear(output: Any) -> str:
    """Say which tensor is taken where a model gives several and none is called logits; else nothing."""
    if isinstance(output, Tensor) or isinstance(_logits(output), Tensor):
        return ""
    found = list(_tensors(output))
    held = output if isinstance(output, Mapping) else vars(output) if hasattr(output, "__dict__") else {}
    first = next((repr(name) for name, value in held.items() if found and value is found[0]), "the first")
    return f"the model gives {len(found)} tensors in a {type(output).__name__}; {first} is trained" * (len(found) > 1)


def cross_entropy(output: Any, targets: Tensor) -> Tensor:
    """Cross-entropy: logits [N, classes] for labels [N]; [N, T, classes] or [N, classes, T] for [N, T], -100 left out.

    >>> import torch
    >>> cross_entropy(torch.zeros(2, 3, 5), torch.tensor([[0, 4, -100], [1, -100, -100]]))
    tensor(1.6094)
    """
    logits = tensor_of(output)
    _expect_labels("cross-entropy", targets, "mse")
    logits = classes_last(logits, targets)
    if targets.dim() == 1:
        return F.cross_entropy(logits, targets)
    summed = F.cross_entropy(logits.flatten(0, -2), targets.flatten(), ignore_index=IGNORED, reduction="sum")
    return summed / counted(targets)


def binary_cross_entropy(output: Any, targets: Tensor) -> Tensor:
    """Binary cross-entropy of one logit for each target, which is 0, 1, or between.

    >>> import torch
    >>> binary_cross_entropy(torch.zeros(2, 3), torch.tensor([[0, 1, 1], [0, 0, 1]]))
    tensor(0.6931)
    """
    logits, y = paired(tensor_of(output), targets, "bce")
    expect_shares(y)
    return F.binary_cross_entropy_with_logits(logits, y)


def squared_error(output: Any, targets: Tensor) -> Tensor:
    """The mean over all numbers of the squared difference.

    >>> import torch
    >>> squared_error(torch.tensor([[1.0], [2.0]]), torch.tensor([1.0, 4.0]))
    tensor(2.)
    """
    return F.mse_loss(*paired(tensor_of(output), targets, "mse"))


LOSSES: dict[str, Loss] = {"ce": cross_entropy, "bce": binary_cross_entropy, "mse": squared_error}


def loss_of(spec: str) -> Loss:
    """The loss of this name.

    >>> loss_of("mes")
    Traceback (most recent call last):
    ...
    alive.errors.AliveError: unknown loss 'mes'. did you mean 'mse'? Known: ce, bce, mse, mine:loss.
    """
    expect_one_of("loss", spec, [*LOSSES, "mine:loss"])
    if spec not in LOSSES:
        raise AliveError("mine:loss stands for a function of your own", "Give the function itself")
    return LOSSES[spec]


def paired(output: Tensor, targets: Tensor, loss: str) -> tuple[Tensor, Tensor]:
    """Outputs and targets as floats of one shape; only a last axis of length 1 may be missing on either side."""
    a, b = output, targets
    if a.dim() == b.dim() + 1 and a.shape[-1] == 1:
        a = a[..., 0]
    elif b.dim() == a.dim() + 1 and b.shape[-1] == 1:
        b = b[..., 0]
    if a.shape != b.shape:
        given = f"the model gave {list(output.shape)} for targets {list(targets.shape)}"
        raise AliveError(f"{given}, and the loss {loss} needs one number for each", _cure(output, targets))
    return a, b.to(a.dtype)


def classes_last(logits: Tensor, labels: Tensor) -> Tensor:
    """Logits [..., classes] for labels [...]; torch's own order [N, classes, ...] is turned."""
    last = logits.dim() == labels.dim() + 1 and logits.shape[:-1] == labels.shape
    second = (
        logits.dim() == labels.dim() + 1 > 2
        and logits.shape[0] == labels.shape[0]
        and logits.shape[2:] == labels.shape[1:]
    )
    if last and second:
        raise AliveError(
            f"logits {list(logits.shape)} for labels {list(labels.shape)} may have their classes last or second",
            "Give a loss of your own that says which: --loss mine:loss",
        )
    if not (last or second):
        raise AliveError(
            f"the model gave logits {list(logits.shape)} for labels {list(labels.shape)}",
            f"Cross-entropy needs [{', '.join(['N', *map(str, labels.shape[1:])])}, classes]",
        )
    logits = logits if last else logits.movedim(1, -1)
    if logits.shape[-1] < 2:
        raise AliveError("cross-entropy needs a logit for each class, and the model gives one", "Use --loss bce")
    expect_known(logits, labels)
    return logits


def expect_known(logits: Tensor, labels: Tensor) -> None:
    """Refuse labels that no logit stands for."""
    if labels.numel() and int(labels.max()) >= logits.shape[-1]:
        raise AliveError(
            f"the model gave logits for {logits.shape[-1]} classes, and labels go up to {int(labels.max())}",
            "It must give a logit for each class; labels are numbered from 0",
        )


def expect_shares(y: Tensor) -> None:
    """Refuse targets that are no answers to yes-or-no questions."""
    if bool((y < 0).any() | (y > 1).any()):
        raise AliveError(
            f"binary cross-entropy needs targets from 0 to 1, got {y.min().item():g} to {y.max().item():g}",
            "Use --loss ce for class numbers, --loss mse for numbers to predict",
        )


def counted(labels: Tensor) -> int:
    """Labels that are not left out, at least one so that a mean over none is 0."""
    return max(1, int((labels != IGNORED).sum()))


def _expect_labels(what: str, targets: Tensor, instead: str) -> None:
    if targets.is_floating_point():
        raise AliveError(
            f"{what} needs class numbers, and the targets {list(targets.shape)} are real", f"Use --loss {instead}"
        )


def _cure(output: Tensor, targets: Tensor) -> str:
    if not targets.is_floating_point() and output.dim() == targets.dim() + 1:
        return "Use --loss ce for class numbers"
    shape = "[N] or [N, 1]" if targets.dim() == 1 else f"[{', '.join(['N', *map(str, targets.shape[1:])])}]"
    return f"Let it give {shape}, or change the targets"


def _logits(output: Any) -> Any:
    return output.get("logits") if isinstance(output, Mapping) else getattr(output, "logits", None)


def _tensors(output: Any) -> Iterator[Tensor]:
    """All tensors of floats that a model's output holds, in order."""
    if isinstance(output, Tensor):
        if output.is_floating_point():
            yield output
    elif isinstance(output, Mapping):
        for value in output.values():
            yield from _tensors(value)
    elif isinstance(output, list | tuple):
        for value in output:
            yield from _tensors(value)
    elif hasattr(output, "__dataclass_fields__"):
        for name in output.__dataclass_fields__:
            yield from _tensors(getattr(output, name))
