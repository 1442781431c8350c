"""Races: the same on any number of cores, judged by points that were held out, kept and taken up again."""

from __future__ import annotations

import statistics
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from alive.cures import AS_IS, ORDER
from alive.diagnosis import census
from alive.errors import AliveError
from alive.race import Outcome, cure, lap
from alive.race import race as module
from alive.race.entry import FEWEST, opened
from alive.race.judge import Judge, is_small, rank, winner
from alive.race.lap import Runs
from alive.race.laps import Lap, Laps, Mark
from alive.race.result import Arm

X = torch.randn(80, 2, generator=torch.Generator().manual_seed(0))
Y = (X[:, 0] > 0).long()
QUICK = {"steps": 8, "seeds": 2, "lr": 0.02, "cures": ["mirrored", "rate/10"]}


def dense(depth: int = 1, width: int = 8, outputs: int = 1) -> nn.Sequential:
    layers = [part for _ in range(depth - 1) for part in (nn.Linear(width, width), nn.ReLU())]
    return nn.Sequential(nn.Linear(2, width), nn.ReLU(), *layers, nn.Linear(width, outputs))


def plain(outcome: Outcome) -> dict:
    """Without the time that each run took."""
    told = outcome.to_dict()
    for arm in told["arms"]:
        for run in arm["runs"]:
            run.pop("seconds")
    return told


def test_the_outcome_does_not_depend_on_the_number_of_processes() -> None:
    alone, two, three = (cure(dense, (X, Y), jobs=jobs, **QUICK) for jobs in (1, 2, 3))
    assert plain(alone) == plain(two) == plain(three)


def test_chance_of_the_caller_is_left_alone() -> None:
    before = torch.random.get_rng_state()
    cure(dense, (X, Y), jobs=1, **QUICK)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_a_healthy_network_is_told_that_nothing_is_wrong() -> None:
    found = cure(dense, (X, Y), steps=80, seeds=3, lr=0.05, cures=["mirrored", "standardise"])
    assert found.kind == "nothing is wrong"
    assert found.verdict.startswith("Nothing is wrong")
    assert (found.winner, found.code) == (AS_IS, "")
    assert found[AS_IS].trains == 3


def dead() -> nn.Sequential:
    model = dense(2)
    nn.init.constant_(model[2].bias, -99.0)
    return model


def test_a_broken_network_is_cured_and_the_control_runs_to_the_end() -> None:
    found = cure(dead, (X, Y), steps=80, seeds=2, lr=0.05, cures=["mirrored", "rate/10"])
    assert (found.kind, found.winner) == ("cured", "mirrored")
    assert 'alive.nn.initialise_(model, "mirrored")' in found.code
    assert found[AS_IS].steps == 80
    assert (found[AS_IS].trains, found["mirrored"].trains) == (0, 2)
    assert found["mirrored"].laps[0].before["units"]["dead"] < found[AS_IS].laps[0].before["units"]["dead"]
    assert "does not train" in found.verdict


def test_losers_are_stopped_early() -> None:
    found = cure(
        dead,
        (X, Y),
        steps=80,
        seeds=1,
        lr=0.05,
        cures=["mirrored", "kaiming", "rate/10", "skips", "glorot"],
    )
    assert {arm.steps for arm in found.arms} > {80}
    assert all(len(arm.laps[0].marks) == sum(arm.steps >= step for step in range(0, 81, 10)) for arm in found.arms)
    assert found["skips"].steps < 80 or found["kaiming"].steps < 80
    assert found["rate/10"].steps == 80  # the best that changes the steps alone runs to the end, as the control does


def test_where_there_is_nothing_to_learn_nothing_helps() -> None:
    labels = torch.randint(2, (200,), generator=torch.Generator().manual_seed(1))
    points = torch.randn(200, 2, generator=torch.Generator().manual_seed(2))
    found = cure(dense, (points, labels), steps=20, seeds=2, cures=["mirrored"])
    assert found.kind == "nothing helps"
    assert found.winner == AS_IS
    assert "Nothing helps" in found.verdict


def test_what_costs_least_is_raced_first() -> None:
    names = module._choose(census(dead(), X, gradient=True), None)
    assert names[:6] == (AS_IS, "rate/10", "rate/100", "rate/1000", "warm-up", "clip")
    assert names[-2:] == ORDER["dead at the start"][:2]
    assert not {"weight/100", "no penalty", "glorot"} & set(names)


