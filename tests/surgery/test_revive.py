"""Revive: the function stays the same to rounding, moments of exactly the reset units are zero, copies stay equal."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from copy import deepcopy
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, distributed, nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

import alive
from alive.diagnosis import dormancy
from alive.errors import AliveError
from alive.surgery import Part, Wires


def dense() -> nn.Sequential:
    """Units 1 and 4 of the first layer and 0 of the second are dead on points in [-1, 1]."""
    net = nn.Sequential(nn.Linear(3, 6), nn.ReLU(), nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 2))
    with torch.no_grad():
        net[0].bias.fill_(0.1)
        net[2].bias.fill_(0.5)  # nothing else is dead by chance
        net[0].bias[[1, 4]] = -50.0
        net[2].bias[0] = -50.0
    return net


def conv() -> nn.Sequential:
    """Channels 2 of the first and 3 of the second convolution are dead; norms, a depthwise one, pooling, flatten."""
    net = nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 4, 3, groups=4), nn.ReLU(),
        nn.Conv2d(4, 6, 3, padding=1, groups=2), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(54, 2),
    )  # fmt: skip
    net(torch.randn(32, 1, 8, 8))  # the norm has seen data
    with torch.no_grad():
        net[1].weight[2] = 0.7
        net[3].bias.fill_(0.5)
        net[5].bias.fill_(0.5)
        net[1].bias[2], net[3].bias[2], net[5].bias[3] = -50.0, -50.0, -50.0
    return net.eval()


def points(net: nn.Module) -> Tensor:
    return torch.rand(40, 1, 8, 8) * 2 - 1 if isinstance(net[0], nn.Conv2d) else torch.rand(40, 3) * 2 - 1


def stepped(net: nn.Module, x: Tensor, kind: str) -> torch.optim.Optimizer:
    """An optimiser that has moments everywhere, without a change of the weights."""
    own = {
        "adam": lambda p: torch.optim.Adam(p, 0.0),
        "adamw": lambda p: torch.optim.AdamW(p, 0.0, amsgrad=True, weight_decay=0.0),
        "sgd": lambda p: torch.optim.SGD(p, 0.0, momentum=0.9),
        "rmsprop": lambda p: torch.optim.RMSprop(p, 0.0, momentum=0.9, centered=True),
    }[kind](net.parameters())
    for p in net.parameters():
        p.grad = torch.ones_like(p)  # also for dead units, which have moments from before they died
    own.step()
    return own


# Rows and columns of the planted units, by hand: name of the parameter, index.
DENSE = [
    *(("0.weight", 1), ("0.weight", 4), ("0.bias", 1), ("0.bias", 4), ("2.weight", 0), ("2.bias", 0)),
    *(("2.weight", (slice(None), 1)), ("2.weight", (slice(None), 4)), ("4.weight", (slice(None), 0))),
]
CONV = [
    *(("0.weight", 2), ("0.bias", 2), ("1.weight", 2), ("1.bias", 2), ("3.weight", 2), ("3.bias", 2)),
    ("5.weight", (slice(3, 6), 0)),  # channel 2 is the first of the second group
    *(("5.weight", 3), ("5.bias", 3), ("9.weight", (slice(None), slice(27, 36)))),
]


@pytest.mark.parametrize("kind", ["adam", "adamw", "sgd", "rmsprop"])
@pytest.mark.parametrize(("make", "places"), [(dense, DENSE), (conv, CONV)], ids=["dense", "conv"])
def test_the_function_stays_and_the_moments_of_reset_units_are_zero(make, places, kind):
    net = make()
    x = points(net)
    before, old, keys = net(x), deepcopy(net.state_dict()), list(net.state_dict())
    optimiser = stepped(net, x, kind)
    done = alive.revive(net, alive.census(net, x), optimiser, data=x if make is conv else None)
    assert done.exact
    assert not done.left
    torch.testing.assert_close(net(x), before, rtol=0, atol=1e-6 * float(before.detach().abs().max()))
    assert list(net.state_dict()) == keys
    for name, p in net.named_parameters():
        mask = torch.zeros(p.shape, dtype=torch.bool)
        for own, index in places:
            if own == name:
                mask[index] = True
        assert torch.equal(p[~mask], old[name][~mask]), name
        for key, value in optimiser.state[p].items():
            if key != "step":
                assert not value[mask].any(), (name, key)
                assert value[~mask].all(), (name, key)
        out, drawn = torch.zeros_like(p, dtype=torch.bool), torch.zeros_like(p, dtype=torch.bool)
        for own, index in places:
            if own == name:
                (out if isinstance(index, tuple) else drawn)[index] = True
        assert not p[out & ~drawn].any()
        assert (p[drawn & ~out] != old[name][drawn & ~out]).all()


def test_norms_are_as_new():
    net = conv()
    x = points(net)
    alive.revive(net, alive.census(net, x), data=x)
    assert [float(net[1].running_mean[2]), float(net[1].running_var[2])] == [0.0, 1.0]
    assert float(net[1].running_var[0]) != 1.0


def test_training_goes_on_and_reset_units_learn():
    net = dense()
    x, y = points(net), torch.randint(2, (40,))
    optimiser = torch.optim.Adam(net.parameters(), 0.01)
    for step in range(60):
        if step == 20:
            assert alive.census(net, x).units.dead >= 3
            done = alive.revive(net, alive.census(net, x), optimiser, data=x)
            assert done.difference < 1e-6
            assert done.asleep is not None
            begun = net[2].weight[:, 1].clone()
        optimiser.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        optimiser.step()
    assert bool((net[2].weight[:, 1] != begun).any())
    assert alive.census(net, x).units.dead < 3


def test_the_same_seed_draws_the_same_whatever_was_drawn_before():
    nets = [dense() for _ in range(2)]
    nets[1].load_state_dict(nets[0].state_dict())
    x = points(nets[0])
    found = alive.census(nets[0], x)
    for number, net in enumerate(nets):
        torch.manual_seed(number)
        alive.revive(net, found, seed=5)
    assert all(torch.equal(a, b) for a, b in zip(*(net.state_dict().values() for net in nets), strict=True))
    state = torch.get_rng_state()
    alive.revive(nets[0], found, seed=5)
    assert torch.equal(torch.get_rng_state(), state)
    alive.revive(nets[0], found, exact=False)
    once = nets[0][0].weight[1].clone()
    alive.revive(nets[0], found, exact=False)
    assert not torch.equal(nets[0][0].weight[1], once)


# What cannot be reset exactly is left, with the reason.


class ReadBefore(nn.Module):
    """The head reads the first layer before its ReLU too."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = nn.Linear(3, 4), nn.Linear(4, 2), nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        z = self.a(x)
        return self.b(torch.relu(z)) + self.c(z)


