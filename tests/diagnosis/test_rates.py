"""How often units are on: as counted one by one, whatever the layer, the dtype, the batches; and what follows."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._subclasses import FakeTensorMode

from alive import watch
from alive.diagnosis import Census, Limit, Rates, census
from alive.diagnosis.extremes import CHUNK, count_on, reduced
from alive.diagnosis.rates import BINS
from alive.errors import AliveError
from alive.functional import Activation, State, classify
from alive.history.record import History, Moment, Seen
from alive.integrations.probe import numbers
from alive.provenance import Grid, Layout, Scattered
from alive.render import page, text

RELU = Activation("relu")
ACTIVATIONS = {nn.ReLU(): (0.0, math.inf), nn.ReLU6(): (0.0, 6.0), nn.ELU(): (math.log(0.1), math.inf)}


def by_hand(z: Tensor, low: float, high: float) -> list[int]:
    """One value after the other."""
    rows = z.double().movedim(1, 0).flatten(1).tolist()
    return [sum(low < value < high for value in row) for row in rows]


@pytest.mark.twin
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("activation", ACTIVATIONS, ids=lambda a: type(a).__name__)
@pytest.mark.parametrize("form", ["dense", "maps", "channels last", "one point"])
def test_every_value_is_counted(form: str, activation: nn.Module, dtype: torch.dtype) -> None:
    low, high = ACTIVATIONS[activation]
    torch.manual_seed(0)
    made = nn.Linear(3, 5) if form == "dense" else nn.Conv2d(3, 5, 3)
    model = nn.Sequential(made, activation).to(dtype)
    model[0].weight.data *= 6
    x = torch.randn(1 if form == "one point" else 41, *((3,) if form == "dense" else (3, 6, 7))).to(dtype)
    x = x.to(memory_format=torch.channels_last) if form == "channels last" else x
    parts = list(x.split(16))
    z = torch.cat([model[0](part).detach() for part in parts])
    rates = census(model, parts).layers[0].rates
    assert rates.on.tolist() == by_hand(z, torch.tensor(low, dtype=torch.float32).item(), high)
    assert rates.met.tolist() == [z.numel() // 5] * 5


def test_more_than_fits_at_once_and_nan_and_ends() -> None:
    z = torch.randn(CHUNK // 500, 7, 90, generator=torch.Generator().manual_seed(0)).requires_grad_().detach()
    z[0, 0], z[1, 1, 0], z[:, 2], z[:, 3] = math.nan, math.inf, -math.inf, 0.0
    assert z.numel() > CHUNK
    assert count_on(z, RELU).tolist() == (z > 0).sum((0, 2)).tolist()
    assert count_on(z.movedim(1, 2), RELU).tolist() == (z > 0).sum((0, 1)).tolist()
    assert count_on(z, RELU)[2:4].tolist() == [0, 0]


def test_dead_is_never_and_linear_is_always() -> None:
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(4, 300), nn.ReLU(), nn.Linear(300, 300), nn.ReLU())
    for layer in (model[0], model[2]):
        layer.bias.data += torch.linspace(-4, 4, 300)
    found = census(model, list(torch.randn(500, 4).split(77)))
    for layer in found.layers:
        never, always = layer.rates.on == 0, layer.rates.on == layer.rates.met
        assert never.any()
        assert always.any()
        assert torch.equal(never, layer.states == State.DEAD)
        assert torch.equal(always, layer.states == State.LINEAR)
        assert sum(layer.rates.histogram) == 300
        assert (layer.rates.histogram[0], layer.rates.histogram[-1]) == (layer.units.dead, layer.units.linear)


def rates_of(*on: int, met: int = 1000) -> Rates:
    return Rates(torch.tensor(on), torch.full((len(on),), met))


def test_rates_at_the_edges() -> None:
    assert rates_of(0, 1, 2, 998, 999, 1000).rare().tolist() == []
    assert rates_of(0, 1, 9, 10, 11, met=10_000).rare().tolist() == [1, 2]
    assert rates_of(9_990, 9_991, 10_000, met=10_000).nearly_linear().tolist() == [1]
    assert rates_of(1, 2, 500, 998, 999, 1000).rare(0.0015).tolist() == [0]
    counts = [0, 1, 10, 100, 10**3, 10**4, 10**5, 9 * 10**5, 99 * 10**4, 999 * 10**3, 10**6 - 1, 10**6]
    assert rates_of(*counts, met=10**6).histogram == (1, 0, 1, 1, 1, 1, 1, 1, 1, 1, 2, 1)  # an edge is in the next bin
    assert Rates(torch.tensor([0, 3]), torch.tensor([0, 3])).histogram == (*[0] * (len(BINS) - 1), 1)  # one never met


def test_measures_by_their_definitions() -> None:
    even, one, mixed = rates_of(250, 250, 250, 250), rates_of(0, 1000, 0, 0), rates_of(500, 250, 250, 0)
    assert [round(r.perplexity, 9) for r in (even, one)] == [4, 1]
    assert mixed.perplexity == pytest.approx(2**1.5)
    assert (mixed.used, mixed.load, even.load, even.variation) == (0.75, 2.0, 1.0, 0.0)
    assert mixed.variation == pytest.approx(math.sqrt(2 * 0.25**2 / 4) / 0.25)
    assert (one.entropy, rates_of(500).entropy) == (0.0, pytest.approx(1.0))
    assert (rates_of(0, 0).perplexity, rates_of(0, 0).load, rates_of(0, 0).variation) == (None, None, None)


class Quantiser(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.codebook = nn.Embedding(8, 2)
        self.codebook.weight.data = torch.stack([torch.linspace(-3, 30, 8), torch.zeros(8)], 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.codebook(torch.cdist(x, self.codebook.weight).argmin(1))


class Router(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate, self.experts = nn.Linear(2, 4), nn.ModuleList(nn.Linear(2, 2) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        score, who = self.gate(x).softmax(1).topk(2, dim=1)
        y = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            rows, place = (who == number).nonzero(as_tuple=True)
            y = y.index_add(0, rows, score[rows, place, None] * expert(x[rows]))
        return y


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encode, self.decode = nn.Linear(2, 16), nn.Linear(16, 2)

    def forward(self, x: Tensor) -> Tensor:
        values, who = self.encode(x).relu().topk(3, dim=1)
        return self.decode(torch.zeros(len(x), 16).scatter(1, who, values))


X = torch.randn(400, 2, generator=torch.Generator().manual_seed(2))


@pytest.mark.parametrize("kind", [Quantiser, Router, Encoder])
def test_candidates_are_counted_as_they_are_chosen(kind: type[nn.Module]) -> None:
    torch.manual_seed(3)
    model = kind()
    found = census(model, list(X.split(150)))
    (layer,) = [layer for layer in found.layers if layer.noun != "unit"]
    with torch.no_grad():
        if kind is Quantiser:
            chosen = torch.bincount(torch.cdist(X, model.codebook.weight).argmin(1), minlength=8)
            share = chosen[chosen > 0] / 400
            assert layer.rates.perplexity == pytest.approx(float((-(share * share.log()).sum()).exp()), rel=1e-5)
            assert Limit.parse("perplexity<90%").holds(found)
            assert not Limit.parse("perplexity<10%").holds(found)
        elif kind is Router:
            chosen = torch.bincount(model.gate(X).topk(2, dim=1).indices.flatten(), minlength=4)
            assert layer.rates.load == pytest.approx(float(chosen.max()) / 200)
            assert Limit.parse(f"load>{layer.rates.load - 0.01:.6f}").holds(found)
            assert Limit.parse("variation<9").holds(found)
        else:
            values, who = model.encode(X).relu().topk(3, dim=1)
            chosen = torch.bincount(who[values > 0], minlength=16)
            assert Limit.parse("rare_latents>=0%").holds(found)
    assert layer.rates.on.tolist() == chosen.tolist()
    assert set(layer.rates.met.tolist()) == {400}
    name = {"code": "perplexity", "expert": "load", "latent": "how often"}[layer.noun]
    assert name in text(found)


def seldom(**options: Any) -> Census:
    """Unit 0 is on at one point of 5000, unit 1 off at one, unit 2 at half of them."""
    model = nn.Sequential(nn.Linear(1, 3), nn.ReLU())
    model[0].weight.data, model[0].bias.data = (
        torch.tensor([[1.0], [1.0], [1.0]]),
        torch.tensor([-4998.5, -0.5, -2500.0]),
    )
    return census(model, torch.arange(5000.0)[:, None], **options)


def test_rare_units_are_told_and_limits_hold() -> None:
    found = seldom()
    assert found.layers[0].rates.on.tolist() == [1, 4999, 2499]
    assert found.units.dead == 0
    for limit in ("rare_units>0", "rare_units>=33%", "nearly_linear_units==1", "entropy<0.5"):
        assert Limit.parse(limit).holds(found), limit
    assert not Limit.parse("rare_units>0").holds(seldom(rare=1e-4))
    assert "rare" in text(found)
    assert "how often on" in page(found, "t")
    with pytest.raises(AliveError, match="share"):
        seldom(rare=2.0)
    with pytest.raises(AliveError, match="whole"):
        Limit.parse("load>2%")


def test_what_is_unknown_is_open() -> None:
    found = census(nn.Sequential(nn.Linear(2, 3), nn.ReLU()), X)
    unknown = Census((found.layers[0].uncounted("nobody knows"),), found.points)
    for limit in ("rare_units>0", "entropy<0.5"):
        assert Limit.parse(limit).is_open(unknown)
        assert not Limit.parse(limit).is_open(found)


@pytest.mark.law
@pytest.mark.parametrize("n", [4, 10, 1000, 10**6])
def test_three_in_n_is_an_upper_limit_of_95_percent(n: int) -> None:
    assert (1 - 3 / n) ** n < 0.05  # that often, a unit with this rate is on at none of n points


def test_a_history_keeps_rates_and_reads_one_without(tmp_path: Any) -> None:
    torch.manual_seed(3)
    model = Encoder()
    look = watch(model, X, every=1, path=tmp_path / "w.json")
    found = look(0)
    layer = next(layer for layer in found.layers if layer.noun == "latent")
    (moment,) = History.read(tmp_path / "w.json").moments
    assert moment.layers[layer.name].histogram == list(layer.rates.histogram)
    assert moment == look.history.moments[0]
    assert moment.scalars["alive/dead_latents"] == layer.units.dead / 16
    assert numbers(found) == moment.sums
    assert numbers(found).items() <= moment.scalars.items()
    said = json.loads((tmp_path / "w.json").read_text())
    for layers in (moment["layers"] for moment in said["moments"]):
        for name in layers:
            layers[name] = layers[name][:4]
    (tmp_path / "old.json").write_text(json.dumps(said | {"format": "alive watch 1"}))
    (old,) = History.read(tmp_path / "old.json").moments
    assert old.layers[layer.name] == Seen(*moment.layers[layer.name][:4])
    assert old.scalars["alive/dead_units"] == moment.scalars["alive/dead_units"]


def test_names_of_numbers_are_those_of_limits() -> None:
    """What is logged as a share is what --fail-on compares in percent."""
    torch.manual_seed(3)
    for model in (Quantiser(), Router(), Encoder(), nn.Sequential(nn.Linear(2, 9), nn.ReLU())):
        found = census(model, X)
        for name, value in Moment.of(0, found, {}).sums.items():
            word = name.removeprefix("alive/")
            if "_" in word:
                assert Limit.parse(f"{word}>=0%").value(found) == pytest.approx(100 * value), name
            elif word not in ("units", "points", "latents", "codes", "experts"):
                assert Limit.parse(f"{word}>=0").value(found) == pytest.approx(value, rel=1e-4), name  # five digits


def test_what_a_layer_is_asked_for_waits_for_no_device() -> None:
    """On a device without values, where reading one is an error."""
    layout = Layout(Grid(4, (0,), (1,), 5), axes=(0, 1))
    place = Scattered(torch.Size((6, 5)), torch.arange(6)[:, None], torch.arange(5)[None], 5)
    with FakeTensorMode(allow_non_fake_inputs=True):
        for z, where in ((torch.empty(6, 5, 3, 3), layout), (torch.empty(6, 5), Layout(place))):
            told = reduced(z, where, 6, Activation("relu6", ceiling=6.0))
            assert told.on.shape == (5,)
            assert classify(*told.points, RELU).shape == (6,)
