"""Shrinking: planted units are found, the outputs stay the same, the model is not touched."""

from __future__ import annotations

from copy import deepcopy

import pytest
import torch
from shrink_models import Planted, conv, copy, dense, kill, lift, residual, seeded
from torch import Tensor, nn

from alive.diagnosis import census
from alive.surgery import shrink

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


def test_the_feed_forward_layers_of_a_transformer_shrink():
    from transformers import OPTConfig, OPTForCausalLM

    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "ffn_dim": 24, "num_hidden_layers": 1, "num_attention_heads": 2}
    net = OPTForCausalLM(
        OPTConfig(vocab_size=30, max_position_embeddings=16, word_embed_proj_dim=16, use_cache=False, **sizes)
    ).eval()
    kill(net.model.decoder.layers[0].fc1, 5), copy(net.model.decoder.layers[0].fc1, 9, 8, 2.0)
    tokens = {"input_ids": torch.randint(30, (12, 5))}
    done = shrink(net, tokens)
    assert found(done) == {"model.decoder.layers.0.fc1": {5: "dead", 9: "multiple"}}
    assert any(note.startswith("lm_head:") for note in done.report.notes)  # its weight is the embedding's
    with torch.no_grad():
        a, b = net(**tokens).logits, done.model(**tokens).logits
    assert float((a - b).abs().max()) <= 1e-5 * float(a.abs().max())
