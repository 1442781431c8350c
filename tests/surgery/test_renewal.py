"""Continual backprop against a slow version of its published rule, written out for one hidden layer."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from alive.errors import AliveError
from alive.surgery import ContinualBackprop


def network() -> nn.Sequential:
    torch.manual_seed(4)
    return nn.Sequential(nn.Linear(3, 10), nn.ReLU(), nn.Linear(10, 2)).double()


@pytest.mark.twin
def test_who_is_replaced_and_what_becomes_of_the_rest():
    rate, maturity, decay = 0.05, 3, 0.9
    model = network()
    x = torch.randn(32, 3).double()
    optimiser = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
    useful, told, age, owed, by_hand = torch.zeros(10).double(), torch.zeros(10).double(), torch.zeros(10), 0.0, 0
    with ContinualBackprop(model, optimiser, x, rate=rate, maturity=maturity, decay=decay, seed=1) as renew:
        for _ in range(30):
            h = torch.relu(model[0](x)).detach()
            optimiser.zero_grad()
            (model(x) - x[:, :2]).square().mean().backward()
            optimiser.step()
            read = model[2].weight.detach().abs().sum(0)
            age += 1
            useful = decay * useful + (1 - decay) * h.mean(0) * read
            told = decay * told + (1 - decay) * h.mean(0)
            grown = (age > maturity).nonzero().flatten()
            owed += rate * len(grown)
            due = int(owed)
            owed -= due
            settled = 1 - decay**age
            gone = grown[(useful / settled)[grown].argsort()[:due]]
            bias = model[2].bias.detach() + model[2].weight.detach()[:, gone] @ (told / settled)[gone]
            kept = [k for k in range(10) if k not in gone.tolist()]
            old = model[0].weight.detach().clone()
            assert renew.step() == due
            torch.testing.assert_close(model[2].bias.detach(), bias)
            assert not model[2].weight[:, gone].any()
            assert torch.equal(model[0].weight.detach()[kept], old[kept])
            if due:
                assert (model[0].weight.detach()[gone] != old[gone]).all()
                assert not optimiser.state[model[0].weight]["momentum_buffer"][gone].any()
            useful[gone], told[gone], age[gone] = 0, 0, 0
            by_hand += due
    assert renew.replaced == by_hand > 5
    assert not model._forward_hooks


def test_passes_in_eval_mode_do_not_count():
    model = network()
    x = torch.randn(32, 3).double()
    with ContinualBackprop(model, None, x, rate=1.0, maturity=1) as renew:
        for _ in range(5):
            model.eval()(x)
            assert renew.step() == 0


@pytest.mark.parametrize(
    ("more", "said"), [({"rate": 2}, "rate must lie"), ({"decay": 1}, "decay must"), ({"maturity": 0}, "maturity")]
)
def test_refusals(more, said):
    with pytest.raises(AliveError, match=said):
        ContinualBackprop(network(), None, torch.randn(4, 3).double(), **more)


def test_layers_that_cannot_be_renewed_are_told():
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 4), nn.ReLU(), nn.LayerNorm(4), nn.Linear(4, 2))
    with ContinualBackprop(model, None, torch.randn(9, 3)) as renew:
        assert list(renew.left) == ["2 → relu"]
    with pytest.raises(AliveError, match="no layer's units can be replaced"):
        ContinualBackprop(nn.Sequential(nn.Linear(3, 4), nn.ReLU()), None, torch.randn(9, 3))
