"""What is said of inputs that are as long as the first, and how the user decides."""

from __future__ import annotations

import json

import pytest
import torch
from torch import nn

import alive


class Towers(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(3, 4), nn.Linear(3, 4)

    def forward(self, x, other):
        return torch.relu(self.a(x)), torch.relu(self.b(other))


def batch(points):
    return {"x": torch.randn(points, 3), "other": torch.randn(points, 3)}


def test_an_input_that_is_as_long_by_chance_is_told_and_the_user_decides():
    model, data = Towers(), [batch(6)]
    unsure = alive.census(model, data)
    assert [layer.points.unknown for layer in unsure.layers] == [0, 6]
    assert "paired by position" in unsure.layers[1].unknown[0]
    paired = alive.census(model, data, declared=alive.Declared(paired=["other"]))
    assert [layer.points.unknown for layer in paired.layers] == [0, 0]
    assert paired.paired == ("other",)
    assert [layer["paired_by_position"] for layer in json.loads(paired.to_json())["layers"]] == [[], ["other"]]
    assert "paired by position: other" in str(paired)
    assert "paired by position: other" in paired._repr_html_()
    none = alive.census(model, data, declared=alive.Declared(paired=[]))
    assert [layer.points.unknown for layer in none.layers] == [0, 6]
    assert not any("nothing shows" in why for why in none.layers[1].unknown)


def test_batches_of_several_lengths_decide():
    found = alive.census(Towers(), [batch(6), batch(6), batch(4)])
    assert [layer.points.unknown for layer in found.layers] == [0, 0]
    assert found.paired == ("other",)


def test_a_name_that_is_no_input_is_refused():
    with pytest.raises(alive.AliveError, match="input in paired"):
        alive.census(Towers(), [batch(6)], declared=alive.Declared(paired=["othr"]))


def test_the_penalty_leaves_points_out_that_are_not_known_to_be_paired():
    model = Towers()
    model.b.weight.data.abs_()
    model.b.bias.data.zero_()
    given = {"x": torch.randn(6, 3), "other": -torch.rand(6, 3)}

    def penalty(**options):
        with alive.Jumpstart(model, weight=1.0, aggregate="sumsq", **options) as keep:
            model(**given)
            first = keep.penalty()
            model(**given)
            return first.item(), keep.penalty().item()

    with pytest.warns(UserWarning, match="paired by position"):
        unsure = penalty()
    paired = penalty(declared=alive.Declared(paired=["other"]))
    units = penalty(mode="U", declared=alive.Declared(paired=["other"]))
    rest = penalty(mode="P", declared=alive.Declared(paired=["other"]))
    assert unsure[0] == pytest.approx(unsure[1])
    assert paired[0] == pytest.approx(units[0] + rest[0])
    assert unsure[0] < paired[0] - 1e-3
