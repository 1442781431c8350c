"""Batched augmentation against one image at a time."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from alive.data import Augment
from alive.errors import AliveError


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def slow(augment: Augment, x: Tensor, generator: torch.Generator) -> Tensor:
    """Image by image, pixel by pixel, from the same draws."""
    count, _, height, width = x.shape
    down, right = torch.randint(2 * augment.crop + 1, (2, count), generator=generator).tolist()
    mirrored = torch.randint(2, (count,), generator=generator).tolist() if augment.flip else [0] * count
    made = torch.zeros_like(x)
    for n in range(count):
        for row in range(height):
            for column in range(width):
                at_row = row + down[n] - augment.crop
                at_column = (width - 1 - column if mirrored[n] else column) + right[n] - augment.crop
                if 0 <= at_row < height and 0 <= at_column < width:
                    made[n, :, row, column] = x[n, :, at_row, at_column]
    if augment.cutout:
        rows, columns = (torch.randint(size, (count,), generator=generator).tolist() for size in (height, width))
        for n in range(count):
            top, left = rows[n] - augment.cutout // 2, columns[n] - augment.cutout // 2
            down_to, right_to = top + augment.cutout, left + augment.cutout
            patch = made[n, :, max(0, top) : down_to, max(0, left) : right_to]
            mean = patch.double().mean((1, 2), keepdim=True)
            if augment.fill == "zero":
                patch.zero_()
            else:
                patch.copy_((mean if x.is_floating_point() else mean.round()).expand_as(patch))
    return made


@pytest.mark.twin
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32, torch.float64])
@pytest.mark.parametrize(
    "augment",
    [
        Augment(),
        Augment(crop=0),
        Augment(flip=False),
        Augment(crop=2, cutout=3),
        Augment(cutout=4, fill="mean"),
        Augment(crop=0, flip=False, cutout=50),
    ],
)
def test_a_batch_equals_one_image_at_a_time(augment: Augment, dtype: torch.dtype) -> None:
    x = torch.randint(256, (9, 3, 6, 7), generator=seeded(), dtype=torch.uint8).to(dtype)
    before = x.clone()
    made = augment(x, seeded(3))
    assert made.dtype == dtype
    assert torch.equal(x, before)
    torch.testing.assert_close(made, slow(augment, x, seeded(3)))


def test_the_generator_decides_alone() -> None:
    x = torch.rand(64, 3, 8, 8)
    augment = Augment(cutout=3)
    state = torch.get_rng_state()
    assert torch.equal(augment(x, seeded(1)), augment(x, seeded(1)))
    assert not torch.equal(augment(x, seeded(1)), augment(x, seeded(2)))
    assert torch.equal(state, torch.get_rng_state())


def test_nothing_asked_for_changes_nothing() -> None:
    x = torch.rand(5, 1, 4, 4)
    assert torch.equal(Augment(crop=0, flip=False)(x, seeded()), x)


def test_every_place_and_both_sides_are_drawn_about_equally() -> None:
    """One white pixel amid black: where it lands says which crop was drawn."""
    count = 9000
    x = torch.zeros(count, 1, 5, 5)
    x[:, 0, 2, 2] = 1
    landed = Augment(crop=1, flip=False)(x, seeded()).sum(0)[0]
    inner = landed[1:4, 1:4]
    assert inner.sum() == count
    assert (inner - count / 9).abs().max() < 5 * (count / 9) ** 0.5
    x[:, 0, 2, 2], x[:, 0, 2, 0] = 0, 1
    left = Augment(crop=0)(x, seeded()).sum(0)[0][2]
    assert left[0] + left[4] == count
    assert abs(left[0] - count / 2) < 5 * (count / 4) ** 0.5


def test_cutout_blanks_the_square_and_no_more() -> None:
    x = torch.ones(3000, 2, 9, 9)
    blank = (Augment(crop=0, flip=False, cutout=4)(x, seeded()) == 0).sum((2, 3))
    assert torch.equal(blank[:, 0], blank[:, 1])
    assert blank.max() == 16
    assert blank.min() == 4, "a square around a corner reaches over two edges"


@pytest.mark.parametrize("shape", [(3, 8, 8), (0, 3, 8, 8), (4, 64)])
def test_what_is_no_batch_of_images_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(AliveError, match=r"expects images \[N, C, H, W\]"):
        Augment()(torch.zeros(shape), seeded())


def test_wrong_settings_are_told_together() -> None:
    with pytest.raises(
        AliveError, match=r"crop must be 0 or more, got -1; cutout .* got -2; unknown fill 'men'.*'mean'"
    ):
        Augment(crop=-1, cutout=-2, fill="men")
