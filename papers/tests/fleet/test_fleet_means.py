"""Slacks that count as means, and the multipliers of the weight "auto": against a loop in plain torch, by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from alive import Jumpstart
from alive.data import Data, moons
from alive.errors import AliveError
from alive.penalties.multipliers import WEIGHT
from alive.train import Settings, train
from alive.train.task import logits_of, task_loss
from alive_papers.experiments import Cell
from alive_papers.fleet import Member, start, train_fleet
from alive_papers.fleet.plan import Rule

pytestmark = pytest.mark.twin
MOONS = moons()
QUICK = Rule(ki=0.4, kp=3.0, nu=0.7, tol=0.5, top=1.5)  # moves far enough in a few steps to meet both ends


def slack_of(z: Tensor, dim: int, balance: float) -> Tensor:
    """By how much each group misses its two margins; equal extremes share the gradient, as amax and amin do."""
    over, under = torch.relu(1 - z.amax(dim)), torch.relu(1 + z.amin(dim))
    return (balance * over + (1 - balance) * under).flatten()


def hand_loop(member: Member, data: Data, model: nn.Module, rule: Rule | None) -> tuple[list[float], np.ndarray]:
    """Penalties of the steps, and the multipliers at the end [layers, axes]: nothing but torch and the formula."""
    seen: list[Tensor] = []
    for module in model.modules():
        if isinstance(module, nn.ReLU):
            module.register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    axes = {"U": 0, "P": 1}
    factor = torch.ones(member.depth, len(member.kind.axes), dtype=torch.float64)
    smooth: Tensor | None = None
    optimiser: torch.optim.Optimizer = (
        torch.optim.Adam(model.parameters(), lr=member.lr, eps=member.eps)
        if member.optimiser == "adam"
        else torch.optim.SGD(model.parameters(), lr=member.lr, momentum=member.momentum)
    )
    points = member.batch_size or len(data.train_y)
    penalties = []
    for _ in range(member.epochs):
        spent = 0.0
        for x, y in zip(data.train_x.split(points), data.train_y.split(points), strict=True):
            seen.clear()
            task = task_loss(model(x), y)
            slacks = [[slack_of(z, axes[axis], member.balance) for axis in member.kind.axes] for z in seen]
            squares = torch.stack([torch.stack([s.square().mean() for s in layer]) for layer in slacks])
            weight = WEIGHT if rule is not None else member.weight
            penalty = weight * (factor * squares).mean(0).sum()
            optimiser.zero_grad()
            (task + penalty).backward()
            optimiser.step()
            spent += penalty.item() * len(y) / len(data.train_y)
            if rule is None:
                continue
            e = torch.stack([torch.stack([s.mean() for s in layer]) for layer in slacks]).detach().double()
            smooth = e if smooth is None else smooth
            factor = factor + rule.ki * (e - rule.tol) + rule.kp * (1 - rule.nu) * (e - smooth)
            factor = factor.clip(0, rule.top)
            smooth = rule.nu * smooth + (1 - rule.nu) * e
        penalties.append(spent)
    return penalties, factor.numpy()


def expect_twins(member: Member, model: nn.Module, rule: Rule | None) -> np.ndarray:
    wanted, factor = hand_loop(member, MOONS, model, rule)
    ours = train_fleet([member], MOONS, threads=1).members[0]
    assert ours.stopped is None
    np.testing.assert_allclose(ours.column("penalty"), wanted, rtol=2e-4, atol=1e-7)
    torch.testing.assert_close(
        logits_of(ours.network(), MOONS.train_x)[0], logits_of(model, MOONS.train_x)[0], rtol=0.01, atol=2e-3
    )
    return factor


def model_of(member: Member) -> nn.Module:
    return member.form.twin(member, (2,), 1)


@pytest.mark.parametrize("architecture", ["dense", "keras_same"])
@pytest.mark.parametrize("method", ["Sep-UP", "Sep-U", "Sep-P"])
def test_the_mean_of_squares(method: str, architecture: str) -> None:
    member = Member(6, 4, method, 4, aggregate="meansq", epochs=30, architecture=architecture, balance=0.6)
    expect_twins(member, model_of(member), None)


@pytest.mark.parametrize("architecture", ["dense", "keras_same"])
@pytest.mark.parametrize("optimiser", ["adam", "sgd"])
def test_multipliers(optimiser: str, architecture: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(start, "RULE", QUICK)
    member = Member(
        6, 4, "Sep-UP", 4, weight="auto", aggregate="meansq", epochs=40, architecture=architecture, optimiser=optimiser
    )
    factor = expect_twins(member, model_of(member), QUICK)
    assert factor.min() == 0, "some constraint is satisfied, so that its multiplier falls to the floor"
    assert factor.max() == QUICK.top, "another is not"


def test_multipliers_as_they_come() -> None:
    member = Member(6, 4, "Sep-UP", 4, weight="auto", aggregate="meansq", epochs=30, batch_size=17)
    factor = expect_twins(member, model_of(member), start.RULE)
    assert factor.std() > 0


@pytest.mark.parametrize("architecture", ["dense", "keras_same"])
@pytest.mark.parametrize("weight", [WEIGHT, "auto"])
def test_the_fleet_and_the_loop_agree(weight: float | str, architecture: str) -> None:
    member = Member(5, 4, "Sep-UP", 4, weight=weight, aggregate="meansq", epochs=25, architecture=architecture)
    model = model_of(member)
    conv = "position" if architecture == "keras_same" else "channel"
    with Jumpstart(model, weight, conv=conv) as keep:
        theirs = train(model, MOONS, Settings(epochs=25, seed=4), keep=keep)
    ours = train_fleet([member], MOONS, threads=1).members[0]
    np.testing.assert_allclose(ours.column("penalty"), [row.penalty for row in theirs.rows], rtol=2e-4, atol=1e-7)
    np.testing.assert_allclose(ours.column("loss"), [row.loss for row in theirs.rows], rtol=2e-4)


def test_a_last_batch_that_is_smaller_is_a_mean_as_well() -> None:
    member = Member(5, 4, "Sep-UP", 4, aggregate="meansq", epochs=8, batch_size=40)
    expect_twins(member, model_of(member), None)


def test_a_batch_of_one_point_has_no_units_to_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """84 + 1 points: in the second batch only points have slacks, and multipliers of units stay."""
    member = Member(3, 4, "Sep-U", 4, aggregate="meansq", weight="auto", epochs=1, batch_size=84)
    rows = train_fleet([member, replace(member, method="Sep-P")], MOONS).members
    units = train_fleet([replace(member, batch_size=None)], MOONS).members[0]
    assert rows[0].last is not None
    assert 0 < rows[0].last.penalty < units.rows[0].penalty * 84.5 / 85 * 1.05
    assert rows[1].stopped is None


@pytest.mark.parametrize("weight", [WEIGHT, "auto"])
def test_threads_change_nothing(weight: float | str) -> None:
    fleet = [Member(4, 4, seed=seed, aggregate="meansq", weight=weight, epochs=25) for seed in range(5)]
    one, two = (train_fleet(fleet, MOONS, threads=threads).members for threads in (1, 2))
    for a, b in zip(one, two, strict=True):
        assert a.log.tobytes() == b.log.tobytes()
        assert a.weights.tobytes() == b.weights.tobytes()


def test_what_decides_the_result_is_in_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """The papers' default keeps its key; the constants of "auto" are part of theirs."""
    assert Cell(Member(50, 4)).key == Cell(Member(50, 4, weight=1e-4, aggregate="sumsq")).key
    assert Cell(Member(50, 4)).key == "94d66686645f2bcdde0afb9348726c21"
    assert "multipliers" not in Member(50, 4, aggregate="meansq").settings
    auto = Member(50, 4, aggregate="meansq", weight="auto")
    before = Cell(auto).key
    monkeypatch.setattr("alive_papers.fleet.member.KI", 0.123)
    assert Cell(auto).key != before


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"weight": "auto"}, "weight 'auto' belongs to the aggregate 'meansq', not 'sumsq'"),
        ({"weight": "much", "aggregate": "meansq"}, "weight must be a Schedule, or finite and at least 0, or 'auto'"),
        ({"aggregate": "meansqr"}, "did you mean 'meansq'"),
    ],
)
def test_what_does_not_fit_is_said(options: dict[str, str], said: str) -> None:
    with pytest.raises(AliveError, match=said):
        Member(3, 4, **options)  # type: ignore[arg-type]


def test_the_default_weight_follows_the_aggregate() -> None:
    make: Callable[..., Member] = Member
    assert (make(3, 4).weight, make(3, 4, aggregate="sum").weight) == (1e-4, 1e-4)
    assert make(3, 4, aggregate="meansq").weight == WEIGHT
