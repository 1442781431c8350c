"""The task of a network: its loss, its logits on many points, its accuracy."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..errors import AliveError

POINTS_AT_ONCE = 1000  # so that the memory for a large data set stays bounded


def task_loss(logits: Tensor, y: Tensor) -> Tensor:
    """Binary cross-entropy for one logit [N, 1], else cross-entropy of [N, classes].

    >>> task_loss(torch.zeros(3, 1), torch.tensor([0, 1, 1]))
    tensor(0.6931)
    """
    if not isinstance(logits, Tensor):
        raise AliveError(f"the model gave a {type(logits).__name__}, not logits", "It must give [N, Data.outputs]")
    if logits.dim() != 2 or len(logits) != len(y) or y.max() >= max(2, logits.shape[1]):
        raise AliveError(
            f"the model gave logits {list(logits.shape)} for {len(y)} points with labels up to {int(y.max())}",
            "It must give [N, Data.outputs]",
        )
    if logits.shape[1] == 1:
        return F.binary_cross_entropy_with_logits(logits[:, 0], y.to(logits.dtype))
    return F.cross_entropy(logits, y)


def accuracy(logits: Tensor, y: Tensor) -> float:
    """Part of the points whose label the logits name.

    >>> accuracy(torch.tensor([[2.0], [-1.0], [0.5], [3.0]]), torch.tensor([1, 0, 0, 1]))
    0.75
    """
    named = (logits[:, 0] > 0).long() if logits.shape[1] == 1 else logits.argmax(1)
    return (named == y).double().mean().item()


@torch.no_grad()
def logits_of(model: nn.Module, *parts: Tensor, read: Callable[[Tensor], Tensor] | None = None) -> tuple[Tensor, ...]:
    """Logits of each part of the points in eval mode, in which the model is left; few points go in one pass.

    `read` makes stored points what the model reads; without it they are that already.
    """
    model.eval()
    answer = model if read is None else lambda x: model(read(x))
    sizes = [len(part) for part in parts]
    if sum(sizes) == 0:
        return ()
    if sum(sizes) <= POINTS_AT_ONCE:
        return answer(torch.cat(parts)).split(sizes)  # type: ignore[no-any-return]
    return tuple(torch.cat([answer(some) for some in part.split(POINTS_AT_ONCE)]) for part in parts)
