"""Cells and their rows: identity by settings, and nothing lost between a member and its row."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from alive.data import moons
from alive.errors import AliveError
from alive.penalties import Schedule
from alive.penalties.multipliers import AUTO, WEIGHT
from alive.train import LrSchedule
from alive_papers.experiments import EXPERIMENTS, Cell, Row
from alive_papers.experiments.cell import canonical
from alive_papers.fleet import Fade, Member, train_fleet
from alive_papers.net import Net

CHANGES = {
    "depth": 4, "width": 5, "method": "Sep-U", "seed": 11, "weight": 1e-3, "aggregate": "sum", "balance": 0.51,
    "architecture": "keras_same", "init": "kaiming", "epochs": 7, "batch_size": 5, "shuffle": True, "optimiser": "sgd",
    "lr": 0.1, "schedule": LrSchedule("cosine"), "eps": 1e-8, "dropout": Fade(),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_every_setting_that_decides_the_result_changes_the_key(name):
    member = Member(3, 4)
    assert Cell(replace(member, **{name: CHANGES[name]})).key != Cell(member).key


def test_what_a_method_does_not_read_leaves_the_key():
    relu = Member(3, 4, "ReLU")
    for name, value in {"weight": 1.0, "aggregate": "sum", "balance": 0.9, "momentum": 0.1, "margin": 1.0}.items():
        assert Cell(replace(relu, **{name: value})).key == Cell(relu).key
    farkas = Member(3, 4, "Farkas")
    assert Cell(replace(farkas, margin=1.0)).key != Cell(farkas).key


def test_whole_numbers_and_floats_are_the_same_setting():
    assert Cell(Member(3, 4, weight=1, lr=1)).key == Cell(Member(3, 4, weight=1.0, lr=1.0)).key
    assert Cell(Member(3, 4, weight=Schedule(1.0))).settings["member"]["weight"]["start"] == 1.0


def test_keys_do_not_change_between_versions():
    """A changed key would silently repeat all stored work: change this text only on purpose."""
    assert Cell(Member(50, 4)).key == "94d66686645f2bcdde0afb9348726c21"


def test_cells_refuse_what_cannot_be():
    with pytest.raises(AliveError, match="unknown data 'mons': did you mean 'moons'"):
        Cell(Member(3, 4), data="mons")
    with pytest.raises(AliveError, match="only plain networks of a fleet are kept, not VAN"):
        Cell(Member(3, 4, "VAN"), keep_network=True)


@pytest.fixture(scope="module")
def trained():
    cells = [Cell(Member(3, 4, method, epochs=25), keep_network=True, trace=7) for method in ("Sep-UP", "ReLU+BN")]
    fleet = train_fleet([cell.member for cell in cells], moons(), threads=1)
    return [(cell, done, Row.of(cell, done)) for cell, done in zip(cells, fleet.members, strict=True)]


def test_a_row_survives_json(trained):
    for cell, done, row in trained:
        again = Row.read(cell, json.loads(canonical(row.result)), row.weights)
        assert again.result == row.result
        assert again.best_train == done.best.train_accuracy
        assert again.last.train_accuracy == done.rows[-1].train_accuracy


def test_the_kept_network_is_the_trained_one(trained):
    x = moons().train_x
    for _, done, row in trained:
        torch.testing.assert_close(row.network()(x), done.network()(x), rtol=0, atol=0)


def test_a_trace_is_thin_and_ends_with_the_last_epoch(trained):
    for cell, done, row in trained:
        epochs = row.trace["epoch"]
        assert len(epochs) <= cell.trace + 1
        assert epochs[0] == 0
        assert epochs[-1] == 24
        rows = done.rows
        expected = [rows[int(epoch)].train_accuracy for epoch in epochs]
        np.testing.assert_allclose(row.trace["train_accuracy"], expected, rtol=1e-4)


def test_a_network_that_broke_at_once_leaves_a_row_that_is_json():
    cell = Cell(Member(30, 4, "ReLU", optimiser="sgd", lr=1e30, epochs=5, init="mirrored"))
    (done,) = train_fleet([cell.member], moons(), threads=1).members
    row = Row.of(cell, done)
    assert row.stopped
    assert "NaN" not in canonical(row.result)


@pytest.mark.contract
@pytest.mark.parametrize(
    ("name", "scale"), [(name, scale) for name in EXPERIMENTS for scale in EXPERIMENTS[name].scales]
)
def test_every_experiment_expands_to_distinct_cells_that_claims_can_judge_when_empty(name, scale):
    experiment = EXPERIMENTS[name]
    for architecture in experiment.architectures:
        one, three = (experiment.cells(scale, seeds=n, architecture=architecture) for n in (1, 3))
        keys = [cell.key for cell in three]
        assert len(set(keys)) == len(keys) == 3 * len(one)
        assert {cell.key for cell in one} < set(keys)
    for claim in experiment.claims:
        assert claim.verdict(claim.measure([])) == "not run"
    assert len({claim.id for claim in experiment.claims}) == len(experiment.claims)


def test_grids_are_the_papers():
    fig1 = EXPERIMENTS["001-Fig1"].cells("paper")
    assert len(fig1) == 3 * 9 * 13
    assert {cell.member.depth for cell in fig1} == {1, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 110, 120}
    fig2 = EXPERIMENTS["004-Fig2"].cells("paper")
    assert len(fig2) == 432
    assert {(c.member.epochs, c.member.lr, c.member.weight, c.member.batch_size) for c in fig2} == {
        (5000, 0.01, 1e-4, None)
    }
    zero = EXPERIMENTS["001-Fig4"].cells("paper")[0].member
    assert (zero.init, zero.balance, zero.dropout) == ("zeros", 0.51, Fade(0.9, 1000, 0.1))


def test_experiments_share_cells():
    fig1, fig2 = ({cell.key for cell in EXPERIMENTS[name].cells("paper")} for name in ("001-Fig1", "004-Fig2"))
    assert len(fig1 & fig2) == 2 * 9 * 13  # ReLU and Sep-UP; every depth of 001 is one of 004
    table, long = ({cell.key for cell in EXPERIMENTS[name].cells("paper")} for name in ("001-T1", "001-Fig12"))
    assert len(table & long) == 1


def test_rivals_are_compared_with_the_very_networks_of_the_atlas():
    rivals, atlas = ({cell.key for cell in EXPERIMENTS[name].cells("paper")} for name in ("rivals", "atlas"))
    assert len(rivals & atlas) == 7 * 2 * 6  # methods, rates, places
    assert len(rivals) == (7 + 12) * 2 * 6


def test_bad_requests_are_refused():
    fig1 = EXPERIMENTS["001-Fig1"]
    with pytest.raises(AliveError, match=r"unknown scale 'papr'\. did you mean 'paper'"):
        fig1.cells("papr")
    with pytest.raises(AliveError, match="seeds must be at least 1"):
        fig1.cells(seeds=0)
    with pytest.raises(AliveError, match=r"001-T1 has no architecture 'keras_same'\. Choose dense"):
        EXPERIMENTS["001-T1"].cells(architecture="keras_same")


# Of the keys of all networks at all scales and two seeds: taken when sums of squares were the default, and of the four
# that have rows with batch norm when their training accuracy became that of the steps.
KNOWN = {
    "001-Fig1": "8ac10fc13a19",
    "001-Fig12": "e67214e173b9",
    "001-Fig2": "e324c68236b9",
    "001-Fig3": "52f5d903f73a",
    "001-Fig4": "02e56bc37c65",
    "001-Fig5": "725b96b86e81",
    "001-Fig9": "eb471c7adbae",
    "001-T1": "9ea6bf4cb3be",
    "004-Fig2": "00e8689c817e",
    "004-Fig3": "49ba9528744b",
    "004-Fig4": "95cb50828bf4",
    "004-T1": "a448288263ee",
    "atlas": "8dd209f67baa",
    "demo": "9cdc0e9101da",
    "depth-record": "ab7695b1948e",
}


@pytest.mark.parametrize("name", KNOWN)
def test_rows_of_earlier_versions_are_found_again(name: str) -> None:
    keys = {cell.key for scale in EXPERIMENTS[name].scales for cell in EXPERIMENTS[name].cells(scale, seeds=2)}
    assert hashlib.sha256(" ".join(sorted(keys)).encode()).hexdigest()[:12] == KNOWN[name]


def test_the_default_of_the_penalty_is_part_of_the_key_and_the_papers_sum_is_what_it_was() -> None:
    def key(*separation: tuple[str, object]) -> str:
        return Cell(Net("rectangle", 3, 4, "Sep-UP", separation=separation), "digits").key

    assert key() == key(("weight", WEIGHT)) == key(("aggregate", "meansq"))
    assert key(("weight", 1e-3), ("aggregate", "sumsq")) not in (key(("weight", 1e-3)), key())
    assert key(("weight", "auto")) not in (key(), key(("weight", 1e-3)))
    auto = Net("rectangle", 3, 4, "Sep-UP", separation=(("weight", "auto"),)).settings["separation"]
    assert {
        f"auto_{name}": value for name, value in AUTO.items()
    }.items() <= auto.items()  # other constants, other rows
    asked = Net("rectangle", 3, 4, "Sep-UP", separation=(("weight", 1e-3), ("aggregate", "sumsq"))).settings
    assert asked["separation"] == {"weight": 1e-3}
