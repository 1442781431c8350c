"""Models for conversion, and what is asked of one: what was converted, what was kept, whether the guarantee holds."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from alive import census
from alive.nn.farkas import guarantees
from alive.surgery.farkas import FarkasSurgery


class Block(nn.Module):
    """A residual block as written by hand, all ReLUs in place."""

    def __init__(self, width: int, *, norm: bool) -> None:
        super().__init__()
        self.conv1, self.conv2 = (nn.Conv2d(width, width, 3, padding=1, bias=not norm) for _ in range(2))
        self.bn1, self.bn2 = (nn.BatchNorm2d(width) if norm else nn.Identity() for _ in range(2))
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        out += x
        return self.relu(out)


class HandMade(nn.Module):
    def __init__(self, *, norm: bool = False) -> None:
        super().__init__()
        self.stem = nn.Conv2d(1, 6, 3, padding=1)
        self.blocks = nn.Sequential(Block(6, norm=norm), Block(6, norm=norm))
        self.head = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.blocks(F.relu(self.stem(x), inplace=True))
        return self.head(x.mean((2, 3)))


def reasons(done: FarkasSurgery) -> dict[str, str]:
    return {kept.layer: kept.reason for kept in done.kept}


def layers(done: FarkasSurgery) -> list[str]:
    return [converted.layer for converted in done.converted]


def holds(model: nn.Module, x: Tensor) -> None:
    """In every converted layer, at every point, one unit is above the cutoff: seen by an independent census."""
    bounds = guarantees(model)
    assert bounds
    assert min(bounds.values()) > 9e-4
    assert census(model, x).points.dead == 0
