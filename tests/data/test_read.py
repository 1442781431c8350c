"""The batches of any data: the same points however they come, as often as they are asked for, and any of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from alive.data import Batches, read, tensors
from alive.data.batches import chain
from alive.errors import AliveError

X, Y = torch.randn(10, 3), torch.arange(10) % 2
MODEL = nn.Linear(3, 1)
SOURCES = {
    "a tensor": X,
    "an array": X.double().numpy(),
    "lists": X.tolist(),
    "a pair": (X, Y),
    "a mapping": {"input": X, "y": Y},
    "a data set": TensorDataset(X, Y),
    "examples": [(x, int(y)) for x, y in zip(X, Y, strict=True)],
    "a record": tensors(X, Y),
    "a loader": DataLoader(TensorDataset(X, Y), batch_size=4),
}


def inputs(batches: Batches) -> torch.Tensor:
    parts = [b["input"] if isinstance(b, dict) else b if isinstance(b, torch.Tensor) else b[0] for b in batches]
    return torch.cat(parts)


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
def test_all_points_come_as_often_as_they_are_asked_for(source: Any) -> None:
    batches = read(source, MODEL)
    assert batches.length == 10
    for _ in range(2):
        torch.testing.assert_close(inputs(batches), X)
    numbers = torch.tensor([1, 4, 9])
    torch.testing.assert_close(inputs(batches.take(numbers)), X[numbers])


@pytest.mark.parametrize("name", [name for name in SOURCES if name != "a loader"])
def test_batches_take_another_size(name: str) -> None:
    small = read(SOURCES[name], MODEL).resized(4)
    assert [len(inputs(read([batch], MODEL))) for batch in small] == [4, 4, 2]
    torch.testing.assert_close(inputs(small), X)
    some, words = small.sample(7, seed=1)
    assert words == "7 of 10 points, drawn at random with seed 1"
    assert [len(inputs(read([batch], MODEL))) for batch in some] == [4, 3]
    assert [len(inputs(read([batch], MODEL))) for batch in small.take(torch.arange(6))] == [4, 2]


def test_what_comes_in_batches_keeps_its_size() -> None:
    for source in (SOURCES["a loader"], [X[:5], X[5:]], chain([read(X, MODEL), read(SOURCES["a loader"], MODEL)])):
        with pytest.raises(AliveError, match="come in batches already"):
            read(source, MODEL).resized(2)


@pytest.mark.parametrize("numbers", [[0, 9, 10, 25], [3], [12, 13], list(range(30))])
def test_points_of_several_are_numbered_through(numbers: list[int]) -> None:
    other = X + 1
    both = chain([read(part, MODEL) for part in (X, TensorDataset(other), (X.numpy(), Y))])
    assert both.length == 30
    wanted = torch.cat([X, other, X])[numbers]
    assert torch.equal(inputs(both.take(torch.tensor(numbers))), wanted)
    assert [len(inputs(read([batch], MODEL))) for batch in both.resized(10)] == [10, 10, 10]


def test_numbers_come_in_the_precision_of_the_model() -> None:
    double = nn.Linear(3, 1).double()
    assert inputs(read(X.numpy(), double)).dtype == torch.float64
    assert inputs(read(np.arange(6).reshape(2, 3), double)).dtype == torch.int64, "token ids stay whole"
