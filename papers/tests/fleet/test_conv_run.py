"""Convolutions in the fleet as a whole: independence, faults, memory, what is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from test_fleet_run import Watcher

from alive.data import Augment, Data, moons, tensors
from alive.errors import AliveError
from alive_papers.engines import ENGINES
from alive_papers.experiments import Cell
from alive_papers.fleet import Member, fleet, train_fleet
from alive_papers.fleet.architectures import ARCHITECTURES


def images(points: int = 40, channels: int = 1, side: int = 8) -> Data:
    x = torch.rand(points, channels, side, side, generator=torch.Generator().manual_seed(0))
    return tensors(x, torch.arange(points) % 4, classes=4, name="maps")


MAPS = images()
PLAIN = Member(2, 4, "ReLU", architecture="conv", epochs=4, batch_size=24, shuffle=True, lr=0.01)


def test_results_depend_neither_on_threads_nor_on_company() -> None:
    fleet = [
        replace(PLAIN, method=method, width=width, seed=seed)
        for seed, (method, width) in enumerate([("ReLU", 2), ("Sep-UP", 4), ("ReLU+BN", 3), ("VAN", 4), ("Sep-L", 5)])
    ]
    fleet.append(Member(2, 4, epochs=4))  # a dense one among them
    together = train_fleet(fleet, MAPS, threads=3).members
    backwards = train_fleet(fleet[::-1], MAPS, threads=2).members[::-1]
    alone = [train_fleet([member], MAPS, threads=1).members[0] for member in fleet]
    for results in zip(together, backwards, alone, strict=True):
        for other in results[1:]:
            np.testing.assert_array_equal(results[0].log, other.log)
            np.testing.assert_array_equal(results[0].weights, other.weights)


def test_a_member_that_breaks_is_frozen_and_hurts_nobody() -> None:
    bad = replace(PLAIN, optimiser="sgd", lr=1e30)
    alone = train_fleet([PLAIN], MAPS, threads=1).members[0]
    broken, beside = train_fleet([bad, PLAIN], MAPS, threads=1).members
    np.testing.assert_array_equal(beside.log, alone.log)
    assert "not finite" in str(broken.stopped)
    assert np.isfinite(broken.log).all()


def test_ctrl_c_returns_what_is_finished() -> None:
    endless = replace(PLAIN, epochs=2**40, augment=Augment())
    sailed = train_fleet([endless, PLAIN, endless], MAPS, threads=3, record_every=2**37, progress=Watcher(True))
    ended = train_fleet([PLAIN], MAPS, threads=1, record_every=2**37).members[0]
    assert sailed.interrupted
    assert sailed.finished == (sailed.members[1],)
    np.testing.assert_array_equal(sailed.members[1].log, ended.log)
    np.testing.assert_array_equal(sailed.members[1].weights, ended.weights)
    assert "interrupted" in str(sailed.members[0].stopped)


@pytest.mark.parametrize(
    ("change", "loss", "penalty", "key"),
    [
        ({}, 1.266732, 0, "761b31332f29c99618d3cd259c63cf13"),
        ({"method": "ReLU+BN", "head": "mean"}, 1.420040, 0, "97fb2c653a054698103419f4367fc904"),
        ({"method": "Sep-UP", "weight": 1e-3}, 1.260347, 0.007105146, "1c3010c3aad91a8e2ba31643de6acda8"),
        ({"method": "Sep-L", "weight": 1e-3, "kernel": 1}, 1.328164, 0.001051675, "fbc2ffcd3f987d7ed31514f9f536835f"),
        (
            {"method": "Sep-UP", "weight": 1e-3, "conv": "position"},
            1.399236,
            0.5208212,
            "3f795bc3ea9ec80591ec5d8bc0e0197a",
        ),
        ({"method": "VAN", "optimiser": "sgd"}, 1.379039, 0, "e95a28d2a937e8817d05a2629fee06fc"),
    ],
    ids=lambda value: value.get("method", "ReLU") if isinstance(value, dict) else "",
)
def test_the_first_revision_gives_these_numbers(
    change: dict[str, object], loss: float, penalty: float, key: str
) -> None:
    """If this fails on purpose, the engine gives other numbers for the same settings: raise its revision."""
    member = replace(PLAIN, **change)  # type: ignore[arg-type]
    last = train_fleet([member], MAPS, threads=1).members[0].last
    assert last is not None
    assert (last.loss, last.penalty) == pytest.approx((loss, penalty), rel=1e-4)
    assert Cell(member, "mnist", revision=1).key == key, "rows that are stored would not be found"


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"width": 33}, "at most 32 channels"),
        ({"kernel": 5}, "kernel must be 1 or 3, got 5"),
        ({"head": "max"}, "unknown head 'max'"),
        ({"conv": "pixel"}, "unknown conv 'pixel'"),
        ({"method": "Farkas"}, "has no farkas block"),
        ({"architecture": "dense", "head": "mean"}, "head belongs to the architecture 'conv', not 'dense'"),
        ({"init": "mirrored", "width": 1}, "width 2 or more"),
    ],
)
def test_bad_settings_are_refused(settings: dict[str, object], said: str) -> None:
    with pytest.raises(AliveError) as caught:
        replace(PLAIN, **settings)  # type: ignore[arg-type]
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("member", "data", "said"),
    [
        (PLAIN, moons(), "reads square images of 1 or 3 channels"),
        (PLAIN, images(side=33), "sides from 8 to 32"),
        (PLAIN, images(channels=2), "1 or 3 channels"),
        (replace(PLAIN, method="Sep-U", conv="position", batch_size=1), MAPS, "choose a larger batch_size"),
        (replace(PLAIN, batch_size=41), MAPS, "larger than the 40 training points"),
        (replace(PLAIN, depth=10**6, width=32), MAPS, "GiB"),
    ],
)
def test_what_does_not_fit_the_data_is_refused_before_training(member: Member, data: Data, said: str) -> None:
    with pytest.raises(AliveError, match=said):
        train_fleet([member], data)


def test_the_memory_that_is_told_is_what_is_taken() -> None:
    member = replace(PLAIN, method="Sep-UP", depth=9)
    form = member.form
    taken = sum(part.nbytes for part in form.room(member, MAPS).train if part.base is None)  # no view of another
    assert taken <= form.memory(member, MAPS) <= 1.2 * taken


def test_the_images_themselves_need_memory_too(monkeypatch: pytest.MonkeyPatch) -> None:
    network, points = PLAIN.form.memory(PLAIN, MAPS), 4 * MAPS.train_x.numel()
    monkeypatch.setattr(fleet, "_free", lambda: float(network + points))
    train_fleet([replace(PLAIN, epochs=1)], MAPS, threads=1)
    monkeypatch.setattr(fleet, "_free", lambda: float(network + points - 1))
    with pytest.raises(AliveError, match=r"networks at once: 1, which need about 0\.0 GiB; 0\.0 are free"):
        train_fleet([PLAIN], MAPS, threads=1)


def test_ctrl_c_need_not_wait_for_an_evaluation() -> None:
    """The first row of this network takes most of a minute: Ctrl-C comes in the midst of it."""
    slow = replace(PLAIN, depth=500, width=16, batch_size=1, epochs=1)
    few = images(points=1)
    many = tensors(*few.train, test_x=MAPS.train_x.repeat(500, 1, 1, 1), test_y=MAPS.train_y.repeat(500), classes=4)
    sailed = train_fleet([slow], many, threads=1, progress=Hasty())
    assert sailed.interrupted
    assert sailed.members[0].stopped == "interrupted in epoch 0"
    assert len(sailed.members[0].log) == 0


class Hasty(Watcher):
    """Interrupts once the only step of the first epoch is long done."""

    def update(self, members: int, epochs: int, rate: float) -> None:
        self.told.append((members, epochs))
        if len(self.told) > 20:
            raise KeyboardInterrupt


@pytest.mark.contract
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_every_architecture_names_its_engine(name: str) -> None:
    assert ARCHITECTURES[name].engine in ENGINES