class Added(nn.Module):
    """Units of two layers are added before their ReLU."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = nn.Linear(3, 4), nn.Linear(3, 4), nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.c(torch.relu(self.a(x) + self.b(x)))


class Half(nn.Module):
    """Only one half of the units meets a ReLU."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(3, 8), nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        one, two = self.a(x).chunk(2, 1)
        return self.b(torch.relu(one) * two)


def normed() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.LayerNorm(4), nn.Linear(4, 2))


def ending() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 4), nn.ReLU())


def soft() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 4), nn.LeakyReLU(), nn.Linear(4, 2))


class Through(nn.Module):
    """A unit that is dead after the first ReLU is told to the head as a constant by a depthwise layer."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.deep, self.b = nn.Conv1d(3, 4, 1), nn.Conv1d(4, 4, 1, groups=4), nn.Conv1d(4, 2, 1)
        nn.init.constant_(self.deep.bias, 1.0)

    def forward(self, x: Tensor) -> Tensor:
        return self.b(torch.relu(self.deep(torch.relu(self.a(x[..., None])))))


class Around(nn.Module):
    """A depthwise unit is dead, and the head reads what lies before it too."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.a = nn.Conv1d(3, 4, 1), nn.Conv1d(4, 4, 1, groups=4)
        self.b, self.c = nn.Conv1d(4, 2, 1), nn.Conv1d(4, 2, 1)
        nn.init.constant_(self.first.bias, 0.3)

    def forward(self, x: Tensor) -> Tensor:
        h = torch.relu(self.first(x[..., None]))
        return self.b(torch.relu(self.a(h))) + self.c(h)


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (Through, "b reads it where it is not zero"),
        (Around, "c reads it where it is not zero"),
        (ReadBefore, "c reads it where it is not zero"),
        (Added, "sum or product"),
        (Half, "declare its wires|moves|mixes|units"),
        (normed, "layer_norm"),
        (ending, "output of the model"),
        (soft, "where it is not zero"),
    ],
)
@pytest.mark.parametrize("given", [False, True], ids=["without data", "with data"])
def test_what_is_not_exact_is_left(make, why, given):
    net = make()
    first = net[0] if isinstance(net, nn.Sequential) else net.a
    with torch.no_grad():
        first.bias.fill_(0.1)
        first.bias[1] = -50.0
        if isinstance(net, Added):
            net.b.bias[1] = -50.0
    x = torch.randn(100, 3)
    found, old = alive.census(net, x), deepcopy(net.state_dict())
    assert found.units.dead
    done = alive.revive(net, found, data=x if given else None)
    assert not done.reset
    assert done.left[0].units == (1,)
    assert re.search(why, done.left[0].why), done.left[0].why
    assert all(torch.equal(value, old[name]) for name, value in net.state_dict().items())


