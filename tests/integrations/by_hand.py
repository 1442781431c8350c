"""What every trainer is compared with: a plain loop, written by hand, with the same model, data and order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from alive import Jumpstart

BATCH, EPOCHS, LR = 8, 2, 0.05
X = torch.randn(32, 3, generator=torch.Generator().manual_seed(5))
Y = (X.sum(1) > 0).long()


def network(seed: int = 3) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(3, 6), nn.ReLU(), nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 2))


def trained_by_hand(
    model: nn.Module,
    options: dict[str, Any],
    *,
    epochs: int = EPOCHS,
    fraction: Callable[[int, int], float] = lambda step, steps: step / steps,
    together: int = 1,
    call: Callable[[Any, Tensor], Tensor] = lambda model, x: model(x),
) -> tuple[list[float], dict[str, Any]]:
    """SGD over the data in order, `together` batches a step: the penalty of each batch, and the keeper's last state."""
    optimiser = torch.optim.SGD(model.parameters(), lr=LR)
    batches = list(zip(X.split(BATCH), Y.split(BATCH), strict=True))
    per_epoch, found = len(batches) // together, []
    with Jumpstart(model, **options) as keep:
        for epoch in range(epochs):
            for number, (x, y) in enumerate(batches):
                keep.set_progress(fraction(epoch * per_epoch + number // together, epochs * per_epoch))
                loss = nn.functional.cross_entropy(call(model, x), y)
                penalty = keep.penalty()
                found.append(penalty.item())
                ((loss + penalty) / together).backward()
                if (number + 1) % together == 0:
                    optimiser.step()
                    optimiser.zero_grad()
        return found, keep.state_dict()


def weights(model: nn.Module) -> list[Tensor]:
    return [value.detach().clone() for value in model.state_dict().values()]


def same(left: list[Tensor], right: list[Tensor]) -> bool:
    """To the bit."""
    return len(left) == len(right) and all(torch.equal(a, b) for a, b in zip(left, right, strict=True))
