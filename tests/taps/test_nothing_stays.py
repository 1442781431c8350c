"""Nothing of ours stays behind, wherever a pass ends: in the model, in torch, in our own code, or by an interrupt."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from itertools import count
from typing import Any

import pytest
import torch
import torch._dynamo
import torch.nn.functional as F
from hooks import hooks_of
from torch import Tensor, nn
from torch._C import _len_torch_dispatch_stack
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack, _len_torch_function_stack
from torch.utils._python_dispatch import TorchDispatchMode

import alive
from alive import Jumpstart, census
from alive.forecast import preflight
from alive.provenance import choices, families, memory, op, tracker
from alive.taps import Watcher, hooks, kinds, layers, pass_state, selecting, taps


class Net(nn.Module):
    """A little of all that is followed: convolutions, norms, in-place, masks, experts, a loop, a top-k."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv1d(1, 3, 3, padding=1), nn.BatchNorm1d(3)
        self.inside = nn.Sequential(nn.Linear(12, 6), nn.ReLU(inplace=True), nn.Dropout(0.5))
        self.router, self.experts = nn.Linear(6, 2), nn.ModuleList(nn.Linear(6, 6) for _ in range(2))
        self.step, self.out = nn.Linear(6, 6), nn.Linear(6, 2)
        self.frozen = nn.Parameter(torch.ones(6), requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        z = self.norm(self.conv(x[:, None]))
        h = self.inside((z * (z > 0)).flatten(1)) * self.frozen
        w, i = self.router(h).topk(1, -1)
        y = torch.zeros_like(h)
        for k, expert in enumerate(self.experts):
            rows = (i == k).any(-1).nonzero()[:, 0]
            y.index_add_(0, rows, w[rows] * F.relu(expert(h[rows])))
        for _ in range(2):
            y = torch.relu(self.step(y.t().t()) + h)
        return self.out(y)


class Stopped(Exception):
    """What the tests throw."""


def state(model: nn.Module) -> dict[str, Any]:
    """All that must be as before."""
    dynamo = torch._dynamo.eval_frame._stance
    return {
        "functions": _len_torch_function_stack(),
        "dispatch": _len_torch_dispatch_stack(),
        "hooks": hooks_of(model),
        "training": [m.training for m in model.modules()],
        "requires_grad": [p.requires_grad for p in model.parameters()],
        "grad": torch.is_grad_enabled(),
        "inference": torch.is_inference_mode_enabled(),
        "dtype": torch.get_default_dtype(),
        "stance": (dynamo.stance, dynamo.backend),
        "functorch": torch._C._functorch.maybe_current_level(),
        "attributes": [sorted(vars(m)) for m in model.modules()],
    }


class Bomb(TorchDispatchMode):
    """Throws in the n-th operation that torch runs, the model's or ours."""

    def __init__(self, at: int, error: type[BaseException]) -> None:
        super().__init__()
        self.left, self.error = at, error

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.left -= 1
        if not self.left:
            raise self.error("thrown")
        return func(*args, **(kwargs or {}))


@contextmanager
def in_torch(at: int, error: type[BaseException]) -> Iterator[Callable[[], bool]]:
    bomb = Bomb(at, error)
    with bomb:
        yield lambda: bomb.left <= 0


@contextmanager
def in_ours(where: type, name: str, at: int, error: type[BaseException]) -> Iterator[Callable[[], bool]]:
    """Every second time it throws when the call has done its work."""
    real, left = getattr(where, name), at

    def call(*args: Any, **kwargs: Any) -> Any:
        nonlocal left
        left -= 1
        if not left and at % 2:
            raise error("thrown")
        found = real(*args, **kwargs)
        if not left:
            raise error("thrown")
        return found

    setattr(where, name, call)
    try:
        yield lambda: left <= 0
    finally:
        setattr(where, name, real)


def by_census(model: nn.Module, x: Tensor) -> None:
    census(model, [x, x[:5]])


def by_gradient(model: nn.Module, x: Tensor) -> None:
    census(model, x, gradient=True)


def by_penalty(model: nn.Module, x: Tensor) -> None:
    with Jumpstart(model) as keep:
        for rows in (x, x, x[:5]):
            loss = model(rows).square().sum() + keep.penalty()
            if loss.requires_grad:
                loss.backward()
        model.zero_grad()


def by_transform(model: nn.Module, x: Tensor) -> None:
    weights = {name: p.detach() for name, p in model.named_parameters()}
    model.eval()
    try:
        with Jumpstart(model):
            torch.func.grad(lambda w: torch.func.functional_call(model, w, (x,)).sum())(weights)
    finally:
        model.train()


def by_watching(model: nn.Module, x: Tensor) -> None:
    alive.watch(model, x, every=1)(0)


def by_preflight(model: nn.Module, x: Tensor) -> None:
    preflight(model, x, draws=1)


TOOLS = (by_census, by_gradient, by_penalty, by_transform, by_watching, by_preflight)
MODES: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "plain": nullcontext,
    "no_grad": torch.no_grad,
    "inference_mode": torch.inference_mode,
    "a stance": lambda: torch.compiler.set_stance("eager_on_recompile"),
}
OURS = (
    *((tracker.Tracker, name) for name in ("__enter__", "__exit__", "_run", "_note", "_ruled", "_look", "owners")),
    *((tracker.Tracker, name) for name in ("_put", "enter", "family")),
    *((taps.Taps, name) for name in ("enter", "leave", "_begin", "_finish", "_follow")),
    *((layers.Layers, name) for name in ("see", "watch", "look_up", "_identify", "finish", "_settle")),
    *((pass_state.PassState, name) for name in ("begin", "call", "cross")),
    *((memory.Memory, name) for name in ("put", "get", "write")),
    *((kinds.Masks, name) for name in ("note", "read", "clear")),
    *((selecting.Selecting, name) for name in ("_wait", "_settle", "chose")),
    *((hooks.Mode, name) for name in ("__enter__", "__exit__")),
    (op.Op, "__init__"),
    (choices.Choices, "follow"),
    (families.Families, "fresh"),
)