def test_exact_false_resets_it_all_the_same():
    net = soft()
    with torch.no_grad():
        net[0].bias[1] = -50.0
    x = torch.randn(100, 3)
    done = alive.revive(net, alive.census(net, x), data=x, exact=False)
    assert done.units == 1
    assert not done.exact
    assert done.difference > 1e-3


def test_a_census_of_other_data_is_noticed_and_everything_is_put_back():
    net = nn.Sequential(nn.Linear(1, 2), nn.ReLU(), nn.Linear(2, 1))
    with torch.no_grad():
        net[0].weight.copy_(torch.tensor([[1.0], [-1.0]]))
        net[0].bias.zero_()
    old, optimiser = deepcopy(net.state_dict()), stepped(net, torch.ones(1, 1), "adam")
    found = alive.census(net, torch.rand(9, 1) + 0.1)
    assert found.units.dead == 1
    done = alive.revive(net, found, optimiser, data=-torch.rand(9, 1) - 0.1)  # here it is alive
    assert not done.reset
    assert "not zero" in done.left[0].why
    assert all(torch.equal(value, old[name]) for name, value in net.state_dict().items())
    assert all(bool(s["exp_avg"].all()) for s in optimiser.state.values())


def test_nothing_is_dead_nothing_is_done():
    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    x = torch.randn(500, 3)
    assert alive.census(net, x).units.dead == 0
    assert str(alive.revive(net, alive.census(net, x))) == "no unit was asked for"


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"how": "redoo"}, "did you mean 'redo'"),
        ({"how": "loss"}, "give data"),
        ({"how": "utility"}, "needs alive.diagnosis.dormancy"),
        ({"wires": {"1": ("a",)}}, "wires maps names"),
        ({"wires": {"1": Wires(into=(Part("nowhere"),))}}, "no parameter or buffer 'nowhere'"),
        ({"wires": {"1": Wires(into=(Part("0.weight"),), out=(Part("2.weight"),))}}, "different numbers of units"),
    ],
)
def test_refusals_say_the_cure(more, said):
    net = dense()
    with pytest.raises(AliveError, match=said):
        alive.revive(net, alive.census(net, points(net)), **more)
    with pytest.raises(AliveError, match="revive needs what"):
        alive.revive(net, points(net))


def test_state_that_is_not_held_by_number_is_told():
    net = dense()
    x = points(net)
    found = alive.census(net, x)
    optimiser = torch.optim.Adafactor(net.parameters())
    for p in net.parameters():
        p.grad = torch.ones_like(p)
    optimiser.step()
    assert any("row_var" in note for note in alive.revive(net, alive.census(net, x), optimiser).notes)
    assert found.units.dead


def trained(net: nn.Module, x: Tensor, optimiser: torch.optim.Optimizer, steps: int = 5) -> None:
    def loss() -> Tensor:
        optimiser.zero_grad()
        found = (net(x) - 1).square().mean()
        found.backward()
        return found

    for _ in range(steps):
        optimiser.step(loss)


def state_of_new(make: Callable[[Any], torch.optim.Optimizer], p: Tensor) -> dict[str, Tensor]:
    """The state that an optimiser has after a first step without a gradient."""
    fresh = nn.Parameter(p.detach().clone())
    new = make([fresh])
    fresh.grad = torch.zeros_like(fresh)
    new.step()
    return {key: value for key, value in new.state[fresh].items() if value.shape == p.shape}


