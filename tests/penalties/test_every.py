"""Every k-th step: the penalty of that step k times as heavy, and nothing at all in the steps between."""

from __future__ import annotations

import copy
import json

import pytest
import torch
from torch import Tensor, nn

from alive import Jumpstart, Schedule
from alive.errors import AliveError
from alive.penalties.jumpstart import is_kept
from alive.torch_private import forward_hooks_of


def small() -> tuple[nn.Module, Tensor]:
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 2))
    return model, torch.randn(16, 4)


def hooks(model: nn.Module) -> int:
    return sum(len(forward_hooks_of(module)) for module in model.modules())


def run(model: nn.Module, x: Tensor, keep: Jumpstart, steps: int) -> list[float]:
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    told = []
    for _ in range(steps):
        optimiser.zero_grad()
        loss = model(x).square().mean()
        penalty = keep.penalty()
        (loss + penalty).backward()
        optimiser.step()
        told.append(float(penalty.detach()))
    return told


@pytest.mark.parametrize("every", [2, 3, 5])
@pytest.mark.parametrize("weight", [0.3, Schedule(1.0, 0.0, "linear")], ids=str)
def test_the_first_of_k_steps_has_k_times_the_penalty_and_the_others_none(every: int, weight) -> None:
    model, x = small()
    with Jumpstart(model, weight, every=every) as keep:
        told = []
        for step in range(2 * every + 1):
            with Jumpstart(copy.deepcopy(model), weight) as each:
                each.set_progress(step / 20)
                each._recorder._model(x)
                expected = each.penalty().item()
            keep.set_progress(step / 20)
            model(x)
            told.append(keep.penalty().item())
            torch.testing.assert_close(told[-1], every * expected if step % every == 0 else 0.0)
    assert sum(value > 0 for value in told) == 3


def test_between_its_steps_no_layer_has_a_hook() -> None:
    model, x = small()
    before = hooks(model)
    with Jumpstart(model, every=3) as keep:
        attached = hooks(model)
        for step in range(7):
            assert hooks(model) == (attached if step % 3 == 0 else 1)
            assert is_kept(model)
            model(x)
            keep.penalty()
        with pytest.raises(AliveError, match="already"):
            Jumpstart(model)
    assert hooks(model) == before == 0
    model(x)
    assert not is_kept(model)
    keep._go_to(0)
    assert hooks(model) == 0


def test_training_equals_a_loop_that_takes_the_penalty_by_hand() -> None:
    model, x = small()
    twin = copy.deepcopy(model)
    with Jumpstart(model, 0.3, every=3) as keep:
        run(model, x, keep, 10)
    optimiser = torch.optim.SGD(twin.parameters(), lr=0.1)
    for step in range(10):
        optimiser.zero_grad()
        if step % 3:
            twin(x).square().mean().backward()
        else:
            with Jumpstart(twin, 0.3) as by_hand:
                (twin(x).square().mean() + 3 * by_hand.penalty()).backward()
        optimiser.step()
    for mine, theirs in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs)


def test_parts_of_a_batch_count_as_steps_and_add_up() -> None:
    """Two halves of each batch, every second step: the first half's penalty twice, in every batch."""
    model, x = small()
    with Jumpstart(model, 0.3, every=2) as keep:
        for _ in range(3):
            found = []
            for half in x.split(8):
                model(half)
                found.append(keep.penalty())
            with Jumpstart(copy.deepcopy(model), 0.3) as each:
                each._recorder._model(x[:8])
                torch.testing.assert_close(sum(found), 2 * each.penalty())


@pytest.mark.parametrize("weight", [0.3, "auto"])
@pytest.mark.parametrize("until", [1, 3, 4])
def test_a_resumed_run_goes_on_in_the_same_step(until: int, weight) -> None:
    torch.manual_seed(0)
    model, x = small()
    with Jumpstart(model, weight, every=3) as keep:
        run(model, x, keep, until)
        state = json.loads(json.dumps(keep.state_dict()))
        weights = copy.deepcopy(model.state_dict())
        rest = run(model, x, keep, 6)
    model.load_state_dict(weights)
    with Jumpstart(model, weight, every=3) as again:
        again.load_state_dict(state)
        assert run(model, x, again, 6) == rest
    with Jumpstart(model, weight) as other, pytest.raises(AliveError, match="step"):
        other.load_state_dict(state)


def test_multipliers_move_only_where_the_penalty_is_taken() -> None:
    model, x = small()
    with Jumpstart(model, "auto", every=2) as keep:
        run(model, x, keep, 1)
        first = keep.multipliers
        run(model, x, keep, 1)
        assert keep.multipliers == first
        run(model, x, keep, 1)
        assert keep.multipliers != first


def test_a_step_that_failed_is_none() -> None:
    model, x = small()
    with Jumpstart(model, every=2) as keep:
        model(x)
        keep.forget()
        with pytest.raises(AliveError, match="no forward pass"):
            keep.penalty()
        model(x)
        assert keep.penalty() > 0
        keep.forget()
        assert keep.penalty() == 0


@pytest.mark.parametrize("every", [0, -1, 1.5, "2"])
def test_a_number_of_steps_is_whole_and_positive(every) -> None:
    with pytest.raises(AliveError, match="every is a whole number"):
        Jumpstart(small()[0], every=every)


def test_evaluation_between_steps_is_left_alone() -> None:
    model, x = small()
    with Jumpstart(model, every=2) as keep:
        for _ in range(2):
            model(x)
            assert keep.penalty() > 0
            model.eval()(x)
            model.train()(x)
            assert keep.penalty() == 0


def test_a_compiled_model_may_rest_too() -> None:
    model, x = small()
    with Jumpstart(copy.deepcopy(model), 0.3) as each:
        each._recorder._model(x)
        expected = each.penalty().item()
    compiled = torch.compile(model, backend="eager")
    with Jumpstart(compiled, 0.3, every=3) as keep:
        told = []
        for _ in range(7):
            compiled(x)
            told.append(keep.penalty().item())
    torch.testing.assert_close(told, [3 * expected, 0.0, 0.0] * 2 + [3 * expected])