def test_other_cures_run_at_the_best_rate_and_no_architecture_is_blamed_for_a_rate() -> None:
    points = torch.randn(400, 2, generator=torch.Generator().manual_seed(5))
    found = cure(dense, (points, (points.prod(1) > 0).long()), steps=160, seeds=1, lr=10.0, jobs=2)
    assert found.kind == "cured"
    assert found.winner in ("rate/100", "rate/1000")
    others = {arm.name for arm in found.arms if not is_small(arm.name)}
    assert {name.split(", ")[-1] for name in others} <= {"rate/100", "rate/1000"}
    assert any(name.startswith("batch norm, rate/") for name in others)


def test_a_small_change_that_trains_as_many_wins_before_a_better_network() -> None:
    judge = Judge(True, 0.5, 1.0, 9000, "accuracy")
    control, small, large = (replace(arm(*s), name=n) for n, s in (
        ("as it is", (0.5, 0.5)), ("rate/10", (0.91, 0.92)), ("batch norm", (0.98, 0.99))))  # fmt: skip
    assert winner(judge, [large, small, control]).name == "rate/10"
    assert winner(judge, [large, replace(arm(0.5, 0.52), name="clip"), control]).name == "batch norm"
    trained = replace(arm(0.9, 0.91), name="as it is")
    assert winner(judge, [large, small, trained]).name == "batch norm"  # which is a better network, not to blame


@pytest.mark.twin
def test_who_goes_on_from_where_it_stands_gets_where_one_from_the_start_gets(monkeypatch) -> None:
    def make() -> nn.Sequential:
        return nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1))

    names = ["jumpstart", "mirrored, jumpstart", "warm-up"]
    going_on = plain(cure(make, (X, Y), steps=16, seeds=2, lr=0.05, jobs=1, cures=names))
    monkeypatch.setattr(lap, "HELD", 0)
    assert plain(cure(make, (X, Y), steps=16, seeds=2, lr=0.05, jobs=1, cures=names)) == going_on


def test_the_time_ends_a_race_and_the_next_one_goes_on(tmp_path: Path) -> None:
    store, names = tmp_path / "runs.sqlite", ["mirrored", "rate/10"]
    with pytest.raises(AliveError, match="the time was over before"):
        cure(dense, (X, Y), steps=8, minutes=0, seeds=1, jobs=1, store=store, cures=names)
    cure(dense, (X, Y), steps=8, seeds=1, jobs=1, store=store, cures=names)
    part = cure(dense, (X, Y), steps=800, minutes=0, seeds=1, jobs=1, store=store, cures=names)
    assert part.verdict.startswith("The 0 minutes are over, and the race is not; the same command goes on from here")
    assert len(part.arms) == 3
    assert all(arm.steps <= 8 for arm in part.arms)


def test_without_steps_as_many_are_made_as_the_time_allows() -> None:
    race = module._Race(opened(dense, (X, Y), **OPENED)[0], range(3), None, 1)
    race.entry = replace(race.entry, steps=120)
    assert race.affordable(14, seconds=0.01) == 120
    assert race.affordable(2, seconds=1e4) == 1000


# Who judges.


def test_a_fifth_is_held_out_and_judges() -> None:
    entry, _ = opened(dense, (X, Y), **OPENED)
    train, test = entry.data.train_x, entry.data.test_x
    assert (len(train), len(test)) == (64, 16)
    rows = {tuple(row) for row in train.tolist()} | {tuple(row) for row in test.tolist()}
    assert rows == {tuple(row) for row in X.tolist()}
    assert any("held out" in note for note in entry.notes)


OPENED = {
    "name": "m",
    "source": None,
    "loss": None,
    "lr": 0.1,
    "optimiser": "adam",
    "batch_size": None,
    "points": None,
}


def test_test_points_judge_where_there_are_any() -> None:
    found = cure(dense, (X[:60], Y[:60], X[60:], Y[60:]), steps=4, seeds=1, cures=["mirrored"])
    assert (found.points, found.judges) == (60, 20)
    assert found.measure == "accuracy"


def test_too_few_points_to_hold_any_out_are_said() -> None:
    few = FEWEST - 1
    found = cure(dense, (X[:few], Y[:few]), steps=4, seeds=1, cures=["mirrored"])
    assert found.judges == 0
    assert "too few to hold any out" in " ".join(found.notes)


