"""Networks with planted units: dead, linear, constant, multiple, unread. Nothing here uses alive."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass
class Planted:
    """A network, and which units of which layer must go, by reason."""

    net: nn.Module
    shape: tuple[int, ...]
    units: dict[str, dict[int, str]] = field(default_factory=dict)


def seeded(net: nn.Module, seed: int, dtype: torch.dtype) -> nn.Module:
    """Random weights, such that nothing is dead or linear by chance on inputs in [-1, 1]."""
    chance = torch.Generator().manual_seed(seed)
    for module in net.modules():
        if isinstance(module, nn.Linear | nn.Conv1d | nn.Conv2d):
            with torch.no_grad():
                fan = module.weight[0].numel()
                module.weight.copy_(torch.randn(module.weight.shape, generator=chance) * (2 / fan) ** 0.5)
                if module.bias is not None:
                    module.bias.copy_(0.1 * torch.randn(module.bias.shape, generator=chance))
    return net.to(dtype).eval()


def kill(layer: nn.Module, unit: int) -> None:
    with torch.no_grad():
        layer.bias[unit] = -1000.0


def lift(layer: nn.Module, unit: int, by: float = 50.0) -> None:
    with torch.no_grad():
        layer.bias[unit] = by


def still(layer: nn.Module, unit: int, value: float) -> None:
    with torch.no_grad():
        layer.weight[unit] = 0.0
        layer.bias[unit] = value


def copy(layer: nn.Module, unit: int, of: int, factor: float) -> None:
    with torch.no_grad():
        layer.weight[unit] = factor * layer.weight[of]
        layer.bias[unit] = factor * layer.bias[of]


def forget(layer: nn.Module, column: int) -> None:
    with torch.no_grad():
        layer.weight[:, column] = 0.0


def dense(seed: int, dtype: torch.dtype = torch.float64) -> Planted:
    """Two hidden layers: dead, constant, multiple and unread ones, and more linear ones than there are inputs."""
    net = seeded(
        nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 12), nn.ReLU(), nn.Linear(12, 3)), seed, dtype
    )
    first, second = net[0], net[2]
    kill(first, 1), still(first, 2, 0.5), still(first, 3, -0.5), copy(first, 5, 4, 2.5), forget(second, 6)
    for unit in range(8, 15):  # seven linear units of four inputs: four are enough
        lift(first, unit)
    kill(second, 0), copy(second, 7, 3, 0.25)
    with torch.no_grad():
        second.bias -= 50.0 * second.weight[:, 8:15].sum(1) * (second.bias > -999)  # what was lifted does not drown it
    copy(second, 7, 3, 0.25)
    units = {
        "0": {1: "dead", 2: "constant", 3: "dead", 5: "multiple", 6: "unread"},
        "2": {0: "dead", 7: "multiple"},
    }
    return Planted(net, (4,), units)


class Residual(nn.Module):
    """Two blocks on 6 channels; what is added has its channels in common."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Linear(5, 6)
        self.a, self.b = nn.Linear(6, 8), nn.Linear(8, 6)
        self.c, self.d = nn.Linear(6, 8), nn.Linear(8, 6)
        self.head = nn.Linear(6, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.stem(x))
        x = F.relu(x + self.b(F.relu(self.a(x))))
        x = F.relu(x + self.d(torch.relu(self.c(x))))
        return self.head(x)


def residual(seed: int, dtype: torch.dtype = torch.float64) -> Planted:
    """Channel 2 is dead on all branches, channel 4 only on some."""
    net = seeded(Residual(), seed, dtype)
    for layer in (net.stem, net.b, net.d):
        kill(layer, 2)
    kill(net.stem, 4), kill(net.b, 4)
    with torch.no_grad():
        net.d.weight[4].abs_()  # of numbers that are not negative: alive
    kill(net.a, 3), still(net.c, 1, 0.75)
    units = {"a": {3: "dead"}, "c": {1: "constant"}, "stem": {2: "dead"}, "b": {2: "dead"}, "d": {2: "dead"}}
    return Planted(net, (5,), units)


class Conv(nn.Module):
    """Convolutions with batch norm, pooling, dropout, a depthwise and a grouped one, flatten and a dense layer."""

    def __init__(self, activation: nn.Module, padding: int, pool: nn.Module) -> None:
        super().__init__()
        self.a, self.norm = nn.Conv2d(2, 8, 3, padding=padding), nn.BatchNorm2d(8)
        self.deep = nn.Conv2d(8, 8, 3, padding=padding, groups=8)
        self.b = nn.Conv2d(8, 8, 1)
        self.grouped = nn.Conv2d(8, 6, 3, padding=padding, groups=2)
        self.act, self.pool, self.drop = activation, pool, nn.Dropout()
        side = 10 - 6 * (1 - padding)
        self.out = nn.Linear(6 * (side // 2) ** 2, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.act(self.norm(self.a(x)))
        x = self.act(self.deep(x))
        x = self.act(self.b(x))
        x = self.pool(self.act(self.grouped(x)))
        return self.out(self.drop(x.flatten(1)))


def conv(seed: int, activation: nn.Module, padding: int, pool: nn.Module, dtype: torch.dtype) -> Planted:
    net = seeded(Conv(activation, padding, pool), seed, dtype)
    chance = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        net.norm.running_mean.copy_(torch.randn(8, generator=chance))
        net.norm.running_var.copy_(0.5 + torch.rand(8, generator=chance))
        net.norm.weight.copy_(0.5 + torch.rand(8, generator=chance))
    with torch.no_grad():
        net.norm.bias[3] = -1000.0  # dead behind the norm ...
        net.deep.bias[3] = -1000.0  # ... and behind its depthwise kernel
    kill(net.b, 1), kill(net.b, 5), kill(net.grouped, 0), kill(net.grouped, 4)
    units = {
        "a": {3: "dead"},
        "deep": {3: "dead"},
        "b": {1: "dead", 5: "dead"},  # one in each group that reads them
        "grouped": {0: "dead", 4: "dead"},
    }
    return Planted(net, (2, 10, 10), units)
