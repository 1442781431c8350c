import numpy as np
import pytest
import torch

from alive.data import Data, tensors
from alive.errors import AliveError


def test_arrays_lists_and_tensors_agree() -> None:
    x, y = [[0.5, 1.0], [2.0, 3.0]], [0, 1]
    for make in (list, np.array, torch.tensor):
        data = tensors(make(x), make(y))
        assert data.train_x.dtype == torch.get_default_dtype()
        assert torch.equal(data.train_x, torch.tensor(x))
        assert torch.equal(data.train_y, torch.tensor(y))
        assert data.test is None


def test_inputs_outputs_and_classes() -> None:
    images = tensors(torch.zeros(3, 2, 4, 5), [0, 1, 1], test_x=torch.zeros(1, 2, 4, 5), test_y=[4.0])
    assert (images.inputs, images.outputs, images.classes) == (40, 5, 5)
    assert tensors([[1.0]], [0]).outputs == 1
    assert tensors([[1.0]], [0], classes=10).outputs == 10
    assert images.test is not None
    assert images.train[0] is images.train_x


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"x": torch.tensor([[1.0, 2.0], [float("nan"), float("inf")]])}, r"2 of 4 numbers .* index \[1, 0\]"),
        ({"x": torch.zeros(0, 2), "y": []}, "at least one"),
        ({"x": torch.zeros(2)}, r"expected points \[N, ...\].*got \[2\]"),
        ({"x": 3.0}, r"got \[\]"),
        ({"x": [["a"]]}, "x is not an array of numbers"),
        ({"x": torch.zeros(2, 2, dtype=torch.complex64)}, "complex"),
        ({"y": [0, 1, 1]}, r"2 points need labels \[2\], got \[3\]"),
        ({"y": 1}, r"2 points need labels \[2\], got \[\]"),
        ({"y": None}, "has no targets. Give y beside x"),
        ({"y": [0, -1]}, r"labels must lie in 0..1, got \[-1\] \(1 such"),
        ({"y": [0, 2], "classes": 2}, r"labels must lie in 0..1, got \[2\]"),
        ({"y": [0.5, 1], "classes": 2}, "y must hold whole numbers"),
        ({"y": [0.5, 1, 2]}, r"2 points need targets \[2, ...\], got \[3\]"),
        ({"y": torch.zeros(2, 0)}, r"got \[2, 0\]"),
        ({"y": [float("nan"), 1]}, r"targets: 1 of 2 numbers are NaN or infinite, the first at index \[0\]"),
        ({"y": np.array([1e300, 0.5])}, "y holds numbers too large"),
        ({"y": [[0, 1], [-100, -1]]}, r"labels must lie in 0..1, got \[-1\] \(1 such"),
        ({"y": [-100, 1]}, r"labels must lie in 0..1, got \[-100\]"),
        ({"x": {}}, "x is empty"),
        ({"x": {"a": torch.zeros(2, 2), "b": torch.zeros(3, 2)}}, r"as many points, got 2 and \[3\]"),
        ({"test_x": torch.zeros(1, 2), "test_y": [[0, 1]]}, "test targets have another shape"),
        ({"x": {"a": torch.zeros(2, 2)}, "test_x": {"b": torch.zeros(1, 2)}, "test_y": [0]}, "Name them alike"),
        ({"y": [0, 10**12]}, "labels go up to 1000000000000, and there are 2 training points"),
        ({"x": torch.full((2, 2), 1e300, dtype=torch.float64)}, "too large for torch.float32. Scale them"),
        ({"x": np.array([["2020-01-01"]] * 2, dtype="M8[D]")}, "Turn text and dates into numbers"),
        ({"test_x": torch.zeros(1, 2)}, "go together"),
        ({"test_x": torch.zeros(1, 3), "test_y": [0]}, "another shape"),
        ({"test_x": torch.full((1, 2), float("inf")), "test_y": [0]}, "test set: 2 of 2 numbers"),
        ({"classes": 1, "y": [0, 0]}, "at least two classes"),
    ],
)
def test_faults_are_named(change: dict[str, object], says: str) -> None:
    arguments = {"x": torch.zeros(2, 2), "y": [0, 1]} | change
    with pytest.raises(AliveError, match=says):
        tensors(arguments.pop("x"), arguments.pop("y"), **arguments)  # type: ignore[arg-type]


