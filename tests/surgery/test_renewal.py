"""Resets while a model trains, against slow versions of their rules, written out for one hidden layer."""

from __future__ import annotations

import re
from copy import deepcopy

import pytest
import torch
from torch import Tensor, nn

from alive.diagnosis import dormancy
from alive.errors import AliveError
from alive.surgery import ContinualBackprop, ContinuousBackprop, ResetByFiring, ResetByGradient


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


def trained(model: nn.Module, optimiser: torch.optim.Optimizer, x: Tensor) -> None:
    optimiser.zero_grad()
    (model(x) - x[:, :2]).square().mean().backward()
    optimiser.step()


@pytest.mark.twin
def test_those_that_the_gradient_hardly_reaches_begin_anew_and_copies_follow():
    model, x = network(), torch.randn(32, 3).double()
    model[0].bias.data[[2, 7]] = -50.0
    target = deepcopy(model)
    target[2].weight.data += 1.0  # as an old copy of the weights
    optimiser = torch.optim.Adam(model.parameters(), 0.01)
    with ResetByGradient(model, optimiser, x, every=3, tau=0.3, copies=[target]) as renew:
        for number in range(1, 7):
            trained(model, optimiser, x)
            sizes = model[0].weight.grad.abs().mean(1)
            gone = (sizes / sizes.mean() <= 0.3).nonzero().flatten().tolist()
            old, copy = deepcopy(model), deepcopy(target)
            assert renew.step() == (len(gone) if number % 3 == 0 else 0)
            if number % 3:
                continue
            rest = [k for k in range(10) if k not in gone]
            assert {2, 7} <= set(gone) or number > 3
            assert torch.equal(model[0].weight[rest], old[0].weight[rest])
            assert (model[0].weight[gone] != old[0].weight[gone]).all()
            assert not model[2].weight[:, gone].any()
            assert not optimiser.state[model[0].weight]["exp_avg_sq"][gone].any()
            assert torch.equal(target[0].weight[gone], model[0].weight[gone])
            assert not target[2].weight[:, gone].any()
            assert torch.equal(target[2].weight[:, rest], copy[2].weight[:, rest])
    optimiser.zero_grad()
    with pytest.raises(AliveError, match=re.escape("before zero_grad")):
        ResetByGradient(model, optimiser, x, every=1).step()


def test_a_dead_unit_gets_a_gradient_where_it_tells_but_none_for_its_weights():
    """So the score of a dormancy, at what units tell, and that of `ResetByGradient` are two things."""
    model, x = network(), torch.randn(32, 3).double()
    model[0].bias.data[3] = -50.0
    soft = dormancy(model, (x, x[:, :2]), loss=nn.functional.mse_loss)
    assert float(soft.layers[0].gradient_scores[3]) > 0.1
    optimiser = torch.optim.SGD(model.parameters(), 0.0)
    with ResetByGradient(model, optimiser, x, every=1, tau=0).attach() as renew:
        trained(model, optimiser, x)
    assert renew.replaced == 1


@pytest.mark.twin
def test_who_is_silent_for_longer_than_its_past_makes_likely():
    """Each unit is on where the pass's number says so; pauses are kept as lists, and limits read off them."""
    level, patience, luck = 0.1, 4, torch.Generator().manual_seed(1)
    model = nn.Sequential(nn.Linear(6, 6, bias=False), nn.ReLU(), nn.Linear(6, 1))
    model[0].weight.data.copy_(torch.eye(6))
    odds = torch.tensor([1.0, 0.6, 0.3, 0.1, 0.02, 0.0])
    pauses: list[list[int]] = [[] for _ in range(6)]
    silent, resets = [0] * 6, 0
    with ResetByFiring(model, None, torch.randn(9, 6), level=level, patience=patience) as renew:
        for number in range(300):
            on = torch.rand(6, generator=luck) < odds
            if number > 200:
                on[0] = False  # a lively unit falls silent
            model[0].weight.data.copy_(torch.eye(6))
            model(torch.where(on, 1.0, -1.0).expand(3, 6))
            due = []
            for unit in range(6):
                limit = next(
                    2**k - 1
                    for k in range(1, 30)
                    if sum(p < 2**k - 1 for p in pauses[unit]) >= (1 - level) * len(pauses[unit])
                )
                limit = max(patience, limit if len(pauses[unit]) * level >= 1 else 0)
                if on[unit]:
                    pauses[unit].append(silent[unit])
                    silent[unit] = 0
                    continue
                silent[unit] += 1
                if silent[unit] >= limit:
                    pauses[unit].append(silent[unit])
                    silent[unit] = 0
                    due.append(unit)
            assert renew.step() == len(due), number
            assert (model[0].weight != torch.eye(6)).any(1).nonzero().flatten().tolist() == due
            resets += len(due)
    assert renew.replaced == resets > 10


@pytest.mark.twin
def test_units_move_some_way_to_a_new_draw_the_further_the_less_they_learn():
    model, x = network(), torch.randn(32, 3).double()
    model[0].bias.data[4] = -50.0
    optimiser = torch.optim.SGD(model.parameters(), 0.05)
    useful = torch.ones(10).double()
    options = {"rate": 0.2, "sharpness": 3.0, "threshold": 0.9, "decay": 0.5}
    with ContinuousBackprop(model, optimiser, x, every=5, **options).attach() as renew:
        for number in range(1, 11):
            before = deepcopy(model)
            trained(model, optimiser, x)
            sizes = model[0].weight.grad.abs().mean(1)
            useful = 0.5 * useful + 0.5 * sizes / sizes.mean()
            moved = (model[2].weight - before[2].weight + 0.05 * model[2].weight.grad).detach()
            if number % 5:
                assert moved.abs().max() < 1e-12
                continue
            share = 0.2 * torch.exp(-3.0 * (useful - 0.9)).clamp(max=1)
            stepped = before[2].weight - 0.05 * model[2].weight.grad
            torch.testing.assert_close(model[2].weight, (1 - share) * stepped)
            own = before[0].weight - 0.05 * model[0].weight.grad
            drawn = (model[0].weight - (1 - share)[:, None] * own) / share[:, None]
            assert drawn.abs().max() <= 3**-0.5 + 1e-9  # as a new layer of three inputs draws
            assert drawn.std() > 0.2
            torch.testing.assert_close(model[0].bias, before[0].bias - 0.05 * model[0].bias.grad)
            useful.fill_(1)
    assert renew.replaced == 0
    assert renew.moved > 0
