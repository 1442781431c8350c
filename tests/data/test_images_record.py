"""Images held as bytes: what networks read of them, and smaller sets."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from alive.data import Data, images, tensors
from alive.data.record import channel_scale
from alive.errors import AliveError


def some(count: int = 12, classes: int = 3) -> Data:
    chance = torch.Generator().manual_seed(0)
    x = torch.randint(256, (count, 3, 4, 5), generator=chance, dtype=torch.uint8)
    return images(x, torch.arange(count) % classes, test_x=x[:4], test_y=[0, 1, 2, 0], name="some")


def test_images_stay_bytes_and_keep_the_rest_of_the_record() -> None:
    data = some()
    assert data.train_x.dtype == torch.uint8
    assert data.train_x.element_size() * data.train_x.numel() == 12 * 60
    assert (data.inputs, data.outputs, data.classes) == (60, 3, 3)
    assert data.test is not None
    assert data.train[0] is data.train_x


@pytest.mark.twin
def test_scale_equals_mean_and_std_of_torch() -> None:
    x = some().train_x
    mean, std = channel_scale(x)
    exact = x.double().div(255).transpose(0, 1).flatten(1)
    torch.testing.assert_close(torch.tensor(mean, dtype=torch.float64), exact.mean(1))
    torch.testing.assert_close(torch.tensor(std, dtype=torch.float64), exact.std(1, correction=0))


@pytest.mark.twin
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, None])
def test_pixels_equal_the_formula_and_are_standard_over_the_training_set(dtype: torch.dtype | None) -> None:
    data = some()
    before = data.train_x.clone()
    read = data.pixels(data.train_x, dtype)
    assert read.dtype == (dtype or torch.get_default_dtype())
    assert torch.equal(data.train_x, before)
    assert data.mean is not None
    assert data.std is not None
    for channel, (mean, std) in enumerate(zip(data.mean, data.std, strict=True)):
        slow = (before[:, channel].double() / 255 - mean) / std
        torch.testing.assert_close(read[:, channel].double(), slow, rtol=1e-5, atol=1e-6)
        assert abs(slow.mean()) < 1e-6
        assert slow.std(correction=0) == pytest.approx(1)


def test_pixels_of_floats_are_the_floats_themselves() -> None:
    data = tensors([[0.5, 1.0], [2.0, 3.0]], [0, 1])
    assert data.pixels(data.train_x) is data.train_x
    assert data.pixels(data.train_x, torch.float64).dtype == torch.float64
    assert data.unscaled() is data


def test_unscaled_images_lie_in_0_to_1() -> None:
    data = some().unscaled()
    torch.testing.assert_close(data.pixels(data.train_x), data.train_x / 255)


def test_pixels_refuse_what_is_not_stored() -> None:
    data = some()
    with pytest.raises(AliveError, match=r"expects stored bytes, got torch.float32"):
        data.pixels(data.pixels(data.train_x))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"mean": None, "std": None}, "bytes need both mean and std"),
        ({"std": None}, "bytes need both mean and std"),
        ({"mean": (0.5,)}, "3 channels need as many means and stds"),
        ({"std": (0.5, 0.0, 0.5)}, "every std must be above 0"),
        ({"mean": (0.5, float("nan"), 0.5)}, "every mean must be finite"),
        ({"train_x": torch.zeros(12, 3, 4, 5)}, "are for bytes"),
        ({"train_x": torch.zeros(12, 60, dtype=torch.uint8)}, "are for bytes"),
        ({"train_x": torch.zeros(12, 3, 4, 5, dtype=torch.int32)}, "points must be floats, bytes or int64"),
        ({"test_x": torch.zeros(4, 3, 4, 5)}, "both be floats or both bytes"),
        ({"test_x": torch.zeros(4, 3, 4, 6, dtype=torch.uint8)}, "another shape"),
        ({"train_y": torch.arange(12)}, "labels must lie in 0..2"),
    ],
)
def test_faults_of_images_are_named(change: dict[str, object], says: str) -> None:
    whole = some()
    fields = {name: getattr(whole, name) for name in Data.__dataclass_fields__} | change
    with pytest.raises(AliveError, match=says):
        Data(**fields)


@pytest.mark.law
@given(
    labels=st.lists(st.integers(0, 3), min_size=1, max_size=40),
    part=st.floats(0, 1),
    seed=st.none() | st.integers(0, 5),
)
def test_a_subset_is_as_even_as_its_classes_allow(labels: list[int], part: float, seed: int | None) -> None:
    count = max(1, round(part * len(labels)))
    data = tensors(torch.arange(len(labels))[:, None], labels, classes=4)
    chosen = data.subset(count, seed=seed)
    assert torch.equal(chosen.train_x, data.subset(count, seed=seed).train_x), "the same each time"
    numbers = chosen.train_x[:, 0].long()
    assert len(numbers.unique()) == count
    assert torch.equal(numbers.sort().values, numbers)
    assert torch.equal(data.train_y[numbers], chosen.train_y)
    had, has = (part.train_y.bincount(minlength=4) for part in (data, chosen))
    for each in range(4):
        assert has[each] == had[each] or has[each] >= has.max() - 1, "a class gives fewer only if it has no more"


def test_a_subset_without_a_seed_takes_the_first_of_each_class_and_keeps_scale_and_test_set() -> None:
    data = some(30)
    part = data.subset(9)
    assert torch.equal(part.train_x, data.train_x[:9]), "labels go round 0, 1, 2"
    assert part.name == "some, 9 of 30 points"
    assert (part.mean, part.std) == (data.mean, data.std)
    assert part.test_x is data.test_x
    assert not torch.equal(data.subset(9, seed=1).train_x, part.train_x)
    assert data.subset(30).name == "some"


def test_a_subset_by_numbers_and_of_the_test_set() -> None:
    part = some().subset([5, 2], test=3)
    assert torch.equal(part.train_x, some().train_x[[5, 2]])
    assert part.test_y is not None
    assert part.test_y.tolist() == [0, 1, 2]


@pytest.mark.parametrize("wrong", [0, 13, -1, [], [12], [-1], [0.5], [[1]], [True]])
def test_subsets_that_cannot_be(wrong: object) -> None:
    with pytest.raises(AliveError, match="training points"):
        some().subset(wrong)  # type: ignore[arg-type]
    with pytest.raises(AliveError, match="has no test points"):
        tensors([[1.0]], [0]).subset(1, test=1)
