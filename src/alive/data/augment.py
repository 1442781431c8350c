"""Random crops, flips and cutout for whole batches of images at once."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from ..errors import AliveError, expect, near

FILLS = ("zero", "mean")


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
        x = self._moved(x, generator)
        return self._cut(x, generator) if self.cutout else x

    def _moved(self, x: Tensor, generator: torch.Generator) -> Tensor:
        """Crop and flip are one gather: each pixel knows the row and column of the padded image it comes from."""
        count, channels, height, width = x.shape
        padded = F.pad(x, (self.crop,) * 4)
        down, right = _whole(2 * self.crop + 1, (2, count), generator, x.device)
        rows = torch.arange(height, device=x.device) + down[:, None]
        columns = torch.arange(width, device=x.device).expand(count, -1)
        if self.flip:
            mirrored = _whole(2, (count,), generator, x.device).bool()
            columns = torch.where(mirrored[:, None], columns.flip(1), columns)
        columns = columns + right[:, None]
        source = rows[:, :, None] * padded.shape[3] + columns[:, None, :]
        index = source.view(count, 1, -1).expand(-1, channels, -1)
        return padded.flatten(2).gather(2, index).view_as(x)

    def _cut(self, x: Tensor, generator: torch.Generator) -> Tensor:
        """Blank a square around a pixel drawn evenly from the image."""
        count, _, height, width = x.shape
        middle_row = _whole(height, (count,), generator, x.device)
        middle_column = _whole(width, (count,), generator, x.device)
        inside = self._near(middle_row, height)[:, None, :, None] & self._near(middle_column, width)[:, None, None, :]
        if self.fill == "zero":
            return x.masked_fill(inside, 0)
        exact = x if x.is_floating_point() else x.float()
        mean = (exact * inside).sum((2, 3), keepdim=True) / inside.sum((2, 3), keepdim=True)
        return torch.where(inside, (mean if x.is_floating_point() else mean.round()).to(x.dtype), x)

    def _near(self, middle: Tensor, size: int) -> Tensor:
        """Which of `size` places [N, size] lie in the side of the square around each middle."""
        begin = (middle - self.cutout // 2)[:, None]
        places = torch.arange(size, device=middle.device)
        return (places >= begin) & (places < begin + self.cutout)


def _whole(below: int, shape: tuple[int, ...], generator: torch.Generator, device: torch.device) -> Tensor:
    """Whole numbers from 0, drawn where the generator lives."""
    return torch.randint(below, shape, generator=generator, device=generator.device).to(device)