def test_faults_are_told_together() -> None:
    with pytest.raises(AliveError) as caught:
        Data("toy", torch.full((2, 1), float("nan")), torch.tensor([0, 5, 1]), None, None, 2)
    for said in ("toy, training set", "2 of 2", "got [3]", "0..1"):
        assert said in str(caught.value)


def test_targets_that_are_not_whole_are_real_of_any_shape() -> None:
    x = torch.zeros(3, 2)
    for y, outputs in [([0.5, 1, 2], 1), ([[0.5], [1], [2]], 1), (torch.rand(3, 4), 4), (torch.rand(3, 2, 5), 10)]:
        data = tensors(x, y)
        assert (data.classes, data.is_real, data.outputs) == (0, True, outputs)
        assert data.train_y.shape == torch.as_tensor(y).shape
    both = tensors(x, [0, 1, 2], test_x=x[:1], test_y=[0.5])
    assert both.train_y.dtype == both.test_y.dtype == torch.get_default_dtype()
    for prices in ([250_000.0, 1.0, 3.0], [-1.0, 1.0, 1.0]):  # whole, and no classes
        assert tensors(x, prices).is_real
    assert tensors(x, [25.0, 346.0, 3.0]).classes == 347
    assert tensors(x, [25.0, 346.0, -3.0], real=True).train_y.tolist() == [25.0, 346.0, -3.0]
    assert tensors(x, [0, 10**6, 1], real=True).is_real
    assert torch.equal(tensors(x, [2, 0, 1]).as_real().train_y, torch.tensor([2.0, 0.0, 1.0]))


def test_labels_of_words_may_be_left_out_and_columns_of_labels_are_labels() -> None:
    data = tensors(torch.zeros(2, 3), [[0, 70_000, -100], [1, 2, 3]])
    assert (data.classes, data.train_y.shape) == (70_001, (2, 3))
    assert tensors(torch.zeros(2, 3), [[1], [0]]).train_y.tolist() == [1, 0]
    assert tensors(torch.zeros(2, 3), [[1, 0, 1, 1], [0, 1, 0, 0]]).outputs == 4


def test_whole_inputs_stay_whole_only_when_asked() -> None:
    ids = np.array([[3, 1], [0, 2]], dtype=np.int32)
    assert tensors(ids, [0, 1]).train_x.is_floating_point()
    kept = tensors(ids, [0, 1], integers=True)
    assert kept.train_x.dtype == torch.int64
    assert kept.pixels(kept.train_x, dtype=torch.float64).dtype == torch.int64
    assert torch.equal(kept.as_floats().train_x, torch.tensor(ids).float())
    assert tensors([4, 2], [0, 1], integers=True).train_x.tolist() == [4, 2]


def test_several_inputs_keep_their_names_and_places() -> None:
    a, b = torch.arange(6.0).view(3, 2), torch.arange(3)[:, None]
    data = tensors({"a": a, "b": b}, [0, 1, 0], test_x={"b": b[:1], "a": a[:1]}, test_y=[1], integers=True)
    assert data.names == ("a", "b")
    assert [len(inputs) for inputs, _ in data.parts] == [2, 2]
    assert torch.equal(data.test_x, a[:1])
    assert data.subset([2]).train_more[0].tolist() == [[2]]
    assert tensors((a, b), [0, 1, 0]).names == ()
    assert tensors(((1.0, 2.0), (3.0, 4.0)), [0, 1]).train_more == ()


def test_a_part_of_real_data_is_its_first_points_or_any() -> None:
    data = tensors(torch.arange(20.0)[:, None], torch.arange(20) / 7)
    assert data.subset(3).train_x.flatten().tolist() == [0.0, 1.0, 2.0]
    drawn = data.subset(8, seed=1).train_x.flatten()
    assert len(set(drawn.tolist())) == 8
    assert torch.equal(drawn, drawn.sort().values)


def test_what_is_made_for_classes_says_so() -> None:
    data = tensors(torch.zeros(3, 2), [0.5, 1, 2], name="heights")
    with pytest.raises(AliveError, match=r"a fleet needs one label a point, and heights has real targets \[3\]"):
        data.expect_classes("a fleet")
    tensors(torch.zeros(3, 2), [0, 1, 2]).expect_classes("a fleet")
