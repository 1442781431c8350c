"""Census: equal to brute force over all pre-activations, whatever the batches, and gone without a trace."""

from __future__ import annotations

import copy
import gc
import json
from collections import namedtuple
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.overrides import _len_torch_function_stack
from torch.utils.data import DataLoader, TensorDataset

from alive.diagnosis import Census, Tally, census
from alive.diagnosis.census import ALIVE
from alive.errors import AliveError
from alive.functional import Activation
from alive.penalties import Jumpstart
from alive.taps import Call

# Models that keep their pre-activations by hand, as [N, positions, C].


class Kept(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.kept: list[Tensor] | None = None

    def keep(self, z: Tensor, unit_axis: int) -> Tensor:
        if self.kept is not None:
            self.kept.append(z.detach().movedim(unit_axis, -1).reshape(len(z), -1, z.shape[unit_axis]).clone())
        return z


class Dense(Kept):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(3 if i == 0 else 4, 4) for i in range(4))
        self.out = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = F.relu(self.keep(layer(x), 1), inplace=True)
        return self.out(x)


class Conv(Kept):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Conv2d(3 if i == 0 else 4, 4, 2) for i in range(3))
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        x = x.view(-1, 3, 1, 1).expand(-1, 3, 4, 4) * torch.arange(16.0).view(4, 4) / 8
        for layer in self.layers:
            x = self.relu(self.keep(layer(x), 1))
        return x


class Sequence(Kept):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(1 if i == 0 else 4, 4) for i in range(3))

    def forward(self, x: Tensor) -> Tensor:
        x = x.unsqueeze(2)  # [N, T=3, 1]
        for layer in self.layers:
            x = torch.relu(self.keep(layer(x), -1))
        return x


class Residual(Kept):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(3, 3) for i in range(4))
        self.norm, self.relu = nn.BatchNorm1d(3), nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        for a, b in zip(self.layers[::2], self.layers[1::2], strict=True):
            y = self.norm(b(self.relu(self.keep(a(x), 1))))
            y += x
            x = self.relu(self.keep(y, 1))
        return x


KINDS: list[Callable[[], Kept]] = [Dense, Conv, Sequence, Residual]


def planted(kind: Callable[[], Kept], seed: int) -> Kept:
    """A random model with some units, and sometimes a whole layer, planted dead or linear."""
    torch.manual_seed(seed)
    model = kind().eval()
    for layer in model.layers:
        fate = int(torch.randint(4, ()))
        with torch.no_grad():
            layer.bias += [0.0, -0.5, 0.5, 0.0][fate]
            layer.bias[0] += [-9.0, 0.0, 9.0, -9.0][fate]
            if torch.rand(()) < 0.15:
                layer.bias -= 20.0
    return model


def by_hand(model: Kept, x: Tensor) -> tuple[list[Tally], list[Tally], Tally, list[int]]:
    """Definitions 1 and 2 applied to every pre-activation: units and points by layer, points overall, death places."""
    model.kept = []
    with torch.no_grad():
        model(x)
    kept, model.kept = model.kept, None

    def tally(on: Tensor) -> Tally:  # [things, values]
        dead, linear = ~on.any(1), on.all(1)
        return Tally(int(dead.sum()), int(linear.sum()), int((~dead & ~linear).sum()))

    units = [tally((z > 0).flatten(0, 1).T) for z in kept]
    points = [tally((z > 0).flatten(1)) for z in kept]
    overall, places = [0, 0, 0], []
    for i in range(len(x)):
        place = next((number for number, z in enumerate(kept) if not (z[i] > 0).any()), ALIVE)
        places.append(place)
        overall[0 if place != ALIVE else 1 if all((z[i] > 0).all() for z in kept) else 2] += 1
    return units, points, Tally(*overall), places


def same(a: Census, b: Census) -> None:
    assert a.to_dict() == b.to_dict()
    for one, other in zip(a.layers, b.layers, strict=True):
        torch.testing.assert_close(one.top, other.top, rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(one.bottom, other.bottom, rtol=1e-5, atol=1e-6)


@pytest.mark.twin
@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_a_census_equals_brute_force(kind: Callable[[], Kept], seed: int) -> None:
    model = planted(kind, seed)
    x = torch.randn(13, 3)
    units, points, overall, places = by_hand(model, x)
    found = census(model, x, keep_points=True)
    assert [layer.units for layer in found.layers] == units
    assert [layer.points for layer in found.layers] == points
    assert found.points == overall
    assert found.died_at.tolist() == places
    assert [layer.first_deaths for layer in found.layers] == [places.count(n) for n in range(len(units))]


@pytest.mark.law
@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000), sizes=st.lists(st.integers(1, 6), min_size=1, max_size=6))
def test_any_batching_gives_the_same_census(seed: int, sizes: list[int]) -> None:
    model = planted(Dense, seed)
    x = torch.randn(sum(sizes), 3)
    same(census(model, list(x.split(sizes)), keep_points=True), census(model, x, keep_points=True))


