"""What taps cannot see is told or refused, never passed over in silence."""

from __future__ import annotations

import copy
import threading
import warnings
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from spy import Calls, Spy
from torch import Tensor, nn
from torch.overrides import _len_torch_function_stack

from alive.errors import AliveError
from alive.taps import Call, Taps, bare, watchers


class Recurrent(nn.Module):
    def __init__(self, nonlinearity: str) -> None:
        super().__init__()
        self.rnn, self.cell = nn.RNN(3, 4, nonlinearity=nonlinearity), nn.RNNCell(3, 4, nonlinearity=nonlinearity)
        self.head = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.head(self.rnn(x)[0] + self.cell(x[0])))


@pytest.mark.parametrize("name", ["rnn", "cell"])
def test_the_relu_inside_a_fused_recurrence_is_told(name: str) -> None:
    with pytest.warns(UserWarning, match=f"^{name} has its ReLU inside one fused call, where it is not seen"):
        Taps(Recurrent("relu"), Spy(), layers=[name]).remove()


def test_recurrences_without_relu_or_that_nobody_asked_for_are_not_told() -> None:
    for model, layers in ((Recurrent("tanh"), ()), (Recurrent("relu"), ["head*", "relu"])):
        Taps(model, Spy(), layers=layers).remove()  # a warning would be an error


def scripted(model: nn.Module) -> nn.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # TorchScript is deprecated
        return torch.jit.script(model)


def test_torchscript_is_refused_whole_and_told_in_part() -> None:
    part = scripted(nn.Sequential(nn.Linear(3, 3), nn.Sequential(nn.ReLU())))
    with pytest.raises(AliveError, match=r"is TorchScript.*Pass the model that it was made from"):
        bare(part)
    model, spy = nn.Sequential(part, nn.ReLU()), Spy()
    with pytest.warns(UserWarning, match="^0 is TorchScript") as told:
        taps = Taps(model, spy)
    assert len(told) == 1
    assert list(watchers(model)) != []
    model(torch.randn(5, 3))
    taps.remove()
    assert spy.names == ["1"]


def test_a_replica_of_data_parallel_is_refused() -> None:
    model = Calls(F.relu)
    taps = Taps(model, Spy())
    replica = model._replicate_for_data_parallel()  # as DataParallel makes them on several devices
    with pytest.raises(AliveError, match=r"Calls runs as one of several replicas.*DistributedDataParallel"):
        replica(torch.randn(5, 3))
    assert _len_torch_function_stack() == 0
    taps.remove()


def test_a_shallow_copy_is_its_model() -> None:
    model, spy = Calls(F.relu), Spy()
    taps = Taps(model, spy)
    copy.copy(model)(torch.randn(5, 3))
    taps.remove()
    assert spy.names == ["relu"]


def test_a_second_thread_is_refused_and_the_first_goes_on() -> None:
    errors: list[Any] = []

    class Meanwhile(Spy):
        """Calls the model from another thread in the middle of a pass."""

        def watch(self, call: Call) -> Any:
            if not self.names:
                other = threading.Thread(target=self.call)
                other.start()
                other.join()
            return super().watch(call)

        def call(self) -> None:
            try:
                model(x)
            except AliveError as error:
                errors.append((str(error), _len_torch_function_stack()))

    x, spy = torch.randn(5, 3), Meanwhile()
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 3), nn.ReLU())
    expected = model(x)
    taps = Taps(model, spy)
    assert torch.equal(model(x), expected)
    assert spy.names == ["1", "3"]
    assert (spy.begun, len(spy.outputs)) == (1, 1)
    assert _len_torch_function_stack() == 0
    ((said, left),) = errors
    assert "Sequential is called from two threads at once while it is watched. Give each thread a copy" in said
    assert left == 0
    threads = [threading.Thread(target=model, args=(x,)) for _ in range(2)]
    for thread in threads:  # one after the other is no trouble
        thread.start()
        thread.join()
    taps.remove()
    assert spy.names == ["1", "3"] * 3


class Returns(nn.Module):
    def __init__(self, fails: bool) -> None:
        super().__init__()
        self.layer, self.fails = nn.Linear(3, 3), fails

    def forward(self, x: Tensor) -> None:
        F.relu(self.layer(x))
        if self.fails:
            raise RuntimeError("no")


@pytest.mark.parametrize("handling", [False, True])
def test_a_model_may_return_none_and_has_not_failed(handling: bool) -> None:
    model = Returns(fails=False)
    taps = Taps(model, Spy())
    try:
        if handling:
            raise KeyError  # a model may be called while an error is handled
        model(torch.randn(5, 3))
    except KeyError:
        model(torch.randn(5, 3))
    assert not taps.failed
    model.fails = True
    try:
        raise KeyError
    except KeyError:
        with pytest.raises(RuntimeError, match="no"):
            model(torch.randn(5, 3))
    assert taps.failed
    taps.remove()
