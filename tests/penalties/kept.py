"""Models that keep by hand what they feed to their activations, and the slow way to a penalty and its gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from alive.errors import AliveError
from alive.functional import Separation, aggregate, separation
from alive.penalties import Jumpstart

Grads = dict[str, Tensor]


class Kept(nn.Module):
    """A model that can keep, by hand, a copy of what it feeds to each activation."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: list[Tensor] | None = None

    def keep(self, z: Tensor) -> Tensor:
        if self.kept is not None:
            self.kept.append(z.clone())
        return z


class Dense(Kept):
    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.a, self.b, self.c = nn.Linear(3, 6), nn.Linear(6, 5), nn.Linear(5, 2)
        self.inplace = inplace

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.keep(self.a(x)), inplace=self.inplace)
        x = F.relu(self.keep(self.b(x)), inplace=self.inplace)
        return self.c(x)


class Conv(Kept):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.norm, self.b, self.c = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Conv2d(4, 5, 2), nn.Linear(5, 2)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        x = self.relu(self.keep(self.norm(self.a(x))))
        return self.c(self.relu(self.keep(self.b(x))).mean((2, 3)))


class Block(Kept):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.a, self.b = nn.Conv2d(width, width, 3, padding=1), nn.Conv2d(width, width, 3, padding=1)
        self.na, self.nb, self.relu = nn.BatchNorm2d(width), nn.BatchNorm2d(width), nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        y = self.nb(self.b(self.relu(self.keep(self.na(self.a(x))))))
        y += x
        return self.relu(self.keep(y))


class ResNet(Kept):
    """In-place ReLUs, one module for several uses, skips: as torchvision writes it."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.norm, self.relu = nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(inplace=True)
        self.blocks, self.head = nn.Sequential(Block(4), Block(4)), nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = self.relu(self.keep(self.norm(self.stem(x))))
        return self.head(self.blocks(x).mean((2, 3)))


class Sequence(Kept):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(3, 4), nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.b(F.relu(self.keep(self.a(x)))).mean(1)


MODELS: dict[str, tuple[Callable[[], Kept], tuple[int, ...], int]] = {
    "dense": (Dense, (7, 3), 1),
    "dense in place": (lambda: Dense(inplace=True), (7, 3), 1),
    "conv": (Conv, (5, 3, 6, 6), 1),
    "resnet": (ResNet, (5, 3, 6, 6), 1),
    "sequence": (Sequence, (5, 6, 3), -1),
}


def grads(model: nn.Module) -> Grads:
    found = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    model.zero_grad(set_to_none=True)
    return found


def close(a: Grads, b: Grads, **tolerance: float) -> None:
    assert a.keys() == b.keys()
    for name in a:
        torch.testing.assert_close(a[name], b[name], msg=lambda text, name=name: f"{name}: {text}", **tolerance)


def by_hand(model: Kept, x: Tensor, unit_axis: int, rule: dict[str, Any]) -> tuple[Tensor, Tensor]:
    """Output and penalty from pre-activations kept by hand and plain autograd."""
    kept: list[Tensor] = []
    for module in model.modules():
        if isinstance(module, Kept):
            module.kept = kept
    y = model(x)
    for module in model.modules():
        if isinstance(module, Kept):
            module.kept = None
    options = {key: value for key, value in rule.items() if key != "aggregate"}
    slacks = [separation.slacks(z, Separation(**options), unit_axis=unit_axis) for z in kept]
    return y, aggregate(slacks, rule.get("aggregate", "meansq"))


def step(model: nn.Module, x: Tensor, **rule: Any) -> tuple[Tensor, Grads]:
    torch.manual_seed(5)
    with Jumpstart(model, 1.0, **rule) as keep:
        y = model(x)
        penalty = keep.penalty()
        (y.square().mean() + penalty).backward()
        with pytest.raises(AliveError, match="no forward pass"):
            keep.penalty()  # what backward ran again is no pass of its own
    return penalty.detach(), grads(model)
