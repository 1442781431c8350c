"""A fleet as a whole: independence, faults, Ctrl-C, progress, what is refused."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from alive.data import moons, tensors
from alive.errors import AliveError
from alive.penalties import Schedule
from alive.train import LrSchedule
from alive_papers.fleet import (
    MAX_WIDTH,
    METHODS,
    EpochHealth,
    Fade,
    Gate,
    Member,
    fleet_bar,
    train_fleet,
    train_supply,
)

MOONS = moons()


def mixed(epochs: int = 12) -> list[Member]:
    """One of each method, of different sizes."""
    return [Member(2 + n, 2 + (n + 1) % 4, method=name, seed=n, epochs=epochs + n) for n, name in enumerate(METHODS)]


class Watcher:
    """Remembers what it was told; may interrupt."""

    def __init__(self, interrupt: bool = False) -> None:
        self.interrupt, self.told, self.closed = interrupt, [], 0  # type: ignore[var-annotated]

    def start(self, members: int, epochs: int) -> None:
        self.told.append((members, epochs))

    def update(self, members: int, epochs: int, rate: float) -> None:
        self.told.append((members, epochs))
        assert rate >= 0
        if self.interrupt and members == 1:
            raise KeyboardInterrupt

    def close(self) -> None:
        self.closed += 1


@pytest.mark.contract
def test_results_depend_neither_on_threads_nor_on_company() -> None:
    fleet = mixed()
    together = train_fleet(fleet, MOONS, threads=3).members
    backwards = train_fleet(fleet[::-1], MOONS, threads=2).members[::-1]
    alone = [train_fleet([member], MOONS, threads=1).members[0] for member in fleet]
    for results in zip(together, backwards, alone, strict=True):
        for other in results[1:]:
            np.testing.assert_array_equal(results[0].log, other.log)
            np.testing.assert_array_equal(results[0].weights, other.weights)
            assert results[0].member == other.member


class OneByOne:
    """Hands out one member at a time, and keeps what it is told."""

    def __init__(self, members: list[Member]) -> None:
        self.left, self.told = list(members), []  # type: ignore[var-annotated]

    def more(self) -> list[Member]:
        some, self.left = self.left[:1], self.left[1:]
        return some

    def ended(self, some) -> None:  # type: ignore[no-untyped-def]
        self.told += some


@pytest.mark.twin
@pytest.mark.parametrize("threads", [1, 3])
def test_handed_out_one_by_one_members_become_what_they_become_together(threads: int) -> None:
    fleet = mixed()
    supply, watcher = OneByOne(fleet), Watcher()
    assert not train_supply(supply, MOONS, threads=threads, progress=watcher)
    assert sorted(each.number for each in supply.told) == list(range(len(fleet)))
    together = train_fleet(fleet, MOONS, threads=1).members
    for number, result, seconds in supply.told:
        np.testing.assert_array_equal(result.log, together[number].log)
        np.testing.assert_array_equal(result.weights, together[number].weights)
        assert seconds > 0
    assert watcher.told[-1] == (len(fleet), sum(member.epochs for member in fleet))
    assert watcher.closed == 1


def test_no_core_waits_for_a_long_member_while_there_are_others() -> None:
    supply = OneByOne([Member(50, 4, epochs=30_000), *(Member(2, 2, seed=seed, epochs=5) for seed in range(6))])
    train_supply(supply, MOONS, threads=2, record_every=100)
    assert [each.number for each in supply.told] == [1, 2, 3, 4, 5, 6, 0]


def test_ctrl_c_tells_of_those_that_ended_and_asks_for_no_more() -> None:
    supply = OneByOne([Member(2, 2, epochs=5), Member(50, 4, epochs=200_000), Member(2, 2, epochs=5)])
    assert train_supply(supply, MOONS, threads=1, record_every=1000, progress=Watcher(interrupt=True))
    assert [each.number for each in supply.told if each.result.finished] == [0]
    assert len(supply.left) == 1


def test_a_member_that_breaks_is_frozen_and_hurts_nobody() -> None:
    good = Member(3, 4, epochs=20, seed=1)
    bad = Member(3, 4, method="ReLU", optimiser="sgd", lr=1e30, epochs=20, seed=1)
    alone = train_fleet([good], MOONS, threads=1).members[0]
    both = train_fleet([bad, good, bad], MOONS, threads=1).members
    np.testing.assert_array_equal(both[1].log, alone.log)
    for broken in (both[0], both[2]):
        assert broken.stopped is not None
        assert "not finite" in broken.stopped
        assert "Try an lr below 1e+30" in broken.stopped
        assert len(broken.rows) < 20
        assert np.isfinite(broken.log).all()


def test_rows_are_recorded_every_so_often_and_last() -> None:
    member = Member(2, 4, epochs=10)
    often = train_fleet([member], MOONS, threads=1).members[0]
    seldom = train_fleet([member], MOONS, threads=1, record_every=4).members[0]
    assert [row.epoch for row in seldom.rows] == [3, 7, 9]
    assert seldom.rows == tuple(often.rows[epoch] for epoch in (3, 7, 9))
    assert seldom.last == often.last
    assert isinstance(often.last, EpochHealth)
    assert often.best.train_accuracy == max(row.train_accuracy for row in often.rows)
    assert often.best.test_accuracy == max(row.test_accuracy or 0 for row in often.rows)


def test_without_a_test_set() -> None:
    data = tensors(MOONS.train_x, MOONS.train_y)
    result = train_fleet([Member(2, 4, epochs=3)], data, threads=1).members[0]
    assert [row.test_accuracy for row in result.rows] == [None] * 3
    assert result.best.test_accuracy is None


def test_ctrl_c_returns_what_is_finished() -> None:
    short = Member(2, 3, epochs=50)
    endless = Member(2, 3, epochs=2**40, method="ReLU")
    watcher = Watcher(interrupt=True)
    sailed = train_fleet([endless, short, endless], MOONS, threads=3, record_every=2**37, progress=watcher)
    ended = train_fleet([short], MOONS, threads=1, record_every=2**37).members[0]
    assert sailed.interrupted
    assert watcher.closed == 1
    assert [result.stopped is None for result in sailed.members] == [False, True, False]
    assert sailed.finished == (sailed.members[1],)
    np.testing.assert_array_equal(sailed.members[1].log, ended.log)
    assert "interrupted" in str(sailed.members[0].stopped)


def test_a_member_that_never_began_says_so() -> None:
    members = [Member(2, 3, epochs=50), *[Member(2, 3, epochs=2**40)] * 2]
    sailed = train_fleet(members[::-1], MOONS, threads=1, record_every=2**37, progress=_Impatient())
    assert sailed.members[1].stopped == "interrupted before it began"
    assert sailed.members[1].last is None
    assert sailed.members[1].best.train_accuracy is None


class _Impatient(Watcher):
    def update(self, members: int, epochs: int, rate: float) -> None:
        raise KeyboardInterrupt


def test_progress_is_told_the_whole_way() -> None:
    watcher = Watcher()
    train_fleet([Member(2, 3, epochs=30), Member(2, 3, epochs=20)], MOONS, threads=1, progress=watcher)
    assert watcher.told[0] == (2, 50)
    assert watcher.told[-1] == (2, 50)
    assert watcher.closed == 1


def test_the_bar_shows_networks_and_rate(capsys: pytest.CaptureFixture[str]) -> None:
    bar = fleet_bar(show=True)
    bar.start(3, 90)
    bar.update(1, 30, 12345.6)
    bar.close()
    said = capsys.readouterr().err
    assert "1/3 networks" in said
    assert "12,346" in said


def test_the_caller_keeps_its_random_state() -> None:
    before = torch.random.get_rng_state()
    train_fleet(mixed(2), MOONS, threads=2)
    assert torch.equal(before, torch.random.get_rng_state())


def test_noise_reaches_the_mirrored_start() -> None:
    still = train_fleet([Member(3, 4, init="mirrored", noise=0.0, lr=1e-30, epochs=1)], MOONS, threads=1).members[0]
    weight = still.network().hidden[1].linear.weight  # type: ignore[union-attr,index]
    assert weight.round().abs().sum() == 8
    torch.testing.assert_close(weight, weight.round())


def test_open_skips_cannot_become_a_plain_network() -> None:
    result = train_fleet([Member(3, 4, method="Residual", epochs=2)], MOONS, threads=1).members[0]
    with pytest.raises(AliveError, match="open skips"):
        result.network()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"depth": 0}, "depth must be a whole number of at least 1, got 0"),
        ({"width": MAX_WIDTH + 1}, f"width must be a whole number from 1 to {MAX_WIDTH}"),
        ({"method": "SepUP"}, "did you mean 'Sep-UP'"),
        ({"init": "gloro"}, "did you mean 'glorot'"),
        ({"weight": math.nan}, "weight must be a Schedule, or finite"),
        ({"aggregate": "norm"}, "unknown aggregate"),
        ({"method": "Farkas", "width": 1}, "Farkas layer needs width 2"),
        ({"method": "VAN", "architecture": "keras_same"}, "has no van block"),
        ({"init": "mirrored", "width": 1}, "width 2 or more"),
        ({"noise": 0.5}, "noise belongs to"),
        ({"output_lr": 0.0}, "output_lr must be finite and above 0"),
        ({"output_lr": 0.1, "architecture": "keras_same"}, "architecture 'keras_same' has no output_lr"),
        ({"output_lr": 0.1, "method": "CReLU", "width": 4}, "CReLU has no output_lr"),
        (
            {"init": "looks-linear", "architecture": "keras_same"},
            "'looks-linear' does not belong to the architecture 'keras_same'",
        ),
        ({"method": "CReLU"}, "width must be even"),
        ({"method": "TAT", "init": "mirrored", "width": 4}, "belongs to ReLU layers that are not Farkas"),
        ({"method": "ReZero", "init": "lsuv"}, "'lsuv' belongs to plain blocks, not rezero"),
        ({"method": "ReZero", "architecture": "keras_same"}, "has no rezero block"),
        ({"lr": 0.0, "epochs": 0, "seed": -1}, "seed must be a whole number of at least 0, got -1; epochs must be"),
    ],
)
def test_bad_settings_are_refused(settings: dict[str, object], said: str) -> None:
    with pytest.raises(AliveError) as caught:
        replace(Member(2, 3), **settings)  # type: ignore[arg-type]
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("member", "said"),
    [
        (Member(2, 3, batch_size=86), r"member 1 \(2x3 Sep-UP\): batch_size 86 is larger than the 85 training points"),
        (Member(2, 3, method="ReLU+BN", batch_size=28), "leaves a batch of one"),
        (Member(10**6, 100), "GiB"),
    ],
)
def test_what_does_not_fit_the_data_is_refused(member: Member, said: str) -> None:
    with pytest.raises(AliveError, match=said):
        train_fleet([Member(2, 3), member], MOONS)


def test_a_fleet_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(AliveError, match="at least one member"):
        train_fleet([], MOONS)
    with pytest.raises(AliveError, match=r"record_every must be at least 1, got 0; threads must be at least 1, got 0"):
        train_fleet([Member(2, 3)], MOONS, record_every=0, threads=0)
    with pytest.raises(AliveError, match="reads points of two features"):
        train_fleet([Member(2, 3, architecture="keras_same")], tensors([[0.0], [1.0]], [0, 1]))


@pytest.mark.parametrize(
    ("build", "said"),
    [
        (lambda: LrSchedule("steps"), "did you mean 'step'"),
        (lambda: LrSchedule("step"), "milestones and the shape 'step' go together"),
        (lambda: Gate(eta=-1.0), "eta must be finite"),
        (lambda: Fade(1.0), "p0 must be at least 0 and below 1"),
    ],
)
def test_parts_of_a_member_are_checked(build: object, said: str) -> None:
    with pytest.raises(AliveError, match=said):
        build()  # type: ignore[operator]


def test_members_can_be_told_apart_and_kept_in_sets() -> None:
    assert len({Member(2, 3), Member(2, 3), Member(2, 3, weight=Schedule(1e-3))}) == 2
