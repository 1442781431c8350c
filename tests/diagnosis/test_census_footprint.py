"""A census leaves the model as it was and keeps extremes, not activations."""

from __future__ import annotations

import copy
import gc
from collections.abc import Iterator

import pytest
import torch
import torch.nn.functional as F
from hooks import hooks_of
from planted import Dense, planted, same
from torch import Tensor, nn

from alive.diagnosis import Census, census
from alive.errors import AliveError
from alive.functional import Activation
from alive.penalties import Jumpstart
from alive.taps import Call

X = torch.randn(10, 3)


@pytest.mark.parametrize("data", [X, torch.randn(5, 9)], ids=["good", "bad"])
def test_a_census_leaves_hooks_flags_state_and_gradients_alone(data: Tensor) -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.ReLU(True), nn.Linear(4, 2))
    model[1].eval()
    model(X).sum().backward()
    hooks, flags = hooks_of(model), [m.training for m in model.modules()]
    state, slopes = copy.deepcopy(model.state_dict()), [p.grad.clone() for p in model.parameters()]
    try:
        census(model, data)
    except AliveError:
        assert data is not X
    assert hooks_of(model) == hooks
    assert [m.training for m in model.modules()] == flags
    assert all(torch.equal(state[key], value) for key, value in model.state_dict().items())
    assert all(torch.equal(a, p.grad) for a, p in zip(slopes, model.parameters(), strict=True))


def test_a_weight_that_changes_as_it_is_read_is_not_read() -> None:
    """In training, each look at the weight turns the vectors from which it is computed."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.utils.parametrizations.spectral_norm(nn.Linear(3, 4)), nn.ReLU(), nn.Linear(4, 1))
    nn.init.normal_(model[0].bias)
    state = copy.deepcopy(model.state_dict())
    census(model, X)
    assert all(torch.equal(state[key], value) for key, value in model.state_dict().items())


def test_a_wrapper_keeps_its_training_flag_too() -> None:
    model = nn.DataParallel(nn.Sequential(nn.Linear(3, 4), nn.ReLU()))
    assert census(model, X).points.total == 10
    assert model.training
    assert model.module.training


def test_a_census_counts_in_eval_mode_without_gradients() -> None:
    seen: list[tuple[bool, bool]] = []

    class Asks(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            seen.append((self.training, torch.is_grad_enabled()))
            return F.relu(x)

    census(Asks(), X)
    assert seen == [(False, False)]


def test_a_census_in_the_middle_of_training_does_not_disturb_the_penalty() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(inplace=True))
    with Jumpstart(model, 1.0) as keep:
        model(X)
        expected = keep.penalty()
        model(X)
        census(model, X)
        torch.testing.assert_close(keep.penalty(), expected)
        model(X)
        torch.testing.assert_close(keep.penalty(), expected)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_any_precision_is_counted(dtype: torch.dtype) -> None:
    model = planted(Dense, 3).to(dtype)
    found = census(model, X.to(dtype))
    assert found.layers[0].top.dtype == torch.promote_types(dtype, torch.float32)
    assert found.points.total == 10


def test_a_compiled_model_is_counted() -> None:
    torch._dynamo.reset()
    model = planted(Dense, 3)
    expected = census(model, X)
    compiled = torch.compile(model, backend="aot_eager")
    compiled(X)
    same(census(compiled, X), expected)
    torch._dynamo.reset()


def live_floats(found: Census) -> int:
    return sum(t.numel() for layer in found.layers for t in (layer.top, layer.bottom))


@pytest.mark.law
def test_memory_does_not_grow_with_the_data() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU())
    alive: list[int] = []

    def stream(batches: int) -> Iterator[Tensor]:
        for number in range(batches):
            if number in (9, batches - 1):
                gc.collect()
                alive.append(sum(t.numel() for t in gc.get_objects() if type(t) is Tensor))
            yield torch.randn(8, 3)

    small, large = census(model, stream(10)), census(model, stream(300))
    assert live_floats(small) == live_floats(large) == 8
    assert max(alive) - min(alive) < 200  # a batch is 24 numbers, 290 more of them would be 6960
    assert large.points.total == 2400


def test_the_watcher_keeps_extremes_and_not_activations() -> None:
    from alive.diagnosis.census import _Counter
    from alive.provenance import Grid, Layout
    from alive.taps import Tap

    counter = _Counter(False)
    counter.expect(50)
    tap = Tap("a", Activation("relu"), Layout(Grid(4, (0,), (1,), 4)))
    counter.watch(Call(tap, torch.randn(50, 4, 8, 8), 50, False, lambda: None))
    assert (
        sum(t.numel() for t in counter.seen["a"] if isinstance(t, Tensor)) == 4 + 4 + 4 + 50
    )  # two ends and a count of each unit, a state of each point
