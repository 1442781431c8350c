"""Blocks that are declared: which side is the skip, which blocks are gated, and forwards that cannot be followed."""

from __future__ import annotations

import pytest
import torch
from residual_models import Net, Written, by_value, gates
from torch import nn

from alive.errors import AliveError
from alive.surgery.phase_out import GatedSkip, phase_out

TWO = Written(lambda self, x: self.f(x) + self.g(x), f=nn.Conv2d(3, 3, 3, padding=1), g=nn.Conv2d(3, 3, 5, padding=2))


def test_a_sum_of_two_branches_is_not_guessed():
    with pytest.raises(AliveError, match=r"neither is clearly the skip.*blocks="):
        phase_out(TWO)
    gated = phase_out(TWO, blocks=[("", "g")])
    nn.init.ones_(gates(gated)["gate"].alpha)
    x = torch.randn(1, 3, 6, 6)
    assert torch.equal(gated(x), TWO.f(x))


def test_a_declared_argument_is_the_skip():
    model = Written(lambda self, x: x + self.f(x), f=nn.Linear(3, 3))
    gated = phase_out(model, blocks=[("", "x")])
    nn.init.ones_(gates(gated)["gate"].alpha)
    x = torch.randn(2, 3)
    assert torch.equal(gated(x), model.f(x))


def test_only_declared_blocks_are_gated():
    assert list(gates(phase_out(Net(), blocks=["layer2.0", ("layer1.1", "x")]))) == ["layer1.1.gate", "layer2.0.gate"]


def test_a_forward_that_cannot_be_followed_is_gated_through_its_shortcut():
    model = nn.Sequential(Written(by_value, f=nn.Linear(3, 3), shortcut=nn.Identity()))
    x = torch.randn(4, 3)
    gated = phase_out(model, x, blocks=[("0", "shortcut")])
    assert isinstance(gated[0].shortcut, GatedSkip)
    assert torch.equal(gated(x), model(x))
    nn.init.ones_(gates(gated)["0.shortcut.gate"].alpha)
    assert torch.equal(gated(x), model[0].f(x))
