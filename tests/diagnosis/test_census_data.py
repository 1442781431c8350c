"""Everything people call data gives the same census; what cannot be counted is one clear error."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from planted import Dense, planted, same
from torch import Tensor, nn
from torch.overrides import _len_torch_function_stack
from torch.utils.data import DataLoader, TensorDataset

from alive.diagnosis import census
from alive.errors import AliveError

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
    assert [layer.name for layer in found.layers] == ["1", "1#2"]
    assert found.points.total == 10


class Batch:
    """A batch of a class of one's own."""

    def __init__(self, x: Tensor) -> None:
        self.x = x


def test_units_are_counted_in_batches_of_any_class_that_forward_can_run() -> None:
    model = planted(Dense, 1)
    found = census(model, [Batch(X[:4]), Batch(X[4:])], forward=lambda model, batch: model(batch.x), keep_points=True)
    assert found.units == census(model, X).units
    assert (found.points.total, len(found.died_at)) == (0, 0)
    assert "·" in str(found)


def test_two_tensors_of_different_lengths_are_two_batches() -> None:
    model = planted(Dense, 1)
    same(census(model, X.split(6)), census(model, X))
    assert census(model, (X, X[:, :1])).points.total == 10
    time_first = nn.Sequential(nn.Linear(3, 2), nn.ReLU())
    assert census(time_first, (torch.randn(6, 10, 3), Y), point_axis=1).points.total == 10


def test_tuples_in_a_batch_stay_tuples() -> None:
    class Two(nn.Module):
        def forward(self, both: tuple[Tensor, Tensor]) -> Tensor:
            assert isinstance(both, tuple)
            return F.relu(both[0] - both[1])

    assert census(Two(), [((X, X.flip(0)), Y)]).points.total == 10


def test_a_compiled_model_is_counted_without_compiling() -> None:
    model = planted(Dense, 1)

    def refuse(*_: Any) -> Any:
        raise AssertionError("compiled")

    same(census(torch.compile(model, backend=refuse), X), census(model, X))


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
        (nn.Sequential(nn.Linear(3, 4, device="meta"), nn.ReLU()), X, "lies on the meta device and has no values"),
        (RELU, [Batch(X)], r"batch 0 holds no tensor \(it is a Batch\).*say how to run it: forward="),
    ],
    ids=range(21),
)
def test_what_cannot_be_counted_is_one_error_with_cause_and_cure(model: Any, data: Any, said: str) -> None:
    with pytest.raises(AliveError, match=said) as caught:
        census(model, data)
    assert caught.value.cure
    assert _len_torch_function_stack() == 0
