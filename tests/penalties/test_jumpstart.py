"""Jumpstart: the penalty and its gradients equal those collected by hand; when it records."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from kept import MODELS, by_hand, close, grads
from torch import nn
from torch.overrides import _len_torch_function_stack

from alive.errors import AliveError
from alive.penalties import Jumpstart, Schedule
from alive.penalties.recorder import _measured

RULES = [
    {},
    {"mode": "U", "aggregate": "mean"},
    {"mode": "P", "against": "death", "aggregate": "sum"},
    {"mode": "L", "balance": 0.3},
    {"conv": "position", "aggregate": "norm", "pos_margin": 2.0},
    {"aggregate": "balanced", "ties": "single", "neg_margin": 0.5},
]


@pytest.mark.twin
@pytest.mark.parametrize("rule", RULES, ids=str)
@pytest.mark.parametrize("name", MODELS)
def test_value_and_gradients_equal_those_collected_by_hand(built, name: str, rule: dict[str, Any]) -> None:
    model, x, axis = built(name)
    y, expected = by_hand(model, x, axis, rule)
    (y.square().mean() + 0.1 * expected).backward()
    wanted = grads(model)
    with Jumpstart(model, 0.1, **rule) as keep:
        found = model(x)
        penalty = keep.penalty()
        (found.square().mean() + penalty).backward()
    torch.testing.assert_close(found, y)
    torch.testing.assert_close(penalty, 0.1 * expected)
    assert expected > 0
    close(grads(model), wanted, rtol=1e-4, atol=1e-6)


def test_nothing_is_recorded_in_eval_or_under_no_grad(built) -> None:
    model, x, _ = built("dense")
    with Jumpstart(model) as keep:
        with torch.no_grad():
            model(x)
            assert keep.penalty().item() == 0.0  # as of a validation loss
            model(x)
        with pytest.warns(UserWarning, match="ran under torch.no_grad"):
            assert keep.penalty().item() == 0.0
        model.eval()
        model(x)
        assert keep.penalty().item() == 0.0  # it was said once
        model.train()
        model(x)
        assert keep.penalty().item() > 0.0


def test_a_penalty_without_a_pass_is_refused_also_the_second_time(built) -> None:
    model, x, _ = built("dense")
    with Jumpstart(model) as keep:
        with pytest.raises(AliveError, match="no forward pass since the last call"):
            keep.penalty()
        model(x)
        keep.penalty()
        with pytest.raises(AliveError, match="Call the attached model first"):
            keep.penalty()


@pytest.mark.law
@pytest.mark.parametrize(("how", "share"), [("sumsq", 1.0), ("meansq", 0.5)])
def test_two_passes_are_one_sum_or_one_mean(built, how: str, share: float) -> None:
    model, x, _ = built("dense")
    with Jumpstart(model, 1.0, aggregate=how) as keep:
        separate = []
        for part in x.split(4):
            model(part)
            separate.append(keep.penalty())
        for part in x.split(4):
            model(part)
        torch.testing.assert_close(keep.penalty(), share * sum(separate))


@pytest.mark.law
def test_accumulated_gradients_equal_those_of_the_sum(built) -> None:
    model, x, _ = built("conv")
    model.norm.eval()
    with Jumpstart(model, 1.0, aggregate="sumsq") as keep:
        for part in x.split(3):
            (model(part).sum() + keep.penalty()).backward()
        accumulated = grads(model)
        (sum(model(part).sum() for part in x.split(3)) + keep.penalty()).backward()
    close(grads(model), accumulated, rtol=1e-4, atol=1e-5)


def test_a_failed_pass_is_forgotten(built) -> None:
    model, x, _ = built("dense")
    with Jumpstart(model, 1.0) as keep:
        model(x)
        expected = keep.penalty()
        layer, model.c = model.c, nn.Linear(1, 1)
        with pytest.raises(RuntimeError):
            model(x)
        with pytest.raises(AliveError, match="no forward pass"):
            keep.penalty()
        model.c = layer
        model(x)
        torch.testing.assert_close(keep.penalty(), expected)


def test_an_interrupted_pass_is_forgotten(built) -> None:
    model, x, _ = built("dense")

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    with Jumpstart(model, 1.0) as keep:
        model(x)
        expected = keep.penalty()
        handle = model.c.register_forward_pre_hook(interrupt)
        with pytest.raises(KeyboardInterrupt):
            model(x)
        handle.remove()
        model(x)
        torch.testing.assert_close(keep.penalty(), expected)
    assert _len_torch_function_stack() == 0


def test_a_hundred_unread_passes_are_told_once(built) -> None:
    model, x, _ = built("dense")
    with Jumpstart(model) as keep:
        for _ in range(99):
            model(x)
        with pytest.warns(UserWarning, match="100 forward passes and no penalty"):
            model(x)
        keep.penalty()
        for _ in range(150):
            model(x)


@pytest.mark.parametrize("name", ["dense", "conv", "resnet"])
def test_autocast_measures_in_float32_with_finite_gradients(built, name: str) -> None:
    model, x, _ = built(name)
    with Jumpstart(model, 1.0) as keep:
        with torch.autocast("cpu", torch.bfloat16):
            y = model(x)
        (seen,) = keep._recorder.passes.kept
        measured = _measured(seen.slacks, joined=False)
        assert {s.dtype for layer in measured for s in layer.values()} == {torch.float32}
        low = keep.penalty()
        (y.float().square().mean() + low).backward()
        assert all(g.isfinite().all() for g in grads(model).values())
        model(x)
        torch.testing.assert_close(low, keep.penalty(), rtol=0.1, atol=0.1)


def test_the_penalty_revives_a_dead_layer() -> None:
    model = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 1))
    nn.init.constant_(model[0].bias, -3.0)
    x = torch.rand(20, 2) - 0.5
    assert (model[0](x) <= 0).all()
    optimiser = torch.optim.Adam(model.parameters(), 0.05)
    with Jumpstart(model, 1.0) as keep, warnings.catch_warnings():
        for _ in range(200):
            optimiser.zero_grad()
            model(x)
            keep.penalty().backward()
            optimiser.step()
    z = model[0](x)
    assert (z.amax(0) > 0.5).all()
    assert (z.amin(0) < 0.5).all()


def test_a_user_sees_what_a_user_calls() -> None:
    with Jumpstart(nn.Sequential(nn.Linear(2, 2), nn.ReLU())) as keep:
        shown = {name for name in dir(keep) if not name.startswith("_")}
    calls = {"penalty", "forget", "detach", "set_progress", "state_dict", "load_state_dict"}
    assert shown == calls | {"rule", "schedule", "weight", "multipliers"}


def test_a_forgotten_pass_is_not_part_of_the_next_penalty() -> None:
    model = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
    x, other = torch.randn(8, 2), torch.randn(8, 2) * 5
    with Jumpstart(model) as keep:
        model(x)
        alone = keep.penalty().item()
        model(other)
        keep.forget()
        model(x)
        assert keep.penalty().item() == alone
        model(other)
        model(x)
        assert keep.penalty().item() != alone


def test_a_state_restores_the_progress_of_the_schedule() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    with Jumpstart(model, Schedule(1.0, 0.0, "linear")) as keep:
        keep.set_progress(0.25)
        state = keep.state_dict()
    with Jumpstart(model, Schedule(1.0, 0.0, "linear")) as again:
        again.load_state_dict(state)
        assert again.weight == 0.75
        with pytest.raises(
            AliveError, match=r"the state of this Jumpstart is its progress, got \['weight'\].*weight that"
        ):
            again.load_state_dict({"weight": 1.0})


def test_a_penalty_in_eval_mode_says_that_it_is_zero(built) -> None:
    model, x, _ = built("dense")
    with Jumpstart(model) as keep:
        model.eval()(x)
        with pytest.warns(UserWarning, match=r"call model.train\(\)"):
            assert keep.penalty().item() == 0.0
