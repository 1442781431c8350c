"""Multipliers that find their own weight: against cooper's νPI, a loop by hand, and through every interruption."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from cooper.multipliers import DenseMultiplier
from cooper.optim import nuPI, nuPIInitType
from cooper.utils import ConstraintType
from torch import Tensor, nn

from alive.data import moons
from alive.errors import AliveError
from alive.functional import Separation, slacks
from alive.nn import Rectangular
from alive.penalties import Jumpstart, attach, multipliers
from alive.train import Settings, train


def mlp(seed: int = 0, depth: int = 3) -> nn.Sequential:
    torch.manual_seed(seed)
    layers = [part for i in range(depth) for part in (nn.Linear(5 if i else 3, 5), nn.ReLU())]
    return nn.Sequential(*layers, nn.Linear(5, 1)).double()


def points(count: int = 12, seed: int = 0) -> Tensor:
    return torch.randn(count, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.twin
@pytest.mark.parametrize(("ki", "kp", "nu"), [(0.3, 0.0, 0.0), (0.2, 2.0, 0.9), (0.1, 1.0, 0.5)])
@pytest.mark.parametrize("first", [False, True])
def test_a_step_is_that_of_cooper(monkeypatch, first: bool, ki: float, kp: float, nu: float) -> None:
    """The first step is that of `SGD`, all others those of `ZEROS`, whose ξ of e − tol begins at 0.

    Cooper's ξ after the first step of `SGD` is 0 (version 1.0.1), where its documentation and the paper have the first
    e: so that start is compared for one step.
    """
    for name, value in {"KI": ki, "KP": kp, "NU": nu}.items():
        monkeypatch.setattr(multipliers, name, value)
    theirs = DenseMultiplier(num_constraints=4, init=torch.ones(4)).double()
    theirs.constraint_type = ConstraintType.INEQUALITY
    gains = {"Kp": torch.tensor(kp, dtype=torch.float64), "Ki": torch.tensor(ki, dtype=torch.float64), "ema_nu": nu}
    start = nuPIInitType.SGD if first else nuPIInitType.ZEROS
    optimiser = nuPI(theirs.parameters(), lr=1.0, **gains, init_type=start, maximize=True)
    mu = torch.ones(4, dtype=torch.float64)
    xi = torch.full_like(mu, torch.nan if first else multipliers.TOL)
    g = torch.Generator().manual_seed(0)
    below = 0
    for _ in range(1 if first else 300):
        e = torch.rand(4, generator=g, dtype=torch.float64) * torch.tensor([0.01, 0.1, 0.3, 1.0])
        (weight,) = theirs.parameters()
        weight.grad = e - multipliers.TOL
        optimiser.step()
        theirs.post_step_()
        weight.data.clamp_(max=multipliers.TOP)
        mu, xi = multipliers.step(mu, xi, e)
        below += int((mu == 0).sum())
        torch.testing.assert_close(mu, weight.data, rtol=1e-10, atol=1e-12)
    assert first or below > 0


def by_hand(model: nn.Sequential, x: Tensor, steps: int, rule: Separation) -> tuple[list[float], dict[str, Any]]:
    """The contract in plain numbers: penalties of all steps, and the multipliers at the end."""
    taps = [str(i) for i, part in enumerate(model) if isinstance(part, nn.ReLU)]
    mu = {axis: dict.fromkeys(taps, 1.0) for axis in rule.axes}
    xi: dict[str, dict[str, float]] = {axis: {} for axis in rule.axes}
    optimiser, told = torch.optim.SGD(model.parameters(), lr=0.1), []
    for _ in range(steps):
        h, found = x, {}
        for i, part in enumerate(model):
            if str(i) in taps:
                found[str(i)] = slacks(h, rule)
            h = part(h)
        penalty = torch.zeros((), dtype=torch.float64)
        for axis in rule.axes:
            for tap in taps:
                penalty = penalty + multipliers.WEIGHT / len(taps) * mu[axis][tap] * found[tap][axis].square().mean()
        optimiser.zero_grad()
        (h.square().mean() + penalty).backward()
        optimiser.step()
        told.append(penalty.item())
        for axis in rule.axes:
            for tap in taps:
                e = found[tap][axis].mean().item()
                before = xi[axis].get(tap, e)
                change = multipliers.KI * (e - multipliers.TOL) + multipliers.KP * (1 - multipliers.NU) * (e - before)
                mu[axis][tap] = min(max(mu[axis][tap] + change, 0.0), multipliers.TOP)
                xi[axis][tap] = multipliers.NU * before + (1 - multipliers.NU) * e
    return told, mu


@pytest.mark.twin
@pytest.mark.parametrize("mode", ["U", "P", "UP", "L"])
def test_training_is_that_of_a_loop_by_hand(mode: str) -> None:
    wanted, mu = by_hand(mlp(), points(), 25, Separation(mode=mode))
    model, x = mlp(), points()
    optimiser, found = torch.optim.SGD(model.parameters(), lr=0.1), []
    with attach("jumpstart", model, weight="auto", mode=mode) as keep:
        for _ in range(25):
            optimiser.zero_grad()
            loss = model(x).square().mean()
            penalty = keep.penalty()
            (loss + penalty).backward()
            optimiser.step()
            found.append(penalty.item())
        assert found == pytest.approx(wanted, rel=1e-9)
        for axis, of in mu.items():
            assert keep.multipliers[axis] == pytest.approx(of, rel=1e-9)
            assert any(abs(value - 1) > 1e-3 for value in of.values())


@pytest.mark.parametrize("conv", ["channel", "position"])
def test_it_begins_as_the_default_weight(conv: str) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 3, 3), nn.ReLU(), nn.Conv2d(3, 5, 3), nn.ReLU(), nn.Flatten(), nn.Linear(20, 1))
    x = 0.3 * torch.randn(6, 1, 6, 6)
    found = []
    for weight in (None, "auto"):
        with Jumpstart(model, weight, conv=conv) as keep:
            model(x)
            penalty = keep.penalty()
            found.append((penalty, torch.autograd.grad(penalty, [model[0].weight, model[2].weight])))
    torch.testing.assert_close(found[0], found[1])
    assert found[0][0] > 0


def steps(model: nn.Module, keep: Jumpstart, count: int, x: Tensor, optimiser: torch.optim.Optimizer) -> list[float]:
    told = []
    for _ in range(count):
        optimiser.zero_grad()
        loss = model(x).square().mean()
        penalty = keep.penalty()
        (loss + penalty).backward()
        optimiser.step()
        told.append(penalty.item())
    return told


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_run_goes_on_to_the_bit_from_a_state_written_as_text(dtype: torch.dtype) -> None:
    model, x = mlp().to(dtype), points().to(dtype)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    with Jumpstart(model, weight="auto") as keep:
        steps(model, keep, 7, x, optimiser)
        weights = {name: value.clone() for name, value in model.state_dict().items()}
        state = json.dumps(keep.state_dict())
        whole = steps(model, keep, 7, x, optimiser)
        end = keep.state_dict()
    again = mlp(seed=1).to(dtype)
    again.load_state_dict(weights)
    with Jumpstart(again, weight="auto") as keep:
        keep.load_state_dict(json.loads(state))
        assert keep.state_dict() == json.loads(state)
        assert steps(again, keep, 7, x, torch.optim.SGD(again.parameters(), lr=0.1)) == whole
        assert keep.state_dict() == end


def test_a_checkpoint_of_the_loop_holds_them(tmp_path: Path) -> None:
    def run(epochs: int, **more: Any) -> tuple[list[float], dict[str, Any]]:
        net = Rectangular(2, 1, depth=4, width=4, generator=torch.Generator().manual_seed(0))
        with Jumpstart(net, weight="auto") as keep:
            rows = train(net, moons(), Settings(epochs=epochs, batch_size=30, shuffle=True), keep=keep, **more).rows
            return [row.penalty for row in rows], keep.state_dict()

    whole, end = run(8)
    path = tmp_path / "run.safetensors"
    run(3, checkpoint=path)
    assert run(8, checkpoint=path, resume=True) == (whole, end)
    assert any(abs(mu - 1) > 1e-3 for mu, _ in end["multipliers"]["U"].values())


class Sometimes(nn.Module):
    """Two layers, of which the second comes when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = (nn.Sequential(nn.Linear(3, 3), nn.ReLU()) for _ in range(2))
        self.deep = True

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.first(x)) if self.deep else self.first(x)