def test_learning_by_heart_earns_nothing() -> None:
    """Random labels learned by heart: a training loss of almost 0, and still nothing that helps."""
    chance = torch.Generator().manual_seed(3)
    x, y = torch.randn(60, 2, generator=chance), torch.randint(2, (60,), generator=chance)
    tests = torch.randn(400, 2, generator=chance), torch.randint(2, (400,), generator=chance)
    found = cure(lambda: dense(2, 64), (x, y, *tests), steps=400, seeds=1, lr=0.02, batch_size=60, cures=["mirrored"])
    assert found["as it is"].laps[0].marks[-1].loss < 0.2
    assert found.kind == "nothing helps"


def test_own_losses_and_loaders_are_raced() -> None:
    def loss(output: Tensor, y: Tensor) -> Tensor:
        return (output[:, 0] - y).abs().mean()

    loader = DataLoader(TensorDataset(X, X.sum(1)), batch_size=5)
    found = cure(dense, loader, loss=loss, steps=60, seeds=1, lr=0.02, cures=["mirrored"])
    held = opened(dense, loader, **OPENED | {"loss": loss})[0].data
    constant = (held.test_y - held.train_y.median()).abs().mean()
    assert found.measure == "loss"
    assert found.chance == pytest.approx(float(constant), rel=0.05)  # the best constant of this loss is the median
    assert found.settings.endswith("batches of 5")
    assert found[AS_IS].mean < found.chance


def test_an_optimiser_of_ones_own() -> None:
    found = cure(
        dense, (X, Y), optimiser=lambda ps: torch.optim.AdamW(ps, lr=0.05), steps=40, seeds=1, cures=["rate/10"]
    )
    assert found[AS_IS].mean > 0.9
    with pytest.raises(AliveError, match="gave a int, not a torch"):
        cure(dense, (X, Y), optimiser=lambda ps: 3)


def test_where_chance_is_unknown_it_cannot_be_told_whether_it_trains() -> None:
    def apart(output: Tensor, y: Tensor) -> Tensor:
        """One less the correlation, which no constant has."""
        a, b = output[:, 0] - output.mean(), y - y.mean()
        return 1 - a @ b / (a.norm() * b.norm())

    found = cure(dense, (X, X.sum(1)), loss=apart, steps=4, seeds=2, cures=["rate/10"], jobs=1)
    assert (found.chance, found.kind, found.winner) == (None, "cannot tell", AS_IS)
    assert "cannot be told" in found.verdict
    assert "cannot tell" in str(found)
    assert "cannot be told" in found.to_html()
    assert found.to_dict()["arms"][0]["trains"] is None
    better = cure(dead, (X, X.sum(1)), loss=apart, steps=60, seeds=2, lr=0.05, cures=["mirrored"], jobs=1)
    assert (better.kind, better.winner) == ("can be better", "mirrored")


