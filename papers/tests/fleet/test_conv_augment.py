"""Images that are moved, mirrored and blanked by chance: the fleet reads the very images of the torch loop."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from test_conv_twin import expect_same, images, made

from alive.data import Augment, moons
from alive.errors import AliveError
from alive_papers.experiments import Cell
from alive_papers.fleet import Member, crew, train_fleet

COLOURED = images(channels=3)
MOVED = made("Sep-UP", augment=Augment(crop=2), optimiser="sgd", lr=0.02)
AUGMENTS = [
    Augment(crop=2),
    Augment(crop=0),  # mirrored alone
    Augment(crop=3, flip=False),
    Augment(crop=1, cutout=4),
    Augment(crop=0, flip=False, cutout=5, fill="mean"),
    Augment(crop=12, flip=True, cutout=30, fill="mean"),  # images that leave their frame, a square larger than it
]


@pytest.mark.twin
@pytest.mark.parametrize("augment", AUGMENTS, ids=str)
@pytest.mark.parametrize("shuffle", [True, False])
def test_a_member_equals_the_loop(augment: Augment, shuffle: bool) -> None:
    """Two batches an epoch, neither a whole number of blocks; a copy in the padding must not count."""
    expect_same(replace(MOVED, augment=augment, shuffle=shuffle), COLOURED)


@pytest.mark.twin
@pytest.mark.parametrize(
    "change",
    [
        {"method": "ReLU", "optimiser": "adam", "lr": 1e-3},
        {"method": "ReLU+BN", "head": "mean", "running": True},
        {"conv": "position", "kernel": 1, "batch_size": None},
        {"batch_size": 13, "epochs": 5, "running": True, "width": 5},
    ],
    ids=str,
)
def test_whatever_else_is_asked_for(change: dict[str, object]) -> None:
    expect_same(replace(MOVED, **change), images(side=11), atol=1e-3)  # type: ignore[arg-type]


def test_results_depend_neither_on_threads_nor_on_company() -> None:
    several = [replace(MOVED, augment=augment, seed=seed) for seed, augment in enumerate([None, *AUGMENTS[:3]])]
    together = train_fleet(several, COLOURED, threads=3).members
    alone = [train_fleet([member], COLOURED, threads=1).members[0] for member in several]
    for one, other in zip(together, alone, strict=True):
        np.testing.assert_array_equal(one.log, other.log)
        np.testing.assert_array_equal(one.weights, other.weights)
    assert len({member.weights.tobytes() for member in alone}) == len(alone)


@pytest.mark.parametrize("shuffle", [True, False])
def test_however_far_moves_are_laid_out_ahead_they_are_the_same(monkeypatch: pytest.MonkeyPatch, shuffle: bool) -> None:
    member = replace(MOVED, shuffle=shuffle)
    whole = train_fleet([member], COLOURED, threads=1).members[0]
    for ahead in (1, 3 * len(COLOURED.train_y)):  # an epoch at a time, and three
        monkeypatch.setattr(crew, "ORDERS", ahead)
        parts = train_fleet([member], COLOURED, threads=1).members[0]
        np.testing.assert_array_equal(parts.log, whole.log)
        np.testing.assert_array_equal(parts.weights, whole.weights)


def test_a_row_is_known_by_how_its_images_were_moved() -> None:
    plain, moved, blanked = (
        Cell(replace(MOVED, augment=augment), "mnist") for augment in (None, Augment(crop=2), Augment(crop=2, cutout=3))
    )
    assert len({plain.key, moved.key, blanked.key}) == 3
    assert "augment" not in plain.settings["member"], "rows from before augmentation keep their keys"
    assert moved.settings["member"]["augment"] == {"crop": 2, "flip": True, "cutout": 0, "fill": "zero"}
    assert moved.settings["engine"] == "conv-fleet 1"


def test_what_cannot_be_moved_is_refused() -> None:
    with pytest.raises(AliveError, match="augment belongs to the architecture 'conv', not 'dense'"):
        Member(2, 3, augment=Augment())
    with pytest.raises(AliveError, match="augment must be an Augment or None, got 'crop'"):
        replace(MOVED, augment="crop")  # type: ignore[arg-type]
    with pytest.raises(AliveError, match="reads square images"):
        train_fleet([MOVED], moons())