@pytest.mark.law
@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000), cut=st.integers(1, 11))
def test_parts_add_up_to_the_whole_in_order(seed: int, cut: int) -> None:
    model = planted(Dense, seed)
    x = torch.randn(12, 3)
    a, b = (census(model, part, keep_points=True) for part in (x[:cut], x[cut:]))
    same(a + b, census(model, x, keep_points=True))


def test_points_are_not_kept_unless_asked_or_unless_both_parts_have_them() -> None:
    model, x = planted(Dense, 0), torch.randn(6, 3)
    kept, lost = census(model, x, keep_points=True), census(model, x)
    assert lost.died_at is None
    assert (kept + lost).died_at is None
    assert "died_at" not in lost.to_dict()


# Layers that only some batches reach.


class Routed(nn.Module):
    """The sign of the first number of a batch chooses the branch."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(1, 2), nn.Linear(2, 2)
        self.left, self.right = nn.Linear(2, 3), nn.Linear(2, 2)
        for layer in (self.first, self.last, self.left, self.right):
            nn.init.constant_(layer.weight, 1.0)
            nn.init.constant_(layer.bias, 30.0)
        nn.init.constant_(self.right.bias, -900.0)

    def forward(self, x: Tensor) -> Tensor:
        h = F.relu(self.first(x))
        h = F.elu(self.left(h))[:, :2] if x[0, 0] > 0 else F.silu(self.right(h))
        return F.gelu(self.last(h))


@pytest.mark.parametrize("flip", [1.0, -1.0])
def test_a_layer_that_some_batches_reach_is_counted_over_those(flip: float) -> None:
    batches = [torch.full((3, 1), flip), torch.full((2, 1), -flip), torch.full((1, 1), flip)]
    found = census(Routed(), batches, keep_points=True)
    assert {layer.name for layer in found.layers} == {"relu", "elu", "silu", "gelu"}
    left, right = (4, 2) if flip > 0 else (2, 4)
    assert (found["elu"].points.total, found["silu"].points.total) == (left, right)
    assert found["relu"].points.total == 6
    assert found.points.total == 6
    assert found["silu"].first_deaths == right
    names = [layer.name for layer in found.layers]
    assert names.index("relu") < min(names.index("elu"), names.index("silu"))
    assert names[-1] == "gelu"
    died = [names[n] if n != ALIVE else "" for n in found.died_at.tolist()]
    expected = ["" if flip > 0 else "silu"] * 3 + ["silu" if flip > 0 else ""] * 2 + ["" if flip > 0 else "silu"]
    assert died == expected


def test_parts_that_reach_different_layers_add_up_like_one_run() -> None:
    model, one, two = Routed(), torch.ones(3, 1), -torch.ones(2, 1)
    added = census(model, one, keep_points=True) + census(model, two, keep_points=True)
    same(added, census(model, [one, two], keep_points=True))


def test_censuses_of_different_models_do_not_add() -> None:
    x = torch.randn(4, 3)
    a = census(nn.Sequential(nn.Linear(3, 4), nn.ReLU()), x)
    with pytest.raises(AliveError, match=r"no layer in common: 1 and 2"):
        a + census(nn.Sequential(nn.Linear(3, 4), nn.Identity(), nn.ReLU()), x)
    with pytest.raises(AliveError, match=r"layer 1 has 4 units of relu in one census and 5 of relu"):
        a + census(nn.Sequential(nn.Linear(3, 5), nn.ReLU()), x)
    with pytest.raises(AliveError, match=r"4 of elu in the other"):
        a + census(nn.Sequential(nn.Linear(3, 4), nn.ELU()), x)


def test_an_expert_that_no_point_was_sent_to_is_not_counted() -> None:
    class Experts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = (nn.Sequential(nn.Linear(1, 2), nn.ReLU()) for _ in range(2))

        def forward(self, x: Tensor) -> None:
            positive = x[:, 0] > 0
            self.a(x[positive]), self.b(x[~positive])

    found = census(Experts(), torch.ones(3, 1))
    assert [layer.name for layer in found.layers] == ["a.1"]


# Where points lie.


def test_rows_folded_into_the_batch_are_told_apart() -> None:
    class Folded(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(1, 2)
            nn.init.constant_(self.layer.weight, 1.0)
            nn.init.zeros_(self.layer.bias)

        def forward(self, x: Tensor) -> Tensor:
            return F.relu(self.layer(x.flatten().unsqueeze(1)))

    x = torch.tensor([[-1.0, -2.0, -3.0], [-1.0, 2.0, -3.0]])  # the first point is dead, the second is not
    found = census(Folded(), x, keep_points=True)
    assert found.points == Tally(dead=1, nonlinear=1)
    assert found.died_at.tolist() == [0, ALIVE]


def test_points_that_cannot_be_told_apart_are_not_counted() -> None:
    class Pooled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(3, 4)

        def forward(self, x: Tensor) -> Tensor:
            return F.relu(self.layer(x.sum(0, keepdim=True)))

    found = census(Pooled(), torch.randn(5, 3), keep_points=True)
    assert found["relu"].points == Tally()
    assert found["relu"].units.total == 4
    assert found.points == Tally(nonlinear=5)
    assert found.to_dict()["layers"][0]["points"] is None
    assert "·" in str(found)


def test_points_may_lie_on_the_second_axis() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 4), nn.ReLU())
    x = torch.randn(6, 5, 3)  # [T, N, C]
    found = census(model, x, point_axis=1, keep_points=True)
    same(found, census(model, x.transpose(0, 1), keep_points=True))
    assert found.points.total == 5


def test_a_model_of_time_first_may_end_in_rows_of_points() -> None:
    class Mean(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.mean(0)

    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), Mean(), nn.Linear(4, 4), nn.ReLU())
    found = census(model, torch.randn(6, 5, 3), point_axis=1)
    assert [layer.points.total for layer in found.layers] == [5, 5]


# Broken, saturated and declared.


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_broken_weights_are_reported_where_they_are(bad: float) -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 3), nn.ReLU())
    model[2].bias.data[1] = bad
    found = census(model, torch.randn(5, 3))
    assert found["1"].units.broken == 0
    assert found.to_dict()["layers"][1]["broken_units"] == [1]
    assert found.points == Tally(broken=5)
    assert (found + found).units.broken == 1


def test_a_saturated_relu6_unit_is_dead_and_a_bent_one_is_not_linear() -> None:
    model = nn.Sequential(nn.Linear(1, 3), nn.ReLU6())
    model[0].weight.data[:] = torch.tensor([[1.0], [1.0], [1.0]])
    model[0].bias.data[:] = torch.tensor([100.0, 6.0, 3.0])  # always above 6; about 6; in between
    assert census(model, torch.tensor([[-1.0], [1.0]])).units == Tally(dead=1, linear=1, nonlinear=1)


def test_a_declared_activation_is_counted_with_its_cutoff() -> None:
    class Late(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return F.relu(x - 5)

    model, x = nn.Sequential(nn.Identity(), Late()), torch.tensor([[1.0, 6.0], [2.0, 7.0]])
    found = census(model, x, activations={Late: Activation("late", cutoff=5.0)})
    assert found.units == Tally(dead=1, linear=1)


def test_patterns_choose_layers_and_a_miss_is_told() -> None:
    model = planted(Dense, 0)
    assert [layer.name for layer in census(model, torch.randn(4, 3), layers=["*#2"]).layers] == ["relu#2"]
    with pytest.raises(AliveError, match=r"no tap matches the patterns in layers; there are relu, relu#2"):
        census(model, torch.randn(4, 3), layers=["hidden.*"])


# Data.

X = torch.randn(10, 3)
Y = torch.zeros(10)
Pair = namedtuple("Pair", "x y")


@pytest.mark.parametrize(
    "data",
    [
        X,
        (X, Y),
        [X],
        [(X, Y)],
        [X[:4], X[4:]],
        [[X[:4], Y[:4]], [X[4:], Y[4:]]],
        [{"x": X}],
        [{"x": X[:9]}, {"x": X[9:]}],
        [Pair(X, Y)],
        DataLoader(TensorDataset(X, Y), batch_size=4),
        X.split(3),
    ],
    ids=[
        "tensor", "pair", "list", "list of pairs", "batches", "batches of lists", "mapping", "mappings", "named tuple",
        "loader", "tuple of batches",
    ],
)  # fmt: skip
def test_everything_people_call_data_gives_the_same_census(data: Any) -> None:
    model = planted(Dense, 1)
    same(census(model, data, keep_points=True), census(model, X, keep_points=True))


def test_a_generator_of_batches_is_data() -> None:
    model = planted(Dense, 1)
    same(census(model, (part for part in X.split(3))), census(model, X))


def test_a_large_tensor_is_taken_in_parts() -> None:
    sizes: list[int] = []
    model = nn.Sequential(nn.Linear(3, 2), nn.ReLU())
    handle = model[0].register_forward_pre_hook(lambda _, args: sizes.append(len(args[0])))
    assert census(model, torch.randn(2500, 3)).points.total == 2500
    handle.remove()
    assert sizes == [1024, 1024, 452]


def test_the_way_to_run_a_batch_can_be_said_and_sees_the_batch_as_it_came() -> None:
    model = planted(Dense, 1)
    found = census(model, [Pair(X, Y)], forward=lambda model, batch: model(batch.x))
    same(found, census(model, X))


def test_a_batch_may_take_several_passes() -> None:
    model = nn.Sequential(nn.Linear(3, 2), nn.ReLU())
    found = census(model, [X], forward=lambda model, batch: (model(batch), model(-batch)))
    assert [layer.name for layer in found.layers] == ["1", "1'"]
    assert found.points.total == 10


def test_a_mask_of_infinities_is_no_fault_of_the_data() -> None:
    class Masked(nn.Module):
        def forward(self, x: Tensor, mask: Tensor) -> Tensor:
            return F.relu(torch.softmax(x + mask, -1))

    mask = torch.tensor([[0.0, float("-inf"), 0.0]]).expand(10, 3)
    assert census(Masked(), [{"x": X, "mask": mask}]).points.total == 10


def poisoned(value: float) -> Tensor:
    x = X.clone()
    x[3, 1] = value
    return x


class Embedded(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.table(x))


RELU = nn.Sequential(nn.Linear(3, 4), nn.ReLU())


@pytest.mark.parametrize(
    ("model", "data", "said"),
    [
        (RELU, poisoned(float("nan")), r"batch 0 has 1 NaN or infinite value in its inputs \[10, 3\]. Clean the data"),
        (RELU, [X, poisoned(float("inf"))], "batch 1 has 1 NaN"),
        (RELU, [], "the data has no batch.*at least one point"),
        (RELU, torch.zeros(0, 3), "the data has no batch"),
        (RELU, [torch.zeros(0, 3)], r"no points on axis 0"),
        (RELU, [torch.zeros(())], r"shape \[\]: no points"),
        (RELU, torch.randn(5, 7), r"could not run on batch 0 with inputs \[5, 7\]: .*Check the shapes"),
        (RELU, [X, torch.randn(2, 9)], "could not run on batch 1"),
        (RELU, torch.ones(5, 3, dtype=torch.long), "could not run on batch 0"),
        (RELU, [{"wrong": X}], "unexpected keyword argument 'wrong'"),
        (RELU, {"x": X}, r"got dict.*put a single batch in a list"),
        (RELU, "data.csv", "got str"),
        (RELU, 3, "got int"),
        (RELU, TensorDataset(X, Y), "got TensorDataset.*DataLoader"),
        (RELU, [["a", "b"]], "batch 0 holds no tensor"),
        (RELU, [None], r"batch 0 holds no tensor \(it is a NoneType\)"),
        (Embedded(), torch.full((2, 2), 9), r"could not run on batch 0 .*index out of range"),
        (nn.Sequential(nn.Linear(3, 2), nn.Tanh()), X, "no one-sided activation ran.*made of Linear, Tanh"),
        (nn.ReLU, X, "expected a torch.nn.Module, got type"),
    ],
    ids=range(19),
)
def test_what_cannot_be_counted_is_one_error_with_cause_and_cure(model: Any, data: Any, said: str) -> None:
    with pytest.raises(AliveError, match=said) as caught:
        census(model, data)
    assert caught.value.cure
    assert _len_torch_function_stack() == 0


# It leaves the model as it was.


def hooks_of(model: nn.Module) -> list[dict[str, Any]]:
    return [
        {key: dict(value) for key, value in vars(m).items() if "hook" in key and isinstance(value, dict)}
        for m in model.modules()
    ]


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


# Memory and records.


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
    from alive.taps import Tap

    counter = _Counter(0, False)
    counter.expect(50)
    counter.watch(Call(Tap("a", Activation("relu"), 1), torch.randn(50, 4, 8, 8), False, lambda: None))
    assert sum(t.numel() for t in counter.seen["a"] if isinstance(t, Tensor)) == 4 + 4 + 50


def test_the_record_survives_json() -> None:
    found = census(planted(Dense, 2), X, keep_points=True)
    record = json.loads(found.to_json())
    assert record == found.to_dict()
    assert record["points"]["dead"] == found.points.dead
    assert len(record["died_at"]) == 10
    for layer, kept in zip(found.layers, record["layers"], strict=True):
        assert (layer.name, layer.units.dead) == (kept["name"], len(kept["dead_units"]))


def test_a_layer_is_found_by_name() -> None:
    found = census(planted(Dense, 2), X)
    assert found["relu#2"].name == "relu#2"
    with pytest.raises(KeyError):
        found["nothing"]
