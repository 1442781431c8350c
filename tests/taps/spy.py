"""A watcher that keeps what it is shown, and one pass under its eyes."""

from __future__ import annotations

import copy
from typing import Any

import torch
from hooks import hooks_of
from torch import Tensor, nn
from torch.overrides import _len_torch_function_stack

from alive.taps import Call, Tap, Taps, Watcher


class Spy(Watcher):
    """A watcher that keeps what it is shown."""

    def __init__(self) -> None:
        self.taps: list[Tap] = []
        self.z: list[Tensor] = []
        self.inplace: list[bool] = []
        self.outputs: list[Any] = []
        self.begun = 0

    def begin(self) -> None:
        self.begun += 1

    def watch(self, call: Call) -> Any:
        self.taps.append(call.tap)
        self.z.append(call.z.detach().clone())
        self.inplace.append(call.inplace)
        return call.activate()

    def end(self, output: Any) -> None:
        self.outputs.append(output)

    @property
    def names(self) -> list[str]:
        return [tap.name for tap in self.taps]

    @property
    def axes(self) -> list[Any]:
        """The axis of the units of each, where there is one."""
        return [tap.layout.place.units[0] if len(tap.layout.place.units) == 1 else None for tap in self.taps]


def seen(model: nn.Module, *inputs: Any, **options: Any) -> Spy:
    """What is seen in one pass; checks that output and hooks are untouched, and nothing is left on torch's stack."""
    before = hooks_of(model)
    torch.manual_seed(1)
    expected = model(*copy.deepcopy(inputs))
    spy = Spy()
    taps = Taps(model, spy, **options)
    torch.manual_seed(1)
    found = model(*copy.deepcopy(inputs))
    taps.remove()
    assert torch.equal(found, expected)
    assert hooks_of(model) == before
    assert _len_torch_function_stack() == 0
    assert (spy.begun, len(spy.outputs)) == (1, 1)
    return spy


class Calls(nn.Module):
    """A linear layer, then a function."""

    def __init__(self, function: Any, layer: nn.Module | None = None) -> None:
        super().__init__()
        self.function, self.layer = function, layer or nn.Linear(3, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.function(self.layer(x))