@pytest.mark.parametrize(
    "make",
    [
        lambda p: torch.optim.Rprop(p, 0.01),
        lambda p: torch.optim.Adagrad(p, 0.1, initial_accumulator_value=0.5),
        lambda p: torch.optim.ASGD(p, 0.1, t0=0.0),
        lambda p: torch.optim.Adadelta(p, 0.1),
        lambda p: torch.optim.Adamax(p, 0.1),
        lambda p: torch.optim.NAdam(p, 0.1),
        lambda p: torch.optim.AdamW(p, 0.1, amsgrad=True, fused=True),
    ],
    ids=["rprop", "adagrad", "asgd", "adadelta", "adamax", "nadam", "amsgrad"],
)
def test_the_state_of_reset_units_is_that_of_a_new_optimiser(make):
    """Steps of Rprop that were zero would hold a unit where it is, and a mean of weights would pull it there."""
    net = dense()
    x = points(net)
    optimiser = make(net.parameters())
    trained(net, x, optimiser)
    (reset, *_) = alive.revive(net, alive.census(net, x), optimiser, data=x).reset
    weight, units = net[0].weight, list(reset.units)
    new = state_of_new(make, weight)
    assert new
    for key, value in new.items():
        torch.testing.assert_close(optimiser.state[weight][key][units], value.detach()[units], msg=key)
    before = weight.detach().clone()
    trained(net, x, optimiser, 20)
    assert float((weight.detach() - before)[units].abs().max()) > 1e-4


class Averaging(torch.optim.Optimizer):
    """Steps on a copy in double precision, as mixed precision does, and keeps a mean of the weights."""

    def __init__(self, params):
        super().__init__(params, {})

    @torch.no_grad()
    def step(self, closure):
        with torch.enable_grad():
            closure()
        for p in self.param_groups[0]["params"]:
            state = self.state[p]
            master = state.setdefault("master", p.detach().double().clone())
            master -= 0.1 * p.grad
            state.setdefault("velocity", torch.zeros_like(p)).add_(p.grad)
            p.copy_(master)


def test_a_copy_of_the_weights_follows_them():
    net = dense()
    x = points(net)
    optimiser = Averaging(net.parameters())
    trained(net, x, optimiser)
    before = net(x).detach()
    alive.revive(net, alive.census(net, x), optimiser, data=x)
    for p in net.parameters():
        torch.testing.assert_close(optimiser.state[p]["master"], p.detach().double())
        p.grad = torch.zeros_like(p)
    units = net[0].weight.detach().clone()
    optimiser.step(lambda: None)
    torch.testing.assert_close(net[0].weight.detach(), units)
    torch.testing.assert_close(net(x).detach(), before)


def test_a_history_of_all_weights_together_is_told():
    net = dense()
    x = points(net)
    optimiser = torch.optim.LBFGS(net[2:].parameters(), 0.01)  # its state lies with the first of its parameters alone
    trained(net, x, optimiser, 2)
    (note,) = alive.revive(net, alive.census(net, x), optimiser).notes
    assert "LBFGS keeps its history for all weights together" in note


def test_a_scheduler_is_no_optimiser():
    net = dense()
    adam = torch.optim.Adam(net.parameters())
    wrong = torch.optim.lr_scheduler.StepLR(adam, 1)
    with pytest.raises(AliveError, match=r"must be a torch\.optim\.Optimizer"):
        alive.revive(net, alive.census(net, points(net)), wrong)
    with pytest.raises(AliveError, match=r"must be a torch\.optim\.Optimizer"):
        alive.surgery.ContinualBackprop(net, wrong, points(net))


# Dormant units, utility, latents, declared wires.


def test_dormant_units_are_reset_and_told_to_change_the_function():
    net = nn.Sequential(nn.Linear(3, 6), nn.ReLU(), nn.Linear(6, 2))
    with torch.no_grad():
        net[0].weight[2] *= 1e-4
        net[0].bias[2] = 1e-4
    x = torch.randn(200, 3)
    soft = dormancy(net, x)
    assert soft["1"].dormant(0.01).tolist() == [2]
    done = alive.revive(net, soft, tau=0.01, data=x)
    assert (done.reset[0].units, done.exact) == ((2,), False)
    assert 0 < done.difference < 0.01
    assert not net[2].weight[:, 2].any()


