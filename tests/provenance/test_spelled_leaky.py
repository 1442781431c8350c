"""Leaky and smooth activations written out by hand: not counted, but told; what merely looks like one is not told."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import alive

ROOT_PI = (2 / torch.pi) ** 0.5
SPELLED: dict[str, Callable[[Tensor], Tensor]] = {
    "larger of two": lambda z: torch.maximum(z, 0.1 * z),
    "method": lambda z: z.max(0.01 * z),
    "where": lambda z: torch.where(z > 0, z, 0.2 * z),
    "elu": lambda z: torch.where(z > 0, z, z.exp() - 1),
    "sum with its size": lambda z: 0.6 * z + 0.4 * z.abs(),
    "hard swish": lambda z: z * F.hardsigmoid(z),
    "gelu by erf": lambda z: 0.5 * z * (1 + torch.erf(z / 2**0.5)),
    "gelu by tanh": lambda z: 0.5 * z * (1 + torch.tanh(ROOT_PI * (z + 0.044715 * z**3))),
    "swish with a slope": lambda z: z * torch.sigmoid(torch.full((), 1.7) * z),
}
OTHERS: dict[str, Callable[[Tensor], Tensor]] = {
    "multiple": lambda z: 3 * z,
    "size": torch.abs,
    "tanh": torch.tanh,
    "square": lambda z: z * z,
    "less one": lambda z: z.exp() - 1,
    "root mean square": lambda z: z * torch.rsqrt((z * z).mean(-1, keepdim=True)),
    "tanh times itself": lambda z: z * torch.tanh(z),
    "softmax times itself": lambda z: z * z.softmax(-1),
}


class Spelled(nn.Module):
    def __init__(self, bend: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.first, self.second, self.last = nn.Linear(5, 8), nn.Linear(8, 6), nn.Linear(6, 2)
        self.bend = bend

    def forward(self, x: Tensor) -> Tensor:
        return self.last(F.relu(self.second(self.bend(self.first(x)))))


def told(bend: Callable[[Tensor], Tensor]) -> int:
    torch.manual_seed(0)
    found = alive.census(Spelled(bend), torch.randn(60, 5))
    assert [layer.name for layer in found.layers] == ["relu"]
    return len(found.unseen)


@pytest.mark.parametrize("name", SPELLED)
def test_what_lets_one_side_through_less_is_told(name: str) -> None:
    assert told(SPELLED[name]) == 1


@pytest.mark.parametrize("name", OTHERS)
def test_what_merely_looks_like_it_is_not(name: str) -> None:
    assert told(OTHERS[name]) == 0
