"""Residual models as people write them, and how their gates are found."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from alive.nn.van import Gate


class Basic(nn.Module):
    """A residual block as most people write it: in-place ReLU, `+=`, a projection where the size changes."""

    def __init__(self, inputs: int, outputs: int, stride: int = 1) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.downsample = None
        if stride > 1 or inputs != outputs:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x: Tensor) -> Tensor:
        identity = x
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        if self.downsample is not None:
            identity = self.downsample(x)
        out += identity
        return self.relu(out)


class Net(nn.Module):
    """Two stages of two blocks; its own forward asks for a shape, so that it must stay as it is."""

    def __init__(self, classes: int = 10, base: int = 4) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, base, 3, 1, 1, bias=False), nn.BatchNorm2d(base), nn.ReLU(inplace=True))
        self.layer1 = nn.Sequential(Basic(base, base), Basic(base, base))
        self.layer2 = nn.Sequential(Basic(base, 2 * base, 2), Basic(2 * base, 2 * base))
        self.fc = nn.Linear(2 * base, classes)

    def forward(self, x: Tensor) -> Tensor:
        if x.dim() != 4:
            raise ValueError("images, please")
        return self.fc(F.adaptive_avg_pool2d(self.layer2(self.layer1(self.stem(x))), 1).flatten(1))


class Written(nn.Module):
    """One block, its forward given as a function of (self, x)."""

    def __init__(self, forward, **children: nn.Module) -> None:
        super().__init__()
        self.said = forward
        for name, child in children.items():
            self.add_module(name, child)

    def forward(self, x: Tensor) -> Tensor:
        return self.said(self, x)


def gates(model: nn.Module) -> dict[str, Gate]:
    return {path: module for path, module in model.named_modules() if isinstance(module, Gate)}


def opened(model: nn.Module, alpha: float = 1.0) -> nn.Module:
    for gate in gates(model).values():
        nn.init.constant_(gate.alpha, alpha)
    return model


def lived(model: nn.Module, x: Tensor) -> nn.Module:
    """Batch norms with statistics of their own and weights away from their start."""
    for module in model.modules():
        if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d):
            nn.init.uniform_(module.weight, 0.5, 1.5)
            nn.init.normal_(module.bias)
    for _ in range(3):
        model.train()(x)
    return model.eval()


def branch() -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 3, 3, padding=1), nn.ReLU(), nn.Conv2d(3, 3, 3, padding=1))


def by_value(self, x):
    return self.f(x) + self.shortcut(x) if x.sum() > -1e9 else x


class Shapeless(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3, 3))

    def forward(self, x: Tensor) -> Tensor:
        return x + x @ self.weight
