"""Units at the ceiling of their activation for every point: dead, as nothing passes, and said to be saturated."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import alive
from alive.findings.policy import Policy, places

X = torch.rand(20, 3, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("act", [nn.ReLU6(), nn.Hardtanh(0.0, 2.0), nn.Hardtanh()], ids=str)
@pytest.mark.parametrize(
    ("biases", "said"),
    [
        ((99.0, 99.0, 0.0, 0.0), "2 of 4 units are saturated for every point"),
        ((-99.0, -99.0, 0.0, 0.0), "2 of 4 units are off for every point"),
        ((-99.0, 99.0, 99.0, 0.0), r"3 of 4 units are off, or saturated (2), for every point"),
    ],
)
def test_what_is_at_the_ceiling_is_called_saturated(act, biases, said) -> None:
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(3, 4), act, nn.Linear(4, 1))
    with torch.no_grad():
        model[0].weight.mul_(0.5)
        model[0].bias.copy_(torch.tensor(biases))
        out = act(model[0](X))
    still = int((out == out[0]).all(0).sum())  # the same for every point, by what comes out
    census = alive.census(model, X)
    assert census.units.dead == still
    assert [a.found for a in census.findings if said in a.found]
    (found,) = [a for a in places(census.findings, Policy()) if a.rule == "ALV001"]
    assert found.message == said.replace("units are", "units of 0 → " + census.layers[0].activation.name + " are")
