"""Census: equal to brute force over all pre-activations, whatever the batches."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from planted import KINDS, Dense, Kept, planted, same
from torch import Tensor, nn

from alive.diagnosis import Tally, census
from alive.diagnosis.census import ALIVE
from alive.errors import AliveError
from alive.functional import Activation
from alive.taps import Declared


def by_hand(model: Kept, x: Tensor) -> tuple[list[Tally], list[Tally], Tally, list[int]]:
    """Definitions 1 and 2 applied to every pre-activation: units and points by layer, points overall, death places."""
    model.kept = []
    with torch.no_grad():
        model(x)
    kept, model.kept = model.kept, None

    def tally(on: Tensor) -> Tally:  # [things, values]
        dead, linear = ~on.any(1), on.all(1)
        return Tally(int(dead.sum()), int(linear.sum()), int((~dead & ~linear).sum()))

    units = [tally((z > 0).flatten(0, 1).T) for z in kept]
    points = [tally((z > 0).flatten(1)) for z in kept]
    overall, places = [0, 0, 0], []
    for i in range(len(x)):
        place = next((number for number, z in enumerate(kept) if not (z[i] > 0).any()), ALIVE)
        places.append(place)
        overall[0 if place != ALIVE else 1 if all((z[i] > 0).all() for z in kept) else 2] += 1
    return units, points, Tally(*overall), places


@pytest.mark.twin
@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_a_census_equals_brute_force(kind: Callable[[], Kept], seed: int) -> None:
    model = planted(kind, seed)
    x = torch.randn(13, 3)
    units, points, overall, places = by_hand(model, x)
    found = census(model, x, keep_points=True)
    assert [layer.units for layer in found.layers] == units
    assert [layer.points for layer in found.layers] == points
    assert found.points == overall
    assert found.died_at.tolist() == places
    assert [layer.first_deaths for layer in found.layers] == [places.count(n) for n in range(len(units))]


@pytest.mark.law
@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000), sizes=st.lists(st.integers(1, 6), min_size=1, max_size=6))
def test_any_batching_gives_the_same_census(seed: int, sizes: list[int]) -> None:
    model = planted(Dense, seed)
    x = torch.randn(sum(sizes), 3)
    same(census(model, list(x.split(sizes)), keep_points=True), census(model, x, keep_points=True))


@pytest.mark.law
@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000), cut=st.integers(1, 11))
def test_parts_add_up_to_the_whole_in_order(seed: int, cut: int) -> None:
    model = planted(Dense, seed)
    x = torch.randn(12, 3)
    a, b = (census(model, part, keep_points=True) for part in (x[:cut], x[cut:]))
    same(a + b, census(model, x, keep_points=True))


def test_points_are_not_kept_unless_asked_or_unless_both_parts_have_them() -> None:
    model, x = planted(Dense, 0), torch.randn(6, 3)
    kept, lost = census(model, x, keep_points=True), census(model, x)
    assert lost.died_at is None
    assert (kept + lost).died_at is None
    assert "died_at" not in lost.to_dict()


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_broken_weights_are_reported_where_they_are(bad: float) -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 3), nn.ReLU())
    model[2].bias.data[1] = bad
    found = census(model, torch.randn(5, 3))
    assert found["1"].units.broken == 0
    assert found.to_dict()["layers"][1]["broken_units"] == [1]
    assert found.points == Tally(broken=5)
    assert (found + found).units.broken == 1


def test_a_saturated_relu6_unit_is_dead_and_a_bent_one_is_not_linear() -> None:
    model = nn.Sequential(nn.Linear(1, 3), nn.ReLU6())
    model[0].weight.data[:] = torch.tensor([[1.0], [1.0], [1.0]])
    model[0].bias.data[:] = torch.tensor([100.0, 6.0, 3.0])  # always above 6; about 6; in between
    assert census(model, torch.tensor([[-1.0], [1.0]])).units == Tally(dead=1, linear=1, nonlinear=1)


def test_a_declared_activation_is_counted_with_its_cutoff() -> None:
    class Late(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return F.relu(x - 5)

    model, x = nn.Sequential(nn.Identity(), Late()), torch.tensor([[1.0, 6.0], [2.0, 7.0]])
    found = census(model, x, declared=Declared(activations={Late: Activation("late", cutoff=5.0)}))
    assert found.units == Tally(dead=1, linear=1)


def test_patterns_choose_layers_and_a_miss_is_told() -> None:
    model = planted(Dense, 0)
    assert [layer.name for layer in census(model, torch.randn(4, 3), layers=["*#2"]).layers] == ["relu#2"]
    with pytest.raises(AliveError, match=r"no tap matches the patterns in layers; there are relu, relu#2"):
        census(model, torch.randn(4, 3), layers=["hidden.*"])


def test_the_record_survives_json() -> None:
    found = census(planted(Dense, 2), torch.randn(10, 3), keep_points=True)
    record = json.loads(found.to_json())
    assert record == found.to_dict()
    assert record["points"]["dead"] == found.points.dead
    assert len(record["died_at"]) == 10
    for layer, kept in zip(found.layers, record["layers"], strict=True):
        assert (layer.name, layer.units.dead) == (kept["name"], len(kept["dead_units"]))


def test_a_layer_is_found_by_name() -> None:
    found = census(planted(Dense, 2), torch.randn(10, 3))
    assert found["relu#2"].name == "relu#2"
    with pytest.raises(KeyError):
        found["nothing"]
