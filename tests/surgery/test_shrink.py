"""Shrinking: planted units are found, the outputs stay the same, the model is not touched."""

from __future__ import annotations

from copy import deepcopy

import pytest
import torch
from shrink_models import Planted, conv, copy, dense, kill, lift, residual, seeded
from torch import Tensor, nn

from alive.diagnosis import census
from alive.errors import AliveError
from alive.surgery import load_shrunk, save_shrunk, shrink

SAME = {torch.float32: 1e-5, torch.float64: 1e-12}
GROUNDS = ("observed", "certified")


def points(planted: Planted, n: int = 200, seed: int = 0) -> Tensor:
    kind = next(planted.net.parameters()).dtype
    return (2 * torch.rand(n, *planted.shape, generator=torch.Generator().manual_seed(seed)) - 1).to(kind)


def shrunk(planted: Planted, ground: str):
    """Shrink on points, or over the box that they are drawn from, which touches the model in nothing."""
    before = deepcopy(planted.net.state_dict())
    x = points(planted)
    done = shrink(planted.net, x) if ground == "observed" else shrink(planted.net, x, box=(-1.0, 1.0), time_limit=2)
    after = planted.net.state_dict()
    assert all(torch.equal(after[name], value) for name, value in before.items())
    assert done.report.ground == ground
    return done


def apart(one: nn.Module, other: nn.Module, x: Tensor) -> float:
    with torch.no_grad():
        a, b = one(x), other(x)
    return float((a - b).abs().max() / a.abs().max())


def found(done) -> dict[str, dict[int, str]]:
    return {layer.layer: {gone.unit: gone.why for gone in layer.gone} for layer in done.report.layers if layer.gone}


def corners(planted: Planted, n: int = 200) -> Tensor:
    return points(planted, n, seed=5).sign()


def assert_same_everywhere(planted: Planted, done, ground: str) -> None:
    """On the data; certified also on other points of the box and its corners."""
    kind = next(planted.net.parameters()).dtype
    assert apart(planted.net, done.model, points(planted)) <= SAME[kind]
    if ground == "certified":
        assert apart(planted.net, done.model, points(planted, 500, seed=9)) <= SAME[kind]
        assert apart(planted.net, done.model, corners(planted)) <= SAME[kind]


@pytest.mark.law
@pytest.mark.parametrize("ground", GROUNDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("seed", [0, 1])
def test_planted_units_of_dense_networks_go(seed, dtype, ground):
    planted = dense(seed, dtype)
    done = shrunk(planted, ground)
    gone = found(done)
    for layer, units in planted.units.items():
        assert {unit: gone[layer].get(unit) for unit in units} == units
    assert list(gone["0"].values()).count("linear") == 3  # seven of four inputs
    assert done.model[0].out_features == done.model[2].in_features == 16 - len(gone["0"])
    assert_same_everywhere(planted, done, ground)


@pytest.mark.law
@pytest.mark.parametrize("ground", GROUNDS)
@pytest.mark.parametrize("seed", [0, 1])
def test_a_channel_of_a_sum_goes_where_it_is_dead_on_all_branches(seed, ground):
    planted = residual(seed)
    done = shrunk(planted, ground)
    gone = found(done)
    for layer, units in planted.units.items():
        assert {unit: gone[layer].get(unit) for unit in units} == units
    assert 4 not in gone["stem"]  # it is dead on two of three
    assert done.model.stem.out_features == done.model.head.in_features == 5
    assert_same_everywhere(planted, done, ground)


@pytest.mark.law
@pytest.mark.parametrize("ground", GROUNDS)
@pytest.mark.parametrize(
    ("activation", "padding", "pool"),
    [
        (nn.ReLU(), 1, nn.MaxPool2d(2)),
        (nn.ReLU(inplace=True), 0, nn.AvgPool2d(2)),
        (nn.ReLU6(), 1, nn.AvgPool2d(2)),
    ],
)
def test_planted_channels_of_convolutions_go(activation, padding, pool, ground):
    planted = conv(0, activation, padding, pool, torch.float64)
    done = shrunk(planted, ground)
    gone = found(done)
    for layer, units in planted.units.items():
        assert {unit: gone.get(layer, {}).get(unit) for unit in units} == units, layer
    assert isinstance(done.model.norm, nn.Identity)
    assert done.model.deep.groups == done.model.a.out_channels == 7
    assert (done.model.grouped.in_channels, done.model.grouped.out_channels) == (6, 4)
    assert_same_everywhere(planted, done, ground)


@pytest.mark.twin
def test_the_dead_and_linear_units_are_those_of_the_census():
    planted = dense(3)
    x = points(planted)
    counted = census(planted.net, x)
    gone = found(shrink(planted.net, x))
    for layer, seen in zip(("0", "2"), counted.layers, strict=True):
        dead = {unit for unit, why in gone[layer].items() if why == "dead"}
        assert dead == set((seen.top <= 0).nonzero()[:, 0].tolist())
        linear = {unit for unit, why in gone[layer].items() if why == "linear"}
        assert linear <= set((seen.bottom >= 0).nonzero()[:, 0].tolist())


def test_what_is_behind_an_unbounded_step_is_not_taken_for_constant():
    """Nothing is known behind a LayerNorm: only what the weights of two units show goes."""
    net = seeded(
        nn.Sequential(nn.Linear(3, 6), nn.LayerNorm(6), nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 2)), 0, torch.float64
    )
    copy(net[2], 3, 2, 2.0), lift(net[2], 4, 1e3)
    planted = Planted(net, (3,))
    done = shrunk(planted, "certified")
    assert found(done) == {"2": {3: "multiple"}}
    assert done.report.notes == ()
    assert_same_everywhere(planted, done, "certified")


