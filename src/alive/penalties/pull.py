"""How hard a penalty pulls at the weights, compared with the task."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ..errors import AliveError
from .jumpstart import Jumpstart


def pull(model: nn.Module, keep: Jumpstart, loss: Tensor) -> float:
    """The norm of the penalty's gradient over all weights, relative to that of the task's loss.

    Call it after a forward pass in training mode, in place of `keep.penalty()`. Far above 1 the weights follow the
    penalty and the task is drowned; where the task has nothing left to learn, any penalty looks large.

    >>> model = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 1))
    >>> with Jumpstart(model, weight=0.0) as keep:
    ...     pull(model, keep, model(torch.randn(8, 2)).square().mean())
    0.0
    """
    if not isinstance(loss, Tensor) or loss.numel() != 1 or not loss.requires_grad:
        raise AliveError("pull needs the loss of the task, one number with a gradient", "Give it before backward()")
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    penalty, task = (_norm(part, weights) for part in (keep.penalty(), loss))
    return penalty / task if task else math.inf if penalty else 0.0


def _norm(part: Tensor, weights: Sequence[Tensor]) -> float:
    """The norm of a gradient over all weights, in double precision."""
    if not part.requires_grad:
        return 0.0
    found = torch.autograd.grad(part.reshape(()), weights, retain_graph=True, allow_unused=True)
    return math.hypot(*(float(torch.linalg.vector_norm(g.double())) for g in found if g is not None))