class Two(nn.Module):
    """Two inputs, in double precision."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = nn.Linear(1, 8).double(), nn.Linear(1, 8).double(), nn.Linear(8, 1).double()

    def forward(self, left: Tensor, right: Tensor) -> Tensor:
        return self.c(torch.relu(self.a(left) + self.b(right)))


@pytest.mark.parametrize(
    ("make", "data", "refused"),
    [
        (Two, ((X[:, :1], X[:, 1:]), Y), {"standardise", "farkas"}),
        (Two, {"left": X[:, :1], "right": X[:, 1:], "labels": Y}, {"standardise", "farkas"}),
        (lambda: dense().double(), (X, X.sum(1)), set()),
        (
            lambda: nn.Sequential(nn.Embedding(9, 4), nn.Flatten(), nn.ReLU(), nn.Linear(8, 1)),
            (X.long() + 4, Y),
            {"standardise", "farkas"},
        ),
    ],
    ids=["two inputs", "inputs by name", "doubles", "token ids"],
)
def test_models_of_many_kinds_are_raced(make, data, refused) -> None:
    found = cure(make, data, steps=4, seeds=1, cures=["standardise", "farkas", "jumpstart"], jobs=1)
    assert {arm.name for arm in found.arms if arm.refused} == refused
    assert all(arm.scores for arm in found.arms if not arm.refused)


# Kept, and taken up again.


def laps(path: Path) -> list[Lap]:
    with Laps(path, create=False) as store:
        return store.all()


def test_what_is_finished_is_not_run_again(tmp_path: Path, monkeypatch) -> None:
    store = tmp_path / "runs.jsonl"
    whole = plain(cure(dense, (X, Y), jobs=1, **QUICK))
    ran: list[tuple] = []
    real = Runs.lap

    def counted(runs, job, earlier, tell):
        if len(ran) == 4:
            raise KeyboardInterrupt
        ran.append(job)
        return real(runs, job, earlier, tell)

    monkeypatch.setattr(Runs, "lap", counted)
    with pytest.raises(KeyboardInterrupt, match="goes on from there"):
        cure(dense, (X, Y), jobs=1, store=store, **QUICK)
    kept = laps(store)
    assert [lap.job for lap in kept] == ran
    monkeypatch.setattr(Runs, "lap", real)
    assert plain(cure(dense, (X, Y), jobs=2, store=store, **QUICK)) == whole
    assert laps(store)[:4] == kept  # to the second: they were not run again


@pytest.mark.parametrize(
    "other",
    [
        {"lr": 0.03},
        {"batch_size": 7},
        {"loss": "mse"},
        {"data": (X + 1e-3, Y)},
        {"data": (X, 1 - Y)},
        {"make": lambda: dense(2)},
        {"make": lambda: nn.Sequential(nn.Linear(2, 8), nn.LeakyReLU(0.2), nn.Linear(8, 1))},
        {"optimiser": "sgd"},
    ],
    ids=lambda other: next(iter(other)),
)
def test_another_race_has_another_key(other: dict) -> None:
    def key(changed: dict) -> str:
        make, data = changed.pop("make", dense), changed.pop("data", (X, Y))
        return opened(make, data, **OPENED | changed)[0].key

    assert key({}) == key({})
    assert key({}) != key(dict(other))


def test_a_file_without_runs_is_refused(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("{}\n")
    with pytest.raises(AliveError, match="holds no runs of a race"):
        cure(dense, (X, Y), store=tmp_path / "runs", **QUICK)


# How arms are compared.


def arm(*scores: float | None) -> Arm:
    laps = (
        Lap("", "", 0, 9, (Mark(9, None, score, 0, 0),), stopped="" if score is not None else "nan") for score in scores
    )
    return Arm("a", tuple(laps), 9)


def test_a_network_that_diverged_is_worth_no_more_than_the_worst() -> None:
    judge = Judge(True, 0.5, 1.0, 100, "accuracy").among([arm(0.9, None), arm(0.3)])
    assert judge.mean(arm(0.9, None)) == pytest.approx(0.6)
    assert judge.clearly_below(arm(None), arm(0.3))
    assert not judge.clearly_below(arm(None), arm(None))
    for scores in ((0.9, 0.3), (0.4,), (0.5, 0.5)):  # below chance, or at it
        best_first = rank(judge.among([arm(*scores)]), [arm(None, None), arm(*scores)])
        assert best_first == [arm(*scores), arm(None, None)]
    loss = Judge(False, None, None, 100, "loss")
    assert rank(loss.among([arm(9e9)]), [arm(None), arm(9e9)])[0] == arm(9e9)


def test_who_trains_is_not_told_by_a_winner_at_chance_nor_without_chance() -> None:
    judge = Judge(True, 0.5, 1.0, 100, "accuracy")
    assert judge.trains(arm(0.52, 0.5), arm(0.52, 0.51)) == 0
    assert Judge(False, None, None, 100, "loss").trains(arm(0.1), arm(0.1)) is None


def test_networks_that_train_and_races_in_vain() -> None:
    judge = Judge(True, 0.5, 1.0, 100, "accuracy")
    assert judge.trains(arm(0.9, None, 0.6), arm(1.0, 1.0)) == 1
    assert judge.in_vain(arm(0.52, 0.51))
    assert not judge.in_vain(arm(0.9, 0.8))


def test_within_two_standard_errors_nobody_is_clearly_below() -> None:
    judge = Judge(False, 2.0, None, 100, "loss")
    assert not judge.clearly_below(arm(1.1, 0.9), arm(1.0, 0.9))
    assert judge.clearly_below(arm(1.9, 1.8), arm(1.0, 0.9))
    assert judge.mean(arm(1.9)) < judge.mean(arm(1.0))
    shares = Judge(True, 0.5, 1.0, 359, "accuracy")
    healthy, best = arm(0.944, 0.969, 0.967), arm(0.978, 0.983, 0.982)
    errors = [(statistics.variance(a.scores) / 3 + a.mean * (1 - a.mean) / 359) ** 0.5 for a in (healthy, best)]
    assert [shares.noise(a) for a in (healthy, best)] == pytest.approx(errors)
    assert not shares.clearly_below(healthy, best)
    assert shares.clearly_below(arm(0.90, 0.91, 0.90), best)
