"""Batch norms that have seen no data: in eval mode they do nothing, in training they normalise."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import torch
from torch import nn

from ..data import calls, read
from ..errors import AliveError
from ..torch_private import BatchNorm


def fresh_norms(model: nn.Module) -> Iterator[str]:
    """The paths of batch norms that keep running statistics and have none yet."""
    return (path for path, module in model.named_modules() if _is_fresh(module))


def _is_fresh(module: nn.Module) -> bool:
    if not isinstance(module, BatchNorm) or module.running_mean is None or module.num_batches_tracked is None:
        return False
    seen = module.num_batches_tracked
    return not seen.is_meta and int(seen) == 0


def settle(model: nn.Module, data: Any, *, forward: Callable[[nn.Module, Any], Any] | None = None) -> None:
    """Let fresh batch norms take the mean and spread of all the data, as they do in the first steps of training."""
    fresh = [module for module in model.modules() if isinstance(module, BatchNorm) and _is_fresh(module)]
    if not fresh:
        return
    with _let_learn(fresh), torch.no_grad(), suppress(AliveError):  # a batch of one point has no spread
        for number, batch in enumerate(read(data, model)):
            calls.run(model, batch, number, forward)


@contextmanager
def _let_learn(norms: list[BatchNorm]) -> Iterator[None]:
    """These norms alone in training mode, with the mean over all batches for running statistics."""
    was = [(norm, norm.training, norm.momentum) for norm in norms]
    for norm in norms:
        norm.train()
        norm.momentum = None
    try:
        yield
    finally:
        for norm, training, momentum in was:
            norm.train(training)
            norm.momentum = momentum
