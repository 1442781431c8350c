"""Leaky and smooth activations written out by hand: counted, or told; what merely looks like one is neither."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import alive

ROOT_PI = (2 / torch.pi) ** 0.5
SPELLED: dict[str, tuple[str, Callable[[Tensor], Tensor]]] = {
    "larger of two": ("leaky_relu", lambda z: torch.maximum(z, 0.1 * z)),
    "method": ("leaky_relu", lambda z: z.max(0.01 * z)),
    "where": ("leaky_relu", lambda z: torch.where(z > 0, z, 0.2 * z)),
    "elu": ("elu", lambda z: torch.where(z > 0, z, z.exp() - 1)),
    "sum with its size": ("leaky_relu", lambda z: 0.6 * z + 0.4 * z.abs()),
    "hard swish": ("hardswish", lambda z: z * F.hardsigmoid(z)),
    "gelu by erf": ("gelu", lambda z: 0.5 * z * (1 + torch.erf(z / 2**0.5))),
    "gelu by tanh": ("gelu", lambda z: 0.5 * z * (1 + torch.tanh(ROOT_PI * (z + 0.044715 * z**3)))),
    "swish with a slope": ("silu", lambda z: z * torch.sigmoid(torch.full((), 1.5) * z)),
}
SLOPES = torch.linspace(0.1, 0.3, 8)
HIDDEN: dict[str, tuple[str, Callable[[Tensor], Tensor]]] = {
    "a slope for each unit": ("a leaky or smooth ReLU by where", lambda z: torch.where(z > 0, z, SLOPES * z)),
    "torch's own operators": (
        "a leaky or smooth ReLU by mul",
        lambda z: torch.ops.aten.mul(z, torch.ops.aten.sigmoid(z)),
    ),
    "an operator of that name": ("silu", torch.ops.aten.silu),
    "a ReLU, then a factor": ("relu", lambda z: 0.5 * torch.ops.aten.relu(z)),
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


def census_of(bend: Callable[[Tensor], Tensor]) -> alive.Census:
    torch.manual_seed(0)
    return alive.census(Spelled(bend), torch.randn(60, 5))


@pytest.mark.parametrize("name", SPELLED)
def test_what_is_spelled_out_is_counted_as_what_it_is(name: str) -> None:
    activation, bend = SPELLED[name]
    found = census_of(bend)
    assert [layer.name for layer in found.layers] == [activation, "relu"]
    assert not found.unseen
    torch.manual_seed(0)
    model = Spelled(bend)
    z = model.first(torch.randn(60, 5))
    torch.testing.assert_close(found.layers[0].top, z.amax(0).detach())


@pytest.mark.parametrize("name", HIDDEN)
def test_what_is_noticed_by_its_values_alone_is_told_once_with_its_line(name: str) -> None:
    kind, bend = HIDDEN[name]
    found = census_of(bend)
    assert [layer.name for layer in found.layers] == ["relu"]
    (unseen,) = found.unseen
    assert unseen.name.startswith(kind)
    assert "test_spelled_leaky.py:" in f"{unseen.name} {unseen.why}"


LARGER: dict[str, Callable[[Tensor], Tensor]] = {
    "amax": lambda z: torch.stack([z, torch.zeros_like(z)]).amax(0),
    "max": lambda z: torch.stack([torch.zeros_like(z), z], -1).max(-1).values,
    "min": lambda z: -torch.cat([-z[None], z.new_zeros(1, *z.shape)]).min(0)[0],
}


@pytest.mark.parametrize("name", LARGER)
@pytest.mark.parametrize("shift", [-9.0, 0.0, 9.0])
def test_the_larger_of_data_and_zeros_is_told_once_whatever_the_values(name: str, shift: float) -> None:
    found = census_of(lambda z: LARGER[name](z + torch.full((8,), shift)))
    assert [layer.name for layer in found.layers] == ["relu"]
    (unseen,) = found.unseen
    assert unseen.name.startswith(f"a ReLU by {name}")


@pytest.mark.parametrize("name", OTHERS)
def test_what_merely_looks_like_it_is_not(name: str) -> None:
    found = census_of(OTHERS[name])
    assert [layer.name for layer in found.layers] == ["relu"]
    assert not found.unseen