def test_utility_takes_the_least_useful_and_the_bias_takes_over_their_mean():
    net = nn.Sequential(nn.Linear(3, 10), nn.ReLU(), nn.Linear(10, 2)).double()
    x = torch.randn(300, 3).double()
    h = torch.relu(net[0](x)).detach()
    useful = h.mean(0) * net[2].weight.detach().abs().sum(0)  # by hand
    least = useful.argsort()[:2].sort().values
    bias = net[2].bias.detach() + net[2].weight.detach()[:, least] @ h.mean(0)[least]
    done = alive.revive(net, dormancy(net, x), how="utility", share=0.2)
    assert done.reset[0].units == tuple(least.tolist())
    torch.testing.assert_close(net[2].bias.detach(), bias)


class Autoencoder(nn.Module):
    """With top-k over the latents, or without."""

    def __init__(self, k: int = 0) -> None:
        super().__init__()
        self.k, self.encoder, self.decoder = k, nn.Linear(5, 12), nn.Linear(12, 5)

    def forward(self, x: Tensor) -> Tensor:
        z = torch.relu(self.encoder(x - self.decoder.bias))
        if self.k:
            values, places = z.topk(self.k, dim=-1)
            z = torch.zeros_like(z).scatter(-1, places, values)
        return self.decoder(z)


def test_latents_are_pointed_at_what_is_told_badly():
    net = Autoencoder()
    with torch.no_grad():
        net.encoder.bias[[3, 7]] = -50.0
    x = torch.randn(100, 5)
    x[17] *= 100  # told worst by far
    with torch.no_grad():
        live = [k for k in range(12) if k not in (3, 7)]
        norm = net.encoder.weight[live].norm(dim=1).mean(), net.decoder.weight[:, live].norm(dim=0).mean()
        worst = F.normalize(x[17] - net.decoder.bias, dim=0)
    optimiser = stepped(net, x, "adam")
    done = alive.revive(net, alive.census(net, x), optimiser, how="loss", data=x)
    assert (done.reset[0].units, done.exact, done.asleep) == ((3, 7), False, 0)
    drawn = [k for k in (3, 7) if torch.allclose(net.encoder.weight[k], 0.2 * norm[0] * worst, atol=1e-5)]
    assert drawn
    torch.testing.assert_close(net.decoder.weight[:, drawn[0]].detach(), norm[1] * worst, atol=1e-5, rtol=0)
    assert float(net.encoder.bias[drawn[0]].detach()) == 0.0
    assert not optimiser.state[net.encoder.weight]["exp_avg"][[3, 7]].any()


def test_top_k_is_followed_and_said_to_change_the_function():
    net = Autoencoder(k=3)
    with torch.no_grad():
        net.encoder.bias[[3, 7]] = -50.0
    x = torch.randn(100, 5)
    found = alive.census(net, x)
    dead = tuple(
        (net.encoder(x - net.decoder.bias).topk(3).indices[..., None] != torch.arange(12))
        .all(0)
        .all(0)
        .nonzero()
        .flatten()
        .tolist()
    )
    assert {3, 7} <= set(dead)
    done = alive.revive(net, found, stepped(net, x, "adam"))
    assert [each.units for each in done.reset] == [dead]
    assert (done.reset[0].readers, done.exact) == (("decoder.weight",), False)
    assert not net.decoder.weight[:, dead].any()


def chosen(z: Tensor, way: str) -> Tensor:
    """z where it is one of the three largest of its point, or above a threshold; zero elsewhere."""
    values, places = z.topk(3, dim=-1)
    return {
        "scatter": lambda: torch.zeros_like(z).scatter(-1, places, values),
        "mask": lambda: z * torch.zeros_like(z).scatter(-1, places, 1.0),
        "where": lambda: torch.where(z >= values[..., -1:], z, torch.zeros_like(z)),
        "compare": lambda: z * (z >= values[..., -1:]).float(),
        "jump": lambda: z * (z > 1.2),
    }[way]()


class Chooses(nn.Module):
    """The commonest autoencoder: a ReLU, then a choice; `probe` reads the ReLU past the choice."""

    def __init__(self, way: str, *, probe: bool = False) -> None:
        super().__init__()
        self.way, self.encoder, self.decoder = way, nn.Sequential(nn.Linear(5, 40), nn.ReLU()), nn.Linear(40, 5)
        self.probe = nn.Linear(40, 5) if probe else None

    def forward(self, x: Tensor) -> Tensor:
        z = self.encoder(x)
        out = self.decoder(chosen(z, self.way))
        return out if self.probe is None else out + self.probe(z)


