"""Models with units planted dead or linear, that keep their pre-activations by hand as [N, positions, C]."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from alive.diagnosis import Census


class Kept(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.kept: list[Tensor] | None = None

    def keep(self, z: Tensor, unit_axis: int) -> Tensor:
        if self.kept is not None:
            self.kept.append(z.detach().movedim(unit_axis, -1).reshape(len(z), -1, z.shape[unit_axis]).clone())
        return z


class Dense(Kept):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(3 if i == 0 else 4, 4) for i in range(4))
        self.out = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = F.relu(self.keep(layer(x), 1), inplace=True)
        return self.out(x)


class Conv(Kept):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Conv2d(3 if i == 0 else 4, 4, 2) for i in range(3))
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        x = x.view(-1, 3, 1, 1).expand(-1, 3, 4, 4) * torch.arange(16.0).view(4, 4) / 8
        for layer in self.layers:
            x = self.relu(self.keep(layer(x), 1))
        return x


class Sequence(Kept):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(1 if i == 0 else 4, 4) for i in range(3))

    def forward(self, x: Tensor) -> Tensor:
        x = x.unsqueeze(2)  # [N, T=3, 1]
        for layer in self.layers:
            x = torch.relu(self.keep(layer(x), -1))
        return x


class Residual(Kept):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(3, 3) for i in range(4))
        self.norm, self.relu = nn.BatchNorm1d(3), nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        for a, b in zip(self.layers[::2], self.layers[1::2], strict=True):
            y = self.norm(b(self.relu(self.keep(a(x), 1))))
            y += x
            x = self.relu(self.keep(y, 1))
        return x


KINDS: list[Callable[[], Kept]] = [Dense, Conv, Sequence, Residual]


def planted(kind: Callable[[], Kept], seed: int) -> Kept:
    """A random model with some units, and sometimes a whole layer, planted dead or linear."""
    torch.manual_seed(seed)
    model = kind().eval()
    for layer in model.layers:
        fate = int(torch.randint(4, ()))
        with torch.no_grad():
            layer.bias += [0.0, -0.5, 0.5, 0.0][fate]
            layer.bias[0] += [-9.0, 0.0, 9.0, -9.0][fate]
            if torch.rand(()) < 0.15:
                layer.bias -= 20.0
    return model


def same(a: Census, b: Census) -> None:
    assert a.to_dict() == b.to_dict()
    for one, other in zip(a.layers, b.layers, strict=True):
        torch.testing.assert_close(one.top, other.top, rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(one.bottom, other.bottom, rtol=1e-5, atol=1e-6)