def test_a_layer_that_stays_away_keeps_its_multiplier() -> None:
    model, x = Sometimes(), torch.randn(6, 3, generator=torch.Generator().manual_seed(0))
    with Jumpstart(model, weight="auto") as keep:
        for deep in (True, True, False):
            model.deep = deep
            model(x)
            before = keep.multipliers
            keep.penalty()
        after = keep.multipliers
        for axis in "UP":
            assert after[axis]["second.1"] == before[axis]["second.1"] != 1
            assert after[axis]["first.1"] != before[axis]["first.1"]
        model(x)
        shallow = keep.penalty()
        expected = slacks(model.first[0](x), Separation())
        wanted = sum(after[axis]["first.1"] * expected[axis].square().mean() for axis in "UP")
        torch.testing.assert_close(shallow, multipliers.WEIGHT * wanted)  # the mean over the one layer that came


@pytest.mark.law
def test_two_passes_move_a_multiplier_once_by_their_mean() -> None:
    model, x = mlp(), points()
    parts = x.split(4)
    with Jumpstart(model, weight="auto") as keep:
        for part in parts:
            model(part)
        penalty = keep.penalty()
        found = keep.multipliers
    with Jumpstart(model) as fixed:
        for part in parts:
            model(part)
        torch.testing.assert_close(penalty, fixed.penalty())
    each = [slacks(model[0](part), Separation()) for part in parts]
    for axis in "UP":
        e = sum(s[axis].mean().item() for s in each) / len(each)
        assert found[axis]["1"] == pytest.approx(1 + multipliers.KI * (e - multipliers.TOL))


