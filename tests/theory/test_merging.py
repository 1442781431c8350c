"""Closed forms of spread and gradient, and the trial of merging, against networks run one by one in plain torch."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from alive.errors import AliveError
from alive.nn import Rectangular
from alive.theory import arriving, birth, spreads


def points(count: int, inputs: int) -> Tensor:
    return torch.randn(count, inputs, generator=torch.Generator().manual_seed(0)).double() + 0.5


def by_hand(model: Rectangular, x: Tensor) -> list[Tensor]:
    """The pre-activations of every hidden layer."""
    kept, h = [], x
    for layer in model.hidden.children():
        kept.append(layer.get_submodule("linear")(h))
        h = kept[-1].relu()
    return [*kept, model.output(h)]


def spread(z: Tensor) -> float:
    return float((z.var(0, correction=0).sum() / z.square().mean(0).sum()).sqrt())


def network(init: str, depth: int, width: int, seed: int) -> Rectangular:
    chance = torch.Generator().manual_seed(seed)
    return Rectangular(8, 3, depth=depth, width=width, init=init, generator=chance).double()


@pytest.mark.law
@pytest.mark.parametrize("init", ["glorot", "kaiming", "torch"])
def test_the_spread_of_wide_networks(init: str) -> None:
    x, depth, width = points(40, 8), 8, 1024
    found = [[spread(z.detach()) for z in by_hand(network(init, depth, width, seed), x)[:-1]] for seed in range(3)]
    expected = spreads(x, depth=depth, width=width, init=init)
    assert expected is not None
    assert torch.tensor(found).mean(0).tolist() == pytest.approx(expected, rel=0.06)


@pytest.mark.law
@pytest.mark.parametrize("init", ["glorot", "kaiming", "torch"])
@pytest.mark.parametrize("width", [3, 40])
def test_the_mean_square_of_the_gradient_at_any_width(init: str, width: int) -> None:
    x, depth, draws = points(1, 8), 4, 1500 if width < 10 else 150
    squares = []
    for seed in range(draws):
        *hidden, out = by_hand(network(init, depth, width, seed), x)
        direction = torch.randn(3, generator=torch.Generator().manual_seed(seed)).double()
        gradient = torch.autograd.grad((out * direction / direction.norm()).sum(), hidden[0])[0]
        squares.append(float(gradient.square().sum()))
    mean, error = torch.tensor(squares).mean(), torch.tensor(squares).std() / math.sqrt(draws)
    expected = arriving(init, depth=depth, width=width, outputs=3)
    assert expected is not None
    assert abs(float(mean) - expected**2) < 4 * float(error)


def test_what_has_no_closed_form() -> None:
    assert spreads(points(3, 2), depth=3, width=4, init="mirrored") is None
    assert arriving("zeros", depth=3, width=4) is None
    with pytest.raises(AliveError, match="expected points"):
        spreads(torch.zeros(3), depth=3, width=4, init="glorot")


def test_points_that_are_one_stay_so() -> None:
    assert spreads(torch.ones(5, 4), depth=3, width=4, init="kaiming") == pytest.approx([0, 0, 0], abs=1e-7)
    assert spreads(torch.zeros(5, 4), depth=2, width=4, init="kaiming") == [0.0, 0.0]


@pytest.mark.twin
@pytest.mark.parametrize("shape", [(60, 8), (12, 1, 6, 6)])
def test_merging_by_trial_is_that_of_networks_one_by_one(shape: tuple[int, ...]) -> None:
    """Deep torch starts merge points, shallow ones do not; in between some do."""
    x = torch.randn(*shape, generator=torch.Generator().manual_seed(1)) + 0.5
    for depth, least, most in ((2, 0.0, 0.0), (25, 1.0, 1.0)):
        found = birth(x, depth=depth, width=16, init="torch", draws=6, generator=torch.Generator().manual_seed(2))
        assert least <= found.born_merged.value <= most
        assert found.merged_by_depth[-1] == found.born_merged.value + found.born_dead.value
    between = birth(x[:, :8], depth=9, width=16, init="torch", draws=300 if len(shape) == 2 else 6)
    rises = between.merged_by_depth
    assert rises[0] == 0
    if len(shape) == 2:
        torch.manual_seed(5)
        merged = sum(_merges(x) for _ in range(60)) / 60
        assert abs(merged - between.born_merged.value) < 0.25


def _merges(x: Tensor) -> bool:
    h, first = x, 0.0
    for number in range(9):
        z = nn.Linear(h.shape[1], 16)(h).detach()
        first = max(first, spread(x)) if number else max(spread(z), spread(x))
        h = z.relu()
    return spread(z) < 1e-3 * first
