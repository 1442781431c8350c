"""Random crops, flips and cutout for whole batches of images at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from ..errors import AliveError, expect, near

FILLS = ("zero", "mean")


class Moves(NamedTuple):
    """What chance does to each image of a batch: row y and column x of the new one are y + down and x + right of the
    old one, x counted from the other side where it is mirrored, and zero outside; then a square is blanked.
    """

    down: Tensor  # [N], from -crop to crop
    right: Tensor  # [N]
    mirrored: Tensor  # [N], 0 or 1
    top: Tensor  # [N] the first row of the square that is blanked, which may lie outside
    left: Tensor  # [N] its first column


@dataclass(frozen=True, slots=True)
class Augment:
    """Pad by `crop` and cut back to size anywhere, mirror half of the images, blank a square of side `cutout`.

    Called with images [N, C, H, W], bytes or floats, and a generator, it gives new images of the same shape and type;
    the same generator state gives the same images. Padding is zero, so augment what networks read, after
    `Data.pixels`: there zero is the mean colour (black for data that are `unscaled`). The square of cutout may reach
    over the edge; it is filled with zero or, as in the code of 000, with its own mean in each channel.

    Differs from the paper: 002 and 003 do not say what the padding holds; zero after normalisation follows the
    residual networks they build on.

    >>> augment = Augment(crop=4, flip=True, cutout=8)
    >>> augment(torch.ones(5, 3, 32, 32), torch.Generator().manual_seed(0)).shape
    torch.Size([5, 3, 32, 32])
    """

    crop: int = 4
    flip: bool = True
    cutout: int = 0
    fill: str = "zero"

    def __post_init__(self) -> None:
        expect(
            [
                (self.crop >= 0, f"crop must be 0 or more, got {self.crop}"),
                (self.cutout >= 0, f"cutout must be 0 or more, got {self.cutout}"),
                (self.fill in FILLS, f"unknown fill {self.fill!r}: {near(self.fill, FILLS)}"),
            ]
        )

    def __call__(self, x: Tensor, generator: torch.Generator) -> Tensor:
        """Images like x [N, C, H, W], each changed by chance."""
        if x.dim() != 4 or x.numel() == 0:
            raise AliveError(f"Augment expects images [N, C, H, W], got {list(x.shape)}", "Keep the image axes apart")
        moves = Moves(*(part.to(x.device) for part in self.draw(len(x), (x.shape[2], x.shape[3]), generator)))
        x = self._move(x, moves)
        return self._blank(x, moves) if self.cutout else x

    def draw(self, count: int, size: tuple[int, int], generator: torch.Generator) -> Moves:
        """What becomes of so many images of a height and a width, drawn where the generator lives.

        >>> Augment(crop=1).draw(3, (8, 8), torch.Generator().manual_seed(0)).right.tolist()
        [-1, 0, -1]
        """
        down, right = _whole(2 * self.crop + 1, (2, count), generator) - self.crop
        none = torch.zeros_like(down)
        mirrored = _whole(2, (count,), generator) if self.flip else none
        if not self.cutout:
            return Moves(down, right, mirrored, none, none)
        top, left = (_whole(length, (count,), generator) - self.cutout // 2 for length in size)
        return Moves(down, right, mirrored, top, left)

    def _move(self, x: Tensor, moves: Moves) -> Tensor:
        """Crop and flip are one gather: each pixel knows the row and column of the padded image it comes from."""
        count, channels, height, width = x.shape
        padded = F.pad(x, (self.crop,) * 4)
        rows = torch.arange(height, device=x.device) + moves.down[:, None] + self.crop
        columns = torch.arange(width, device=x.device).expand(count, -1)
        columns = torch.where(moves.mirrored[:, None] > 0, columns.flip(1), columns) + moves.right[:, None] + self.crop
        source = rows[:, :, None] * padded.shape[3] + columns[:, None, :]
        index = source.view(count, 1, -1).expand(-1, channels, -1)
        return padded.flatten(2).gather(2, index).view_as(x)

    def _blank(self, x: Tensor, moves: Moves) -> Tensor:
        """Blank the square of each image."""
        height, width = x.shape[2:]
        inside = self._within(moves.top, height)[:, None, :, None] & self._within(moves.left, width)[:, None, None, :]
        if self.fill == "zero":
            return x.masked_fill(inside, 0)
        exact = x if x.is_floating_point() else x.float()
        mean = (exact * inside).sum((2, 3), keepdim=True) / inside.sum((2, 3), keepdim=True)
        return torch.where(inside, (mean if x.is_floating_point() else mean.round()).to(x.dtype), x)

    def _within(self, begin: Tensor, size: int) -> Tensor:
        """Which of `size` places [N, size] lie in the side of the square that begins there."""
        places = torch.arange(size, device=begin.device)
        return (places >= begin[:, None]) & (places < begin[:, None] + self.cutout)


def _whole(below: int, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Whole numbers from 0."""
    return torch.randint(below, shape, generator=generator, device=generator.device)