@pytest.mark.parametrize("way", ["scatter", "mask", "where", "compare", "jump"])
def test_latents_that_are_on_and_never_chosen_are_reset(way):
    net = Chooses(way)
    x = torch.randn(40, 5)
    z = net.encoder(x)
    never = tuple((~(chosen(z, way) > 0).any(0)).nonzero().flatten().tolist())
    assert bool((z[:, never] > 0).any(0).any())  # the ReLU passes what is not chosen
    for data in (None, x) if way != "jump" else (x,):  # a threshold of one number is a mask of units to the census
        own = deepcopy(net)
        done = alive.revive(own, alive.census(own, x), stepped(own, x, "adam"), data=data)
        assert [(each.units, each.readers) for each in done.reset] == [(never, ("decoder.weight",))]
        assert not done.left
        assert not own.decoder.weight[:, never].any()
    net = Chooses(way, probe=True)
    z = net.encoder(x)
    never, off = ((~(h > 0).any(0)).nonzero().flatten().tolist() for h in (chosen(z, way), z))
    done = alive.revive(net, alive.census(net, x), data=x)
    assert [unit for each in done.reset for unit in each.units] == off
    assert [unit for each in done.left for unit in each.units] == [unit for unit in never if unit not in off]
    assert "probe reads it where it is not zero" in str(done)


