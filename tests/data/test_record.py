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
        ({"x": [["a"]]}, "x is no array of numbers"),
        ({"x": torch.zeros(2, 2, dtype=torch.complex64)}, "complex"),
        ({"y": [0, 1, 1]}, r"2 points need labels \[2\], got \[3\]"),
        ({"y": [[0], [1]]}, r"got \[2, 1\]"),
        ({"y": [0, -1]}, r"labels must lie in 0..1, got \[-1\] \(1 such"),
        ({"y": [0, 2], "classes": 2}, r"labels must lie in 0..1, got \[2\]"),
        ({"y": [0.5, 1]}, "y must hold whole numbers"),
        ({"y": [float("nan"), 1]}, "y must hold whole numbers"),
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