def opt() -> tuple[nn.Module, dict[str, Tensor]]:
    """As transformers makes it: with a cache, and the embedding's weight in the last layer, too."""
    from transformers import OPTConfig, OPTForCausalLM

    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "ffn_dim": 24, "num_hidden_layers": 2, "num_attention_heads": 2}
    net = OPTForCausalLM(OPTConfig(vocab_size=30, max_position_embeddings=16, word_embed_proj_dim=16, **sizes)).eval()
    for layer in net.model.decoder.layers:
        kill(layer.fc1, 5), copy(layer.fc1, 9, 8, 2.0)
    return net, {"input_ids": torch.randint(30, (12, 5))}


def test_the_feed_forward_layers_of_a_transformer_shrink(tmp_path):
    net, tokens = opt()
    done = shrink(net, tokens)
    assert found(done) == {f"model.decoder.layers.{k}.fc1": {5: "dead", 9: "multiple"} for k in range(2)}
    assert [note for note in done.report.notes if note.startswith("lm_head:")]  # its weight is the embedding's
    assert net.config.use_cache
    assert (net.config.ffn_dim, done.model.config.ffn_dim) == (24, 22)
    with torch.no_grad():
        a, b = net(**tokens).logits, done.model(**tokens).logits
        assert float((a - b).abs().max()) <= 1e-5 * float(a.abs().max())
        save_shrunk(done.model, tmp_path / "small.safetensors")
        again = load_shrunk(net, tmp_path / "small.safetensors")
        assert sum(p.numel() for p in again.parameters()) == done.report.parameters_left  # what was tied is tied
        save_shrunk(done.model, tmp_path / "small")
        for other in (again, type(net).from_pretrained(tmp_path / "small")):
            assert torch.equal(other.eval()(**tokens).logits, b)


def test_a_configuration_that_cannot_tell_the_widths_is_refused(tmp_path):
    net, tokens = opt()
    kill(net.model.decoder.layers[0].fc1, 7)
    done = shrink(net, tokens)
    assert done.model.config.ffn_dim == 24
    assert any("layers of width 24 differ now, 21 and 22" in note for note in done.report.notes)
    with pytest.raises(AliveError, match="differ now, 21 and 22"):
        save_shrunk(done.model, tmp_path / "small")
    assert not (tmp_path / "small").exists()


def test_how_near_units_are_to_waking_is_told():
    net = nn.Sequential(nn.Linear(1, 4), nn.ReLU(), nn.Linear(4, 1))
    with torch.no_grad():
        net[0].weight.copy_(torch.tensor([[1.0], [1.0], [1.0], [2.0]]))
        net[0].bias.copy_(torch.tensor([0.0, -3.0, -1.05, -1.7]))  # of x in [0, 1]; the last bends where x > 0.85
    x = torch.linspace(0, 1, 101)[:, None].double()
    done = shrink(net.double(), x)
    assert done.report.points == 101
    assert {gone.unit: round(gone.margin, 6) for gone in done.report.gone} == {1: 2.0, 2: 0.05}
    assert done.report.nearly_awake == 1
    assert "nearly awake: 1 of 2" in str(done)
    seen = shrink(net.double(), x[:80], held_out=x[80:])
    assert (seen.report.stirred.quiet, seen.report.stirred.woken, seen.report.stirred.points) == (4, 1, 21)
    order = torch.cat([x[:72], x[72:]])[torch.arange(101) % 101]
    last = torch.arange(80) % 10 == 9
    mixed = torch.empty(80, 1).double()
    mixed[~last], mixed[last] = order[:72], x[-8:]  # only each tenth point wakes the last unit
    told = shrink(net.double(), mixed).report
    assert (told.stirred.quiet, told.stirred.woken, told.stirred.points) == (4, 1, 8)
    assert 3 not in {gone.unit for gone in told.gone}  # all points decide


def test_every_layer_has_a_why():
    net = nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 2), Own(2, 2))
    done = shrink(net, torch.randn(50, 3))
    assert all(layer.in_words for layer in done.report.layers)
    assert "tanh has no straight piece" in done.report.layers[0].in_words
    assert any(note.startswith("5: Own is no plain") for note in done.report.notes)


class Own(nn.Linear):
    """A layer of a class of one's own."""
