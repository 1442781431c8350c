"""Everything people call data gives the same census; what cannot be counted is one clear error."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from planted import Dense, planted, same
from torch import Tensor, nn
from torch.overrides import _len_torch_function_stack
from torch.utils.data import DataLoader, Dataset, IterableDataset, Subset, TensorDataset

from alive.data import calls, read, tensors
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


class Join(nn.Module):
    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        return F.relu(a + b)


class Optional(nn.Module):
    def forward(self, x: Tensor, mask: Tensor | None = None, scale: float = 1.0) -> Tensor:
        return F.relu(x * (1.0 if mask is None else mask.unsqueeze(-1)) * scale)


class Failing(Dataset[Tensor]):
    def __len__(self) -> int:
        return 9

    def __getitem__(self, number: int) -> Tensor:
        return X[number] if number < 3 else {}[number]


class Frame:
    """What of a data frame of pandas or polars is read."""

    def __init__(self, columns: dict[str, Any]) -> None:
        self.held, self.columns = columns, list(columns)

    def __getitem__(self, name: str) -> Any:
        return self.held[name]

    def to_numpy(self) -> Any:
        raise AssertionError("not asked for: columns may be of several kinds")


class Rows(Dataset[Any]):
    def __init__(self, item: Any) -> None:
        self.item = item

    def __len__(self) -> int:
        return len(X)

    def __getitem__(self, number: int) -> Any:
        return self.item(number)


class Stream(IterableDataset[Any]):
    def __iter__(self) -> Any:
        return iter(zip(X, Y, strict=True))


NUMPY = X.numpy().astype(np.float64)
SETS: dict[str, Any] = {
    "array": NUMPY,
    "pair of arrays": (NUMPY, np.arange(10)),
    "lists": NUMPY.tolist(),
    "pair of lists": (NUMPY.tolist(), list(range(10))),
    "Fortran order": np.asfortranarray(NUMPY),
    "big endian": NUMPY.astype(">f8"),
    "backwards": NUMPY[::-1][::-1],
    "whole mapping": {"x": X},
    "whole mapping with labels": {"x": NUMPY, "labels": np.arange(10)},
    "one input of any name": {"pixels": X, "label": Y},
    "mapping and targets": ({"x": X}, Y),
    "real targets": (X, torch.randn(10, 2, 5)),
    "targets like inputs": (X, X + 1),
    "the inputs as targets": (X, X),
    "loader of targets like inputs": DataLoader(TensorDataset(X, X + 1), batch_size=3),
    "three parts": (X, Y, torch.ones(10)),
    "halves": X.split(5),
    "alone in a tuple": (X,),
    "record": tensors(X, torch.arange(10) % 2),
    "TensorDataset": TensorDataset(X, Y),
    "Subset": Subset(TensorDataset(X, Y), range(10)),
    "items: tuples": Rows(lambda k: (NUMPY[k], k)),
    "items: mappings": Rows(lambda k: {"x": X[k], "y": k}),
    "items: tensors": Rows(lambda k: X[k]),
    "items: lists": Rows(lambda k: X[k].tolist()),
    "items: named tuples": Rows(lambda k: Pair(X[k], k)),
    "list of examples": [(X[k], k) for k in range(10)],
    "list of records": [{"x": NUMPY[k], "label": k} for k in range(10)],
    "stream of examples": Stream(),
    "list of arrays": [NUMPY[:4], NUMPY[4:]],
    "iterator of pairs of arrays": [(NUMPY[:4], np.arange(4)), (NUMPY[4:], np.arange(6))],
    "generator": (X[k : k + 5] for k in (0, 5)),
    "data frame": Frame({name: NUMPY[:, k] for k, name in enumerate("abc")}),
    "data frame with classes": Frame({**{n: NUMPY[:, k] for k, n in enumerate("abc")}, "label": ["u", "v"] * 5}),
    "list of examples of tensors": [(X[k], Y[k]) for k in range(10)],
    "list of examples of arrays": [(NUMPY[k], np.int64(k)) for k in range(10)],
    "list of examples of lists": [(X[k].tolist(), k) for k in range(10)],
    "data frame and column": (Frame({name: NUMPY[:, k] for k, name in enumerate("aby")}), np.arange(10)),
    "two data frames": (Frame({name: NUMPY[:, k] for k, name in enumerate("abc")}), Frame({"y": ["u", "v"] * 5})),
    "data frame of several targets": (
        Frame({n: NUMPY[:, k] for k, n in enumerate("abc")}),
        Frame({"u": NUMPY[:, 0], "v": NUMPY[:, 1]}),
    ),
    "data frame with a target": Frame({"label": np.arange(10), **{n: NUMPY[:, k] for k, n in enumerate("abc")}}),
}


@pytest.mark.parametrize("data", SETS.values(), ids=SETS.keys())
def test_more_that_people_call_data_gives_the_same_census(data: Any) -> None:
    model = planted(Dense, 1)
    same(census(model, data, keep_points=True), census(model, X, keep_points=True))


@pytest.mark.parametrize(
    "data",
    [
        (X, X.flip(0)),
        (X, X.flip(0), Y),
        ((X, X.flip(0)), Y),
        {"b": X.flip(0), "a": X},
        {"a": X, "b": X.flip(0), "labels": Y},
        [(X[:4], X.flip(0)[:4]), (X[4:], X.flip(0)[4:])],
        [((X, X.flip(0)), Y)],
        DataLoader(TensorDataset(X, X.flip(0), Y), batch_size=3),
        Rows(lambda k: {"a": X[k], "b": X[9 - k], "y": k}),
        (NUMPY, NUMPY[::-1]),
    ],
)
def test_two_inputs_however_they_come(data: Any) -> None:
    found = census(Join(), data)
    z = X + X.flip(0)
    assert found.points == (
        int((z <= 0).all(1).sum()),
        int((z > 0).all(1).sum()),
        int(((z > 0).any(1) & (z <= 0).any(1)).sum()),
        0,
        0,
    )


@pytest.mark.parametrize("data", [TensorDataset(X, Y), Stream(), Rows(lambda k: X[k]), tensors(X, Y)])
def test_points_that_lie_on_the_first_axis_are_not_looked_for_on_another(data: Any) -> None:
    with pytest.raises(AliveError, match=r"on axis 0, and point_axis is 1\. Leave it out"):
        census(RELU, data, point_axis=1)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ([(X, Y, Y)], r"not clear which of the 3 parts of a batch forward\(x, mask=..., scale=...\) reads"),
        ([(X, torch.ones(10, 3))], "not clear which of the 2 parts"),
        ([((X, Y), Y)], "not clear how .* reads a batch whose inputs are 2 parts"),
    ],
)
def test_what_may_be_input_or_target_is_asked_for(data: Any, said: str) -> None:
    with pytest.raises(AliveError, match=said) as caught:
        census(Optional(), data)
    assert "mappings with the names" in caught.value.cure


def test_a_model_may_read_the_mapping_itself() -> None:
    class Whole(nn.Module):
        def forward(self, batch: dict[str, Tensor]) -> Tensor:
            return F.relu(batch["a"] + batch["b"])

    found, truth = (census(model, {"a": X, "b": X.flip(0), "label": Y}) for model in (Whole(), Join()))
    assert found.points == truth.points
    assert found.units == truth.units


def test_a_record_of_several_inputs_is_read_by_name_or_place() -> None:
    truth = census(Join(), (X, X.flip(0))).points
    assert census(Join(), tensors({"b": X.flip(0), "a": X}, torch.arange(10) % 2)).points == truth
    assert census(Join(), tensors((X, X.flip(0)), torch.arange(10) % 2)).points == truth


def test_a_plain_number_in_a_batch_makes_no_examples_of_it() -> None:
    class Times(nn.Module):
        def forward(self, *, x: Tensor, times: int) -> Tensor:
            return F.relu(x * times)

    assert census(Times(), [{"x": X, "times": 2}, {"x": X, "times": -2}]).points.total == 20

    class Anything(nn.Module):
        def forward(self, *args: Any, **given: Any) -> Tensor:
            return F.relu(given["x"] - given["target"])

    assert census(Anything(), {"x": X, "target": X.flip(0)}).points.total == 10


def test_targets_are_no_points_where_each_tensor_is_one() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU())
    assert census(model, [(X, Y), (X, Y)], point_axis=None).points.total == 2
    assert census(model, Rows(lambda k: (X[k : k + 1], k)), point_axis=None).points.total == 10


def test_every_input_is_looked_at_for_nan() -> None:
    with pytest.raises(AliveError, match="batch 0 has 1 NaN"):
        census(Join(), (X, poisoned(float("nan"))))
    assert census(RELU, (X, poisoned(float("nan")))).points.total == 10, "targets may be what they like"


def test_real_targets_are_no_mask() -> None:
    assert census(Optional(), [(X, torch.randn(10, 3))]).points.total == 10
    assert census(Optional(), [(X, Y)]).points.total == 10


def test_token_ids_stay_whole_numbers() -> None:
    model = Embedded()
    ids = torch.tensor([[0, 1], [2, 3], [1, 1]])
    truth = census(model, ids)
    for kind in (np.int16, np.int32, np.int64, np.uint16, np.uint32):
        same(census(model, ids.numpy().astype(kind)), truth)
    same(census(model, {"x": ids.tolist()}), truth)
    same(census(model, (ids.numpy(), np.zeros(3))), truth)


def test_arrays_come_in_the_precision_of_the_model() -> None:
    model = nn.Sequential(nn.Linear(3, 2), nn.ReLU()).double()
    assert census(model, X.numpy()).points == census(model, X.double()).points
    half = nn.Sequential(nn.Linear(3, 2), nn.ReLU()).bfloat16()
    assert census(half, NUMPY).points == census(half, X.bfloat16()).points


@pytest.mark.parametrize(
    ("batch", "targets"),
    [
        ((X, Y), Y),
        ([X, Y], Y),
        ({"x": X, "labels": Y}, Y),
        ({"x": X, "y": Y}, Y),
        (X, None),
        ({"x": X}, None),
        ([X], None),
        (((X, X), Y), Y),
    ],
)
def test_targets_can_be_reached(batch: Any, targets: Any) -> None:
    assert calls.targets(batch) is targets
    assert calls.targets(batch, nn.Identity()) is targets


def test_a_stream_gives_its_first_points() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU())

    def first(batches: Any, point_axis: int | None = 0) -> list[Any]:
        some, words = read((batch for batch in batches), model, point_axis).sample(5, 0, point_axis)
        assert words == "the first 5 points of the stream"
        return list(some)

    (whole, y), (cut, z) = first([(X[:4], Y[:4]), (X[4:], Y[4:]), (X, Y)])
    assert torch.equal(torch.cat([whole, cut]), X[:5])
    assert (len(y), len(z)) == (4, 1)
    assert [len(part) for part in first([NUMPY, NUMPY])] == [5]
    graph = {"x": X, "edges": torch.zeros(2, 7)}
    assert first([graph])[0]["edges"].shape == (2, 7), "what is no row of points is not cut"
    assert len(first([graph])[0]["x"]) == 10
    assert first([X, X, X], None)[0] is X


def test_one_array_may_be_one_point() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU())
    for data in (X, NUMPY, NUMPY.tolist()):
        assert census(model, data, point_axis=None).points.total == 1


def test_targets_stand_behind_all_inputs() -> None:
    assert calls.targets((X, X, Y), Join()) is Y
    assert calls.targets((X, Y, X), nn.Identity()) is Y
    assert calls.inputs((X, Y), nn.Identity()) is X
    assert calls.inputs({"a": X, "b": X, "y": Y}, Join()).keys() == {"a", "b"}


@pytest.mark.parametrize(
    "data",
    [X, (X, Y), {"x": X}, DataLoader(TensorDataset(X, Y), batch_size=4, shuffle=True), Rows(lambda k: X[k])],
)
def test_a_sample_is_drawn_of_the_whole_and_kept_in_order(data: Any) -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU())
    some, words = read(data, model).sample(6, seed=5)
    kept = torch.randperm(10, generator=torch.Generator().manual_seed(5))[:6].sort().values
    seen = torch.cat([next(calls.tensors(batch)) for batch in some])
    assert torch.equal(seen, X[kept])
    assert words == "6 of 10 points, drawn at random with seed 5"
    assert read(data, model).sample(10, seed=5)[1] == ""


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
        (RELU, [{"wrong": X, "more": X}], "has wrong, more, and forward.. takes input and needs input.*forward="),
        (RELU, {"x": X, "idx": Y}, "has x, idx, and forward.. takes input"),
        (RELU, "data.csv", "there is no file data.csv"),
        (RELU, 3, "expected data, got int"),
        (RELU, DataLoader, "expected data, got the class DataLoader"),
        (RELU, [["a", "b"]], "batch 0 holds no tensor"),
        (RELU, [None], r"batch 0 holds no tensor \(it is a NoneType\)"),
        (Embedded(), torch.full((2, 2), 9), r"could not run on batch 0 .*index out of range"),
        (nn.Sequential(nn.Linear(3, 2), nn.Tanh()), X, "no one-sided activation ran.*made of Linear, Tanh"),
        (nn.ReLU, X, "expected a torch.nn.Module, got type"),
        (nn.Sequential(nn.Linear(3, 4, device="meta"), nn.ReLU()), X, "lies on the meta device and has no values"),
        (RELU, [Batch(X)], r"batch 0 holds no tensor \(it is a Batch\).*say how to run it: forward="),
        (RELU, {"x": X, "y": Y[:9]}, "different numbers of points: x 10, y 9.*one row a point"),
        (RELU, {}, "the mapping is empty"),
        (RELU, {"train": DataLoader(X)}, "'train' is a DataLoader.*choose a part"),
        (RELU, (X, Y[:9]), r"10 inputs \[10, 3\] and targets \[9\]. Give as many"),
        (RELU, Frame({"a": ["x", "z"], "b": [1.0, 2.0]}), "column 'a' of the table holds no numbers"),
        (RELU, Frame({"a": [1.0], "y": [1], "label": [2]}), "a, y, label, of which 2 look like targets"),
        (RELU, [[1.0, 2.0], [3.0]], "rows of different lengths"),
        (RELU, {"x": [[1.0, 2.0], [3.0]]}, "rows of different lengths. Pad rows"),
        (RELU, np.array(["a", "b"]), "expected an array of numbers, got values of type <U1"),
        (RELU, np.full((2, 3), 1e300), "too large for float32. Scale them"),
        (RELU, np.ones((2, 3), int), "The inputs are int64, and the model computes with float32: give it x.float"),
        (
            RELU,
            X.double(),
            r"The inputs are float64, and the model computes with float32: give it x.to\(torch.float32\)",
        ),
        (Embedded(), X, r"The inputs are float32: if they are token ids .*x.long\(\)"),
        (RELU, [(X[0], 1), (X[1, :2], 0)], "cannot be put together to a batch.*collate_fn"),
        (RELU, Failing(), r"reading batch 0 of the data failed with KeyError: 3 \(test_census_data.py, line \d+\)"),
        (RELU, [(torch.arange(10), X)], r"first part .* holds int64 \[10\], and a later one float32 \[10, 3\]; if the"),
        (RELU, X.to("meta"), r"the inputs \[10, 3\] lie on the meta device and have no values"),
        (RELU, (Frame({"a": ["x"] * 10}), Y), "column 'a' of the table holds no numbers"),
        (Join(), X, "missing 1 required positional argument: 'b'"),
        (Join(), [(X,)], r"forward\(\) needs 2 inputs \(a, b\), and a batch has 1"),
    ],
    ids=range(41),
)
def test_what_cannot_be_counted_is_one_error_with_cause_and_cure(model: Any, data: Any, said: str) -> None:
    with pytest.raises(AliveError, match=said) as caught:
        census(model, data)
    assert caught.value.cure
    assert _len_torch_function_stack() == 0