def expect_as_before(
    tool: Callable[[nn.Module, Tensor], None],
    mode: Callable[[], AbstractContextManager[Any]],
    thrown: Callable[[int], AbstractContextManager[Callable[[], bool]]],
    places: Iterable[int],
) -> int:
    """Throw at one place after another, until there are no more; how often something was thrown."""
    torch.manual_seed(0)
    model, x, times = Net(), torch.randn(8, 4), 0
    for at in places:
        with mode():
            before = state(model)
            with suppress(Stopped, KeyboardInterrupt, alive.AliveError), thrown(at) as fired:
                tool(model, x)
            assert state(model) == before, f"thrown at {at}"
        if not fired():
            break
        times += 1
    same = Net()
    same.load_state_dict(model.state_dict())
    assert torch.equal(model.eval()(x), same.eval()(x))
    assert [(layer.name, layer.units, layer.points) for layer in census(model, x).layers] == [
        (layer.name, layer.units, layer.points) for layer in census(same, x).layers
    ]
    return times


ERRORS = (Stopped, KeyboardInterrupt)
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("tool", TOOLS)
def test_wherever_torch_stops(tool: Callable[..., None], error: type[BaseException]) -> None:
    assert expect_as_before(tool, nullcontext, lambda at: in_torch(at, error), range(1, 4000, 131)) > 0


@pytest.mark.parametrize("tool", [by_census, by_penalty])
@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
def test_in_whichever_mode(tool: Callable[..., None], mode: Callable[[], AbstractContextManager[Any]]) -> None:
    assert expect_as_before(tool, mode, lambda at: in_torch(at, Stopped), range(3, 4000, 171)) > 3


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("tool", [by_census, by_penalty])
@pytest.mark.parametrize(("where", "name"), OURS, ids=[f"{where.__name__}.{name}" for where, name in OURS])
def test_wherever_our_own_code_fails(
    tool: Callable[..., None], where: type, name: str, error: type[BaseException]
) -> None:
    expect_as_before(tool, nullcontext, lambda at: in_ours(where, name, at, error), (1, 2, 20))


@pytest.mark.slow
@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
@pytest.mark.parametrize("tool", TOOLS)
def test_at_every_operation(
    tool: Callable[..., None], mode: Callable[[], AbstractContextManager[Any]], error: type[BaseException]
) -> None:
    expect_as_before(tool, mode, lambda at: in_torch(at, error), count(1))


@pytest.mark.parametrize("passes", [0, 1, 3])
@pytest.mark.parametrize("at", [1, 30, 90])
def test_an_interrupt_is_noticed_where_it_is_handled(passes: int, at: int) -> None:
    """By the first call of torch, not by the next pass."""
    model, x = Net(), torch.randn(8, 4)
    before = state(model)
    with Jumpstart(model) as keep:
        for _ in range(passes):
            model(x)
            keep.penalty()
        with suppress(KeyboardInterrupt), in_torch(at, KeyboardInterrupt):
            try:
                model(x)
            except KeyboardInterrupt:
                torch.ones(3) + 1
                assert not keep._recorder._taps.is_followed
                assert torch._dynamo.eval_frame._stance.stance == before["stance"][0]
                raise
        model(x)
        keep.penalty()
        assert _len_torch_function_stack() == 0
    assert {**state(model), "hooks": before["hooks"]} == before


def test_two_that_follow_one_pass_give_the_stance_back() -> None:
    model, x = Net(), torch.randn(8, 4)
    before = state(model)
    first, second = Jumpstart(model.inside), census
    with first:
        second(model, x)
        model(x)
    looks = [taps.Taps(model, Watcher()) for _ in range(2)]  # which end in the order in which they began
    model(x)
    for look in looks:
        look.remove()
    assert state(model) == before


def test_what_a_model_leaves_on_the_stack_is_its_own() -> None:
    class Other(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return func(*args, **(kwargs or {}))

    other = Other()

    class Enters(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            other.__enter__()
            return torch.relu(x)

    with Jumpstart(nn.Sequential(nn.Linear(4, 4), Enters())) as keep:
        keep._recorder._root(torch.randn(3, 4))
        assert _get_current_function_mode_stack() == [other]
        other.__exit__(None, None, None)
    assert not _len_torch_function_stack()