def test_units_dead_in_one_layer_and_alive_in_another_are_named():
    class Pair(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.make, self.one, self.other = nn.Linear(2, 3), nn.Linear(3, 1), nn.Linear(3, 1)

        def forward(self, x: Tensor) -> Tensor:
            z = self.make(x)
            return self.one(torch.relu(z)) + self.other(torch.relu(-z))

    net = Pair()
    with torch.no_grad():
        net.make.bias[1] = -50.0
    x = torch.randn(30, 2)
    for data, why in ((None, "alive in make → relu"), (x, "other reads it where it is not zero")):
        done = alive.revive(net, alive.census(net, x), data=data)
        assert not done.reset
        assert done.left[0].units == (1,)
        assert why in done.left[0].why


class Quantised(nn.Module):
    """Codes looked up by their distance, written as `way` says."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.way, self.encoder, self.decoder, self.book = way, nn.Linear(4, 3), nn.Linear(3, 4), nn.Embedding(10, 3)
        self.register_buffer("counts", torch.zeros(10))

    def forward(self, x: Tensor) -> Tensor:
        v, w = self.encoder(x), self.book.weight
        if self.way == "cdist":
            chosen = self.book(torch.cdist(v, w).argmin(1))
        else:
            chosen = w[(v.square().sum(1, keepdim=True) - 2 * v @ w.T + w.square().sum(1)).argmin(1)]
        return self.decoder(v + (chosen - v).detach())


@pytest.mark.parametrize("way", ["cdist", "product"])
def test_codes_are_put_on_what_is_looked_up(way):
    net = Quantised(way)
    with torch.no_grad():
        net.book.weight[[2, 5]] += 100.0
    x = torch.randn(60, 4)
    v, old = net.encoder(x).detach(), net.book.weight.detach().clone()
    dead = sorted(set(range(10)) - set(torch.cdist(v, old).argmin(1).tolist()))
    optimiser = stepped(net, x, "adam")
    done = alive.revive(net, alive.census(net, x), optimiser, how="codes", data=x)
    assert (done.reset[0].units, done.exact, done.asleep) == (tuple(dead), False, 0)
    assert float(torch.cdist(net.book.weight.detach()[dead], v).amin(1).max()) < 1e-5
    live = [code for code in range(10) if code not in dead]
    assert torch.equal(net.book.weight.detach()[live], old[live])
    assert not optimiser.state[net.book.weight]["exp_avg"][dead].any()
    assert optimiser.state[net.book.weight]["exp_avg"][live].all()


class Residual(nn.Module):
    """Each codebook tells what those before it left."""

    def __init__(self):
        super().__init__()
        self.encode, self.decode = nn.Linear(4, 3), nn.Linear(3, 4)
        self.books = nn.ParameterList(nn.Parameter(torch.randn(16, 3)) for _ in range(3))

    def forward(self, x):
        rest, told = self.encode(x), 0
        for book in self.books:
            near = book[torch.cdist(rest, book).argmin(-1)]
            rest, told = rest - near, told + near
        return self.decode(told)


def test_codebooks_one_behind_the_other_are_seeded_together():
    """A new first codebook changes what reaches the second: what is looked up is noted before."""
    net, x = Residual(), torch.randn(12, 4)
    found, rests = alive.census(net, x), [net.encode(x).detach()]
    for book in net.books[:2]:
        near = torch.stack([book[int((book - z).square().sum(1).argmin())] for z in rests[-1]])
        rests.append(rests[-1] - near.detach())
    done = alive.revive(net, found, how="codes", data=x)
    assert not done.left
    assert [len(each.units) for each in done.reset] == [layer.units.dead for layer in found.layers]
    for book, each, rest in zip(net.books, done.reset, rests, strict=True):
        for code in book.detach()[list(each.units)]:
            assert float((rest - code).norm(dim=1).min()) < 1e-6


def test_codes_of_vector_quantize_pytorch_take_their_running_means_along():
    quantise = pytest.importorskip("vector_quantize_pytorch", reason="pip install vector-quantize-pytorch")

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder, self.vq = nn.Linear(4, 8), quantise.VectorQuantize(dim=8, codebook_size=32)

        def forward(self, x: Tensor) -> Tensor:
            return self.vq(self.encoder(x)[:, None])[0]

    net, x = Net().eval(), torch.randn(60, 4)
    done = alive.revive(net, alive.census(net, x), how="codes", data=x)
    units = list(done.reset[0].units)
    assert (len(units) > 5, done.asleep) == (True, 0)
    book = net.vq._codebook
    assert torch.equal(book.embed_avg[0, units], book.embed[0, units])
    assert (book.cluster_size[0, units] == 1).all()


def test_codes_are_not_reset_as_units_are():
    net, x = Quantised("cdist"), torch.randn(60, 4)
    with torch.no_grad():
        net.book.weight[2] += 100.0
    assert 'how="codes"' in alive.revive(net, alive.census(net, x)).left[0].why


class Raw(nn.Module):
    """Weights of its own, as autoencoders of others have them."""

    def __init__(self) -> None:
        super().__init__()
        self.w_in, self.b_in = nn.Parameter(torch.randn(3, 6)), nn.Parameter(torch.zeros(6))
        self.w_out = nn.Parameter(torch.randn(6, 3))

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(x @ self.w_in + self.b_in) @ self.w_out


def test_declared_wires():
    net = Raw()
    with torch.no_grad():
        net.b_in[2] = -50.0
    x = torch.rand(30, 3)
    before, found = net(x), alive.census(net, x)
    dead = [unit for layer in found.to_dict()["layers"] for unit in layer["dead_units"]]
    assert 2 in dead
    assert not alive.revive(net, found).reset
    wires = {found.layers[0].name: Wires(into=(Part("w_in", axis=1), Part("b_in")), out=(Part("w_out"),))}
    done = alive.revive(net, found, wires=wires)
    assert done.units == len(dead)
    torch.testing.assert_close(net(x), before)
    assert not net.w_out[dead].any()
    assert not net.b_in[dead].any()
    assert net.w_in[:, 2].any()


# Two real processes: each has other data, both end with the same numbers.


def main(rank: int, folder: Path) -> None:
    distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2, timeout=timedelta(seconds=60)
    )
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 1))
    with torch.no_grad():  # unit 0 is dead on all data, 1 only on that of rank 0, 2 only on that of rank 1
        net[0].weight.copy_(torch.tensor([[0.0, 0.0], [-1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]))
        net[0].bias.copy_(torch.tensor([-1.0, 0.0, 0.0, 1.0]))
    ddp = DistributedDataParallel(net)
    x = torch.rand(32, 2) * (1 if rank == 0 else -1)
    optimiser = torch.optim.Adam(ddp.parameters(), 0.01)
    torch.manual_seed(rank)  # a generator of its own must not part them
    done = alive.revive(ddp, alive.census(ddp, x), optimiser)
    for _ in range(3):
        optimiser.zero_grad()
        ddp(x).square().mean().backward()
        optimiser.step()
    told = {
        "units": [list(each.units) for each in done.reset],
        "state": {name: value.flatten().tolist() for name, value in net.state_dict().items()},
    }
    (folder / f"{rank}.json").write_text(json.dumps(told))
    distributed.barrier()
    distributed.destroy_process_group()


def test_copies_of_two_ranks_stay_equal(two_ranks: Callable[[str], list[dict[str, object]]]) -> None:
    one, other = two_ranks(__file__)
    assert one == other
    assert one["units"] == [[0]]


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(int(sys.argv[1]), Path(sys.argv[2]))
