"""Which engine trains a network: what the fleet takes over is the loop's very network, and rows tell them apart."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from alive.data import Augment, tensors
from alive.train import Settings
from alive_papers.choice import quickest
from alive_papers.experiments import Cell
from alive_papers.fleet import Member, train_fleet
from alive_papers.net import Net, train_net

THIN = Net(
    "rectangle",
    4,
    3,
    "Sep-UP",
    7,
    (("head", "flatten"), ("init", "glorot"), ("batch_norm", False)),
    (("weight", 1e-3), ("aggregate", "sumsq"), ("mode", "UP"), ("conv", "channel")),
    training=Settings(epochs=3, batch_size=20, lr=1e-3, shuffle=True, running=True, channels_last=True),
)


@pytest.mark.twin
@pytest.mark.parametrize(
    "net",
    [
        THIN,
        replace(THIN, training=replace(THIN.training, augment=Augment(crop=2, cutout=3))),
        replace(THIN, separation=(), options=(("head", "mean"), ("kernel", 1))),
        replace(THIN, separation=None, method="ReLU+BN", options=(("head", "flatten"), ("batch_norm", True))),
    ],
    ids=["Sep-UP", "augmented", "1x1", "norm"],
)
def test_the_fleet_trains_the_very_network_of_the_loop(net: Net) -> None:
    x = torch.rand(50, 1, 9, 9, generator=torch.Generator().manual_seed(0))
    data = tensors(x, torch.arange(50) % 5, test_x=x[:9], test_y=torch.arange(9) % 5, classes=5, name="maps")
    member = quickest(net)
    assert isinstance(member, Member)
    ours, theirs = train_fleet([member], data).members[0].curves, train_net(net, data).curves
    for column in ("loss", "penalty", "train_accuracy", "test_accuracy"):
        np.testing.assert_allclose(ours[column], theirs[column], rtol=2e-4, atol=1e-6)


@pytest.mark.parametrize(
    "change",
    [
        {"width": 33},
        {"network": "resnet"},
        {"options": (("head", "pool"),)},
        {"separation": (("aggregate", "norm"),)},
        {"separation": (("include_output", True),)},
        {"separation": (("aggregate", "sumsq"),)},  # has no weight by default, which the loop says
        {"separation": (), "options": (("head", "flatten"), ("batch_norm", True))},
        {"options": (("head", "flatten"), ("kernel", 5))},
        {"method": "mine"},
        {"training": replace(THIN.training, weight_decay=0.1)},
        {"separation": None, "method": "ReLU", "gate": ()},
    ],
)
def test_what_the_fleet_cannot_express_stays_with_the_loop(change: dict[str, object]) -> None:
    assert quickest(replace(THIN, **change)).engine == "loop"  # type: ignore[arg-type]


def test_rows_of_the_two_engines_are_never_mixed_and_name_engine_and_revision() -> None:
    fleet, loop = Cell(quickest(THIN), "mnist"), Cell(THIN, "mnist")
    assert fleet.key != loop.key
    assert fleet.settings["engine"] == "conv-fleet 1"
    assert fleet.at(2).settings["engine"] == "conv-fleet 2"
    assert len({fleet.key, fleet.at(2).key}) == 2
    assert "engine" not in loop.settings
    assert "engine" not in Cell(Member(3, 4)).settings
