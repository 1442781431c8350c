"""The pull of a penalty against the task: by plain backward passes, and on a task that a penalty drowns."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from alive.errors import AliveError
from alive.penalties import Jumpstart, pull


def grown(model: nn.Module, part: torch.Tensor) -> float:
    model.zero_grad()
    part.backward(retain_graph=True)
    return math.sqrt(sum(float(p.grad.double().square().sum()) for p in model.parameters() if p.grad is not None))


def test_it_is_the_ratio_of_the_gradients_that_backward_gives() -> None:
    model = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2))
    x, y = torch.randn(20, 3), torch.randint(2, (20,))
    with Jumpstart(model, weight=0.5, mode="UP") as keep:
        loss = nn.functional.cross_entropy(model(x), y)
        by_hand = grown(model, keep.penalty()) / grown(model, loss)
        loss = nn.functional.cross_entropy(model(x), y)
        found = pull(model, keep, loss)
        loss.backward()  # the graph is still there
    assert found == pytest.approx(by_hand, rel=1e-5)


def test_it_grows_with_the_weight() -> None:
    model, x = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 1)), torch.randn(20, 3)

    def at(weight: float) -> float:
        with Jumpstart(model, weight=weight) as keep:
            return pull(model, keep, model(x).square().mean())

    assert at(3.0) == pytest.approx(1000 * at(0.003), rel=1e-4)
    assert at(0.0) == 0.0


def test_a_task_without_gradient_is_pulled_infinitely_hard() -> None:
    model, x = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 1)), torch.randn(20, 3)
    with Jumpstart(model, weight=1.0) as keep:
        assert pull(model, keep, (model(x) * 0).sum()) == math.inf


@pytest.mark.parametrize("loss", [torch.tensor(1.0), torch.ones(2, requires_grad=True), 0.5])
def test_what_is_no_loss_is_refused(loss: object) -> None:
    model = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 1))
    with Jumpstart(model) as keep, pytest.raises(AliveError, match="the loss of the task"):
        pull(model, keep, loss)
