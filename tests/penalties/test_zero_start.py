"""The zero start: what starts at zero, what lets it leave, and that nothing is left behind."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch import nn

import alive
from alive.data import moons
from alive.errors import AliveError
from alive.nn import Rectangular
from alive.penalties import attach, zero_start
from alive.train import Settings, train


def learned(balance: float, dropout: float) -> float:
    model, data = Rectangular(2, 1, depth=3, width=8), moons()
    chance = torch.Generator().manual_seed(0)
    with zero_start(model, balance=balance, dropout=dropout, generator=chance) as keep, warnings.catch_warnings():
        warnings.simplefilter("error")  # the model goes one way, whatever the rate
        result = train(model, data, Settings(epochs=250), keep=keep)
    assert result.best is not None
    return float(result.best.train)


def test_zeros_learn_by_all_three_and_not_by_two():
    assert learned(0.51, 0.9) > 0.9
    assert learned(0.5, 0.9) < 0.6  # a fixed point
    assert learned(0.51, 0.0) < 0.95  # all units of a layer stay one


def test_dropout_fades_and_nothing_is_left_behind():
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(16, 3))
    keys, x = list(model.state_dict()), torch.randn(5, 1, 4, 4)
    keep = attach("zero-start", model, dropout=0.8, fades=0.5)
    rates = []
    for part in (0.0, 0.25, 0.5, 1.0):
        keep.set_progress(part)
        rates.append(keep.p)
    assert rates == [0.8, 0.4, 0.0, 0.0]
    assert not model[0].weight.any()
    assert model[4].weight.any()
    keep.detach()
    assert list(model.state_dict()) == keys
    assert not any(m._forward_pre_hooks for m in model.modules())
    assert torch.equal(model.train()(x).mean(), model(x).mean())


@pytest.mark.parametrize(
    ("model", "says"),
    [(nn.Linear(2, 1), "has no hidden layer"), (nn.Sequential(nn.ReLU()), "no dense or convolutional layer")],
)
def test_what_cannot_start_at_zero_is_refused(model, says):
    with pytest.raises(AliveError, match=says):
        zero_start(model)


def test_it_is_tried_on_a_strangers_model():
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    model = nn.Sequential(nn.Linear(4, 8), layer, nn.Flatten(), nn.Linear(24, 2))
    with zero_start(model) as keep:
        loss = model(torch.randn(6, 3, 4)).square().mean() + keep.penalty()
        loss.backward()
    assert float(layer.linear1.bias.grad.abs().max()) > 0
    with pytest.raises(AliveError, match="is attached"), alive.Jumpstart(model):
        zero_start(model)
