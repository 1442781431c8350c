"""What a checkpoint of a converted model says, and how it comes back."""

from __future__ import annotations

import io

import pytest
import torch
from farkas_models import HandMade
from torch import nn

from alive.errors import AliveError
from alive.nn.farkas import FarkasLinear
from alive.surgery.farkas import to_farkas, to_plain
from alive_papers.networks import FarkasNet


@pytest.mark.parametrize("aggregation", ["mean", "learned"])
def test_a_checkpoint_loads_into_another_conversion(aggregation):
    """The other model gave up other units; rows and units come back to where they were."""
    x = torch.randn(4, 1, 6, 6)
    first = to_farkas(HandMade(norm=True), x, aggregation=aggregation)
    other = to_farkas(HandMade(norm=True), x, aggregation=aggregation, give_up="last")
    assert [c.unit for c in first.converted] != [c.unit for c in other.converted]
    file = io.BytesIO()
    torch.save(first.model.state_dict(), file)
    file.seek(0)
    other.model.load_state_dict(torch.load(file, weights_only=True))
    assert torch.equal(other.model.eval()(x), first.model.eval()(x))
    other.model.load_state_dict(other.model.state_dict())
    assert torch.equal(to_plain(other.model)(x), to_plain(first.model)(x))


def test_a_checkpoint_without_places_leaves_them():
    model = to_farkas(nn.Sequential(nn.Linear(3, 5), nn.ReLU()), torch.randn(9, 3)).model
    state = model.state_dict()
    place = int(state.pop("0.place"))
    model.load_state_dict(state)
    assert model[0].place == place


def test_the_last_unit_needs_no_words():
    assert not any("place" in name for name in FarkasNet(1, 2, stages=(1,), base=4).state_dict())
    layer, moved = FarkasLinear(3, 4), FarkasLinear(3, 4, place=1)
    layer.load_state_dict(moved.state_dict())
    assert layer.place == 1
    assert "place" in layer.state_dict()


def test_a_place_that_is_not_there_is_refused():
    with pytest.raises(AliveError, match="place must be one of 3 units, got 7"):
        FarkasLinear(3, 3).load_state_dict({**FarkasLinear(3, 3).state_dict(), "place": torch.tensor(7)})


def test_frozen_layers_stay_frozen():
    model = to_farkas(HandMade(norm=True), torch.randn(4, 1, 6, 6)).model.requires_grad_(False)
    assert not any(parameter.requires_grad for parameter in to_plain(model).parameters())
    model.blocks[0].requires_grad_(True)
    plain = to_plain(model)
    assert all(parameter.requires_grad for parameter in plain.blocks[0].parameters())
    assert not plain.stem.weight.requires_grad
