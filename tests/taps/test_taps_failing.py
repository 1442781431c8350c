"""A pass that fails, or is interrupted, leaves nothing behind."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hooks import hooks_of
from spy import Calls, Spy
from torch import Tensor, nn
from torch.overrides import _len_torch_function_stack

from alive.errors import AliveError
from alive.taps import Taps, bare, watchers


class Fails(nn.Module):
    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error, self.fails = error, True

    def forward(self, x: Tensor) -> Tensor:
        if self.fails:
            raise self.error
        return x


def assert_works_again(model: nn.Module, fails: Fails, error: type[BaseException]) -> None:
    spy = Spy()
    taps = Taps(model, spy)
    with pytest.raises(error):
        model(torch.randn(5, 3))
    fails.fails = False
    model(torch.randn(5, 3))
    assert _len_torch_function_stack() == 0
    assert spy.names == ["1", "1", "3"]
    assert (spy.begun, len(spy.outputs)) == (2, 2)
    assert spy.outputs[0] is None
    taps.remove()


@pytest.mark.parametrize("error", [RuntimeError("no"), KeyboardInterrupt()], ids=str)
def test_a_failed_pass_leaves_nothing_behind(error: BaseException) -> None:
    fails = Fails(error)
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Sequential(fails), nn.ReLU())
    assert_works_again(model, fails, type(error))


def test_an_ordinary_failure_clears_the_stack_at_once() -> None:
    model = nn.Sequential(nn.Sequential(Fails(ValueError("no"))))
    taps = Taps(model, Spy())
    with pytest.raises(ValueError, match="no"):
        model(torch.randn(5, 3))
    assert _len_torch_function_stack() == 0
    taps.remove()


def test_remove_clears_up_after_an_interrupt() -> None:
    model = nn.Sequential(nn.Sequential(Fails(KeyboardInterrupt())))
    taps = Taps(model, Spy())
    with pytest.raises(KeyboardInterrupt):
        model(torch.randn(5, 3))
    taps.remove()
    assert _len_torch_function_stack() == 0


def test_an_interrupted_part_does_not_hide_the_next_part() -> None:
    fails = Fails(KeyboardInterrupt())
    model = nn.ModuleDict({"a": nn.Sequential(fails), "b": nn.Sequential(nn.Linear(3, 3), nn.ReLU())})
    spy = Spy()
    taps = Taps(model, spy)
    with pytest.raises(KeyboardInterrupt):
        model["a"](torch.randn(5, 3))
    model["b"](torch.randn(5, 3))
    taps.remove()
    assert spy.names == ["b.1"]
    assert spy.begun == 2


def test_a_users_hook_that_fails_before_ours_does_not_confuse_the_stack() -> None:
    def refuse(module: nn.Module, args: Any) -> None:
        raise ValueError("refused")

    model = nn.Sequential(nn.Sequential(nn.Linear(3, 3), nn.ReLU()), nn.ReLU())
    handle = model[0][1].register_forward_pre_hook(refuse)
    spy = Spy()
    taps = Taps(model, spy)
    with pytest.raises(ValueError, match="refused"):
        model(torch.randn(5, 3))
    handle.remove()
    model(torch.randn(5, 3))
    taps.remove()
    assert spy.names == ["0.1", "1"]


# Attaching and letting go.


def test_removal_restores_hooks_state_and_output_and_keeps_the_users_hooks() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.BatchNorm1d(4)).eval()
    handle = model[1].register_forward_hook(lambda *_: None)
    before, state, x = hooks_of(model), copy.deepcopy(model.state_dict()), torch.randn(5, 3)
    expected = model(x)
    taps = Taps(model, Spy())
    model(x)
    assert hooks_of(model) != before
    taps.remove()
    taps.remove()
    assert hooks_of(model) == before
    assert all(torch.equal(state[key], value) for key, value in model.state_dict().items())
    assert torch.equal(model(x), expected)
    handle.remove()


def test_two_watchers_see_the_same_pass() -> None:
    model, first, second = Calls(F.relu), Spy(), Spy()
    one, two = Taps(model, first), Taps(model, second)
    assert set(watchers(model)) == {first, second}
    model(torch.randn(5, 3))
    assert _len_torch_function_stack() == 0
    one.remove()
    model(torch.randn(5, 3))
    two.remove()
    assert (first.names, second.names) == (["relu"], ["relu", "relu"])
    assert list(watchers(model)) == []


def test_wrappers_are_taken_off() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU())
    parallel = nn.DataParallel(model)
    compiled = torch.compile(model, backend="eager")
    assert bare(parallel) is bare(compiled) is bare(nn.DataParallel(compiled)) is model
    spy = Spy()
    taps = Taps(parallel, spy)
    parallel(torch.randn(5, 3))
    taps.remove()
    assert spy.names == ["1"]


@pytest.mark.parametrize("thing", [nn.ReLU, torch.zeros(2), None, F.relu])
def test_what_is_not_a_module_is_refused(thing: Any) -> None:
    with pytest.raises(AliveError, match=r"expected a torch.nn.Module.*Pass the model itself"):
        bare(thing)
