"""A quick pass shows what the function mode would have seen; anything that could differ makes the pass a slow one."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from alive.penalties import Jumpstart
from alive.taps import Call, Taps, Watcher
from alive.taps.closed import Closed


class Looks(Watcher):
    """A watcher that needs to carry nothing out, or one that does."""

    def __init__(self, only_looks: bool) -> None:
        self.only_looks = only_looks
        self.seen: list[tuple[Any, ...]] = []
        self.shown = False

    def begin(self) -> None:
        self.seen, self.shown = [], False

    def watch(self, call: Call) -> Any:
        self.seen.append((call.tap, call.z.detach().clone(), call.points, call.inplace))
        self.shown |= call.is_shown
        return call.activate()


def plain() -> nn.Sequential:
    torch.manual_seed(0)
    act = nn.ReLU()
    inner = nn.Sequential(nn.Linear(6, 5), nn.LayerNorm(5), act)
    return nn.Sequential(nn.Linear(3, 6), nn.ReLU(), inner, nn.Linear(5, 4), act, nn.Dropout(0.0), nn.Linear(4, 2))


def watched(model: nn.Module, only_looks: bool, x: Tensor, passes: int = 3) -> Looks:
    looks = Looks(only_looks)
    taps = Taps(model, looks)
    for _ in range(passes):
        model(x)
    taps.remove()
    return looks


@pytest.mark.twin
@pytest.mark.parametrize("batch", [7, 1])
def test_a_quick_pass_shows_what_a_slow_one_sees(batch: int) -> None:
    x = torch.randn(batch, 3)
    quick, slow = (watched(plain(), only_looks, x) for only_looks in (True, False))
    assert quick.shown
    assert not slow.shown
    assert [(*tap, points, inplace) for tap, _, points, inplace in quick.seen] == [
        (*tap, points, inplace) for tap, _, points, inplace in slow.seen
    ]
    torch.testing.assert_close([z for _, z, *_ in quick.seen], [z for _, z, *_ in slow.seen])


def relu_hook(module: nn.Module, args: Any, output: Tensor) -> Tensor:
    return F.relu(output)


def patched(model: nn.Sequential) -> None:
    model[0].forward = lambda x: F.relu(F.linear(x, model[0].weight))  # type: ignore[method-assign]


class Doubled(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return F.relu(2 * x)


def replaced(model: nn.Sequential) -> None:
    model[5] = Doubled()


CHANGES: dict[str, Callable[[nn.Sequential], Any]] = {
    "a hook": lambda model: model[0].register_forward_hook(relu_hook),
    "a hook before": lambda model: model[3].register_forward_pre_hook(lambda _, args: F.relu(args[0] - 1)),
    "a hook on an activation": lambda model: model[1].register_forward_hook(relu_hook),
    "another forward": patched,
    "another module": replaced,
    "a child more": lambda model: model.append(nn.ReLU()),
    "in place": lambda model: setattr(model[1], "inplace", True),
    "another class": lambda model: setattr(model[5], "__class__", Doubled),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_changes_after_attaching_is_seen(change: str) -> None:
    x = torch.randn(7, 3)
    found = []
    for only_looks in (True, False):
        model = plain()
        looks = Looks(only_looks)
        taps = Taps(model, looks)
        for _ in range(2):
            model(x)
        CHANGES[change](model)
        model(x)
        found.append([(tap.name, z) for tap, z, *_ in looks.seen])
        assert not looks.shown
        taps.remove()
    assert [name for name, _ in found[0]] == [name for name, _ in found[1]]
    torch.testing.assert_close([z for _, z in found[0]], [z for _, z in found[1]])


def test_a_global_hook_makes_the_pass_a_slow_one() -> None:
    model, looks = plain(), Looks(True)
    taps = Taps(model, looks)
    x = torch.randn(7, 3)
    for _ in range(2):
        model(x)
    assert looks.shown
    handle = nn.modules.module.register_module_forward_hook(lambda *_: None)
    try:
        model(x)
    finally:
        handle.remove()
    assert not looks.shown
    taps.remove()


class Own(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = plain()

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.body(x))


def test_a_model_with_code_of_its_own_is_watched_call_by_call() -> None:
    looks = watched(Own(), True, torch.randn(7, 3))
    assert not looks.shown
    assert looks.seen[-1][0].name == "relu"


@pytest.mark.twin
def test_the_penalty_of_quick_passes_is_that_of_slow_ones() -> None:
    sizes, found = (7, 7, 5, 7, 9), []
    for model in (plain(), nn.Sequential(*plain()), Own()):
        if isinstance(model, Own):
            model.forward = model.body.forward  # type: ignore[method-assign]
        with Jumpstart(model, 1.0) as keep:
            values = []
            for k, size in enumerate(sizes):
                x = torch.randn(size, 3, generator=torch.Generator().manual_seed(k))
                model.zero_grad()
                (model(x).square().mean() + keep.penalty()).backward()
                values += [p.grad.clone() for p in model.parameters()]
        found.append(values)
    torch.testing.assert_close(found[0], found[1])
    torch.testing.assert_close(found[0], found[2])


def test_a_failed_quick_pass_leaves_nothing_behind() -> None:
    model = plain()
    with Jumpstart(model, 1.0) as keep:
        for _ in range(3):
            model(torch.randn(7, 3))
            keep.penalty()
        with pytest.raises(RuntimeError):
            model(torch.randn(7, 4))
        copy.deepcopy(model)(torch.randn(2, 3))
        model(torch.randn(7, 3))
        assert keep.penalty().requires_grad
        with pytest.raises(Exception, match="no forward pass"):
            keep.penalty()


def test_only_what_a_layer_has_just_made_is_unshared() -> None:
    first, after_linear, after_dropout, twice = nn.ReLU(), nn.ReLU(), nn.ReLU(), nn.ReLU()
    inner = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.0), after_dropout)
    model = nn.Sequential(first, nn.Linear(3, 4), after_linear, inner, nn.Linear(4, 4), twice, nn.Identity(), twice)
    assert Closed(model, []).unshared == {after_linear}


@pytest.mark.parametrize(
    "between", [nn.Identity, nn.Flatten, lambda: nn.Dropout(0.0)], ids=["identity", "flatten", "dropout"]
)
def test_inputs_may_change_before_the_penalty_is_read(between: Callable[[], nn.Module]) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(between(), nn.ReLU(), nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))
    given = torch.randn(6, 3, requires_grad=True)
    with Jumpstart(model) as keep:
        for change in (0.0, 0.0, 0.0, 5.0):
            x = given * 1.0
            model(x)
            with torch.no_grad():
                x.add_(change)
            penalty = keep.penalty()
            (grad,) = torch.autograd.grad(penalty, given)
            if not change:
                before = penalty.detach(), grad
    torch.testing.assert_close((penalty.detach(), grad), before)