def test_what_is_not_a_number_moves_nothing() -> None:
    model, x = mlp(), points()
    with Jumpstart(model, weight="auto") as keep:
        model(x)
        keep.penalty()
        before = keep.state_dict()
        for passes in (1, 2):  # as in half precision, where the step is then left out
            for _ in range(passes):
                model(torch.full_like(x, torch.nan))
            assert keep.penalty().isnan()
            assert keep.state_dict() == before


def test_passes_of_eval_move_nothing() -> None:
    model = mlp()
    with Jumpstart(model, weight="auto") as keep:
        model.eval()
        model(points())
        with pytest.warns(UserWarning, match="in eval mode"):
            assert keep.penalty() == 0
        assert keep.multipliers == {}


def test_inside_a_transform_they_are_read_and_stand_still() -> None:
    model, x = mlp(), points()
    with Jumpstart(model, weight="auto") as keep:
        steps(model, keep, 3, x, torch.optim.SGD(model.parameters(), lr=0.1))
        before = keep.state_dict()
        model(x)
        wanted = keep.penalty()
        keep.load_state_dict(before)
        weights = dict(model.named_parameters())

        def penalty(weights: dict[str, Tensor]) -> Tensor:
            torch.func.functional_call(model, weights, (x,))
            return keep.penalty()

        with pytest.warns(UserWarning, match="read and does not move"):
            found = torch.func.grad_and_value(penalty)(weights)[1]
        torch.testing.assert_close(found, wanted)
        assert keep.state_dict() == before


@pytest.mark.parametrize("whole", [False, True], ids=["model", "step"])
def test_compiled_is_eager_and_compiles_no_more_after_the_first_steps(whole: bool) -> None:
    compiled_frames = 0

    def counting(graph: Any, inputs: Any) -> Any:
        nonlocal compiled_frames
        compiled_frames += 1
        return graph

    torch._dynamo.reset()
    model, x = mlp(), points()
    twin, slow = mlp(), torch.optim.SGD
    with Jumpstart(twin, weight="auto") as keep:
        wanted = steps(twin, keep, 6, x, slow(twin.parameters(), lr=0.1))
        end = keep.multipliers
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    with Jumpstart(model, weight="auto") as keep:

        def objective(x: Tensor) -> tuple[Tensor, Tensor]:
            loss = model(x).square().mean()
            return loss, keep.penalty()

        fast = torch.compile(objective if whole else model, backend=counting)
        found, frames = [], []
        for _ in range(6):
            optimiser.zero_grad()
            loss, penalty = fast(x) if whole else (fast(x).square().mean(), keep.penalty())
            (loss + penalty).backward()
            optimiser.step()
            found.append(penalty.item())
            frames.append(compiled_frames)
        assert found == pytest.approx(wanted, rel=1e-9)
        for axis, of in end.items():
            assert keep.multipliers[axis] == pytest.approx(of, rel=1e-9)
    assert frames[2:] == [frames[2]] * 4
    torch._dynamo.reset()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"weight": "atuo"}, "weight is a number, a Schedule or 'auto', got 'atuo'"),
        ({"weight": "auto", "aggregate": "sumsq"}, "weighs means of squares, not the aggregate 'sumsq'"),
        ({"aggregate": "sumsq"}, "no weight that fits every network"),
    ],
)
def test_what_cannot_be_is_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(AliveError, match=said):
        Jumpstart(mlp(), **options)


def test_a_state_of_another_kind_is_refused() -> None:
    with Jumpstart(mlp(), weight="auto") as keep, warnings.catch_warnings():
        for state in ({"progress": 0.5}, {"progress": 0.5, "multipliers": {"U": 3}}):
            with pytest.raises(AliveError, match=r"state of (this Jumpstart|multipliers)"):
                keep.load_state_dict(state)
        assert "auto" in repr(keep)
    with Jumpstart(mlp()) as keep, pytest.raises(AliveError, match="is its progress, got"):
        keep.load_state_dict({"progress": 0.5, "multipliers": {}})
