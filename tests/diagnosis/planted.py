"""Models with units planted dead or linear, that keep their pre-activations by hand as [N, positions, C]."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
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


SIGNALS = ("signal", "input", "output")


def counted(record: dict[str, Any]) -> dict[str, Any]:
    """What a census has counted: all but the sums, which round differently in another order."""
    layers = [{key: value for key, value in layer.items() if key != "signal"} for layer in record["layers"]]
    rest = {key: value for key, value in record.items() if key not in SIGNALS}
    return {**rest, "gone": bool(record["gone"]), "layers": layers}


def signals(record: dict[str, Any]) -> list[dict[str, Any]]:
    """Of input, layers and output; −1 for what is unknown."""
    found = [record["input"] or {}, *(layer["signal"] for layer in record["layers"]), record["output"] or {}]
    return [{key: -1.0 if value is None else value for key, value in each.items()} for each in found]


def same(a: Census, b: Census) -> None:
    ours, theirs = a.to_dict(), b.to_dict()
    assert counted(ours) == counted(theirs)
    for one, other in zip(signals(ours), signals(theirs), strict=True):
        ranks = one.pop("rank", 0.0), other.pop("rank", 0.0)
        assert one == pytest.approx(other, rel=0.01, abs=1e-6)
        if one.get("spread", 0.0) > 1e-3:  # where points have merged, directions are those of rounding
            assert ranks[0] == pytest.approx(ranks[1], rel=0.05)
    for one, other in zip(a.layers, b.layers, strict=True):
        torch.testing.assert_close(one.top, other.top, rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(one.bottom, other.bottom, rtol=1e-5, atol=1e-6)
