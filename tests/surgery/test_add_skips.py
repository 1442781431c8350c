"""Skips put into a finished model: the identity at the start, weights that stay, and a model that is not touched."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from alive.errors import AliveError
from alive.surgery import with_skips


def deep(depth: int) -> nn.Sequential:
    layers = [part for _ in range(depth) for part in (nn.Linear(6, 6), nn.ReLU())]
    return nn.Sequential(nn.Linear(3, 6), nn.ReLU(), *layers, nn.Linear(6, 2))


def test_at_the_start_only_the_layers_that_stay_are_at_work() -> None:
    model, x = deep(20), torch.randn(9, 3)
    twin = with_skips(model)
    assert torch.equal(twin(x), model[-1](model[1](model[0](x))))
    assert not torch.equal(twin(x), model(x))


def test_a_skip_adds_its_share_of_the_layer() -> None:
    model, x = deep(1), torch.randn(9, 3)
    twin = with_skips(model)
    nn.init.constant_(twin[2].share, 0.5)
    h = model[1](model[0](x))
    torch.testing.assert_close(twin(x), model[4](torch.relu(h + 0.5 * model[2](h))))


def test_gradients_reach_the_share_at_once_and_the_layer_after_one_step() -> None:
    twin, x = with_skips(deep(3)), torch.randn(50, 3)
    twin(x).square().sum().backward()
    assert all(twin[k].share.grad != 0 for k in (2, 4, 6))
    assert all(not twin[k].layer.weight.grad.any() for k in (2, 4, 6))
    torch.optim.SGD(twin.parameters(), lr=1e-3).step()
    twin(x).square().sum().backward()
    assert all(twin[k].layer.weight.grad.any() for k in (2, 4, 6))


def test_kernels_that_keep_the_size_get_a_skip_and_no_other() -> None:
    model = nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(4, 4, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(4, 4, 5, padding="same"),
        nn.ReLU(),
        nn.Conv2d(4, 4, 3),
        nn.ReLU(),
        nn.Conv2d(4, 4, 3, padding=1, stride=2),
        nn.Flatten(),
        nn.Linear(36, 36),
    )
    twin = with_skips(model)
    assert [type(part).__name__ for part in twin if list(part.parameters())] == [
        *("Conv2d", "Skip", "Skip", "Conv2d", "Conv2d", "Linear")
    ]
    assert twin(torch.randn(2, 1, 8, 8)).shape == (2, 36)
    assert not any(type(part).__name__ == "Skip" for part in model)


def test_a_model_without_such_a_layer_is_refused() -> None:
    with pytest.raises(AliveError, match="no hidden layer but the first"):
        with_skips(nn.Sequential(nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 6)))
