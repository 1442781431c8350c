"""Activation checkpointing changes neither penalty nor gradients."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from kept import Kept, close, step
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint, set_checkpoint_early_stop

from alive.errors import AliveError
from alive.penalties import Jumpstart


class Checkpointed(Kept):
    def __init__(self, how: str) -> None:
        super().__init__()
        self.a = nn.Sequential(nn.Linear(3, 6), nn.ReLU(inplace=True), nn.Dropout(0.3), nn.Linear(6, 6))
        self.b, self.c, self.how = nn.Linear(6, 6), nn.Linear(6, 2), how

    def part(self, z: Tensor) -> Tensor:
        return F.relu(self.b(F.relu(z)))

    def forward(self, x: Tensor) -> Tensor:
        if self.how == "none":
            return self.c(self.part(self.a(x)))
        again = {"use_reentrant": self.how == "reentrant"}
        return self.c(checkpoint(self.part, checkpoint(self.a, x, **again), **again))


@pytest.mark.twin
@pytest.mark.parametrize(
    "rule", [{}, {"mode": "L"}, {"layers": ["relu*"]}, {"ties": "single", "conv": "position"}], ids=str
)
def test_checkpointing_changes_neither_value_nor_gradients(rule: dict[str, Any]) -> None:
    model, x = Checkpointed("none"), torch.randn(7, 3)
    value, wanted = step(model, x, **rule)
    model.how = "not reentrant"
    again, found = step(model, x, **rule)
    torch.testing.assert_close(again, value)
    close(found, wanted)


@pytest.mark.parametrize("early_stop", [True, False])
def test_what_backward_runs_again_does_not_count_in_the_next_step(early_stop: bool) -> None:
    model, x = Checkpointed("not reentrant"), torch.randn(7, 3)
    model.a[2].p = 0.0
    with Jumpstart(model, 1.0) as keep, set_checkpoint_early_stop(early_stop):
        penalties = []
        for _ in range(3):
            y = model(x)
            penalties.append(keep.penalty())
            (y.sum() + penalties[-1]).backward()
    torch.testing.assert_close(penalties[1:], penalties[:2])


@pytest.mark.twin
def test_checkpointing_a_part_that_begins_with_an_activation_keeps_the_unit_axis() -> None:
    class Mixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b, self.again = nn.Conv1d(3, 4, 1), nn.Sequential(nn.ReLU(), nn.Conv1d(4, 2, 1)), False

        def forward(self, x: Tensor) -> Tensor:
            z = self.a(x)
            return checkpoint(self.b, z, use_reentrant=False) if self.again else self.b(z)

    model, x = Mixed(), torch.randn(5, 3, 6)
    value, wanted = step(model, x)
    model.again = True
    again, found = step(model, x)
    torch.testing.assert_close(again, value)
    close(found, wanted)


def test_reentrant_checkpointing_is_told() -> None:
    model, x = Checkpointed("reentrant"), torch.randn(7, 3, requires_grad=True)
    with Jumpstart(model) as keep:
        with pytest.warns(UserWarning, match=r"use_reentrant=False"):
            y = model(x)
        with pytest.raises(AliveError):
            keep.penalty()
        y.sum().backward()
