"""The shapes of the papers' residual networks, by name: stages of blocks, each twice as wide as the one before."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from alive.errors import AliveError, expect, expect_one_of, near

Block = Literal["basic", "bottleneck"]


@dataclass(frozen=True, slots=True)
class Design:
    """Blocks a stage, width of the first stage, kind of block, and the stem before them.

    The "small" stem is a 3x3 convolution as wide as the first stage; the "large" one 7x7 with stride 2, 64 wide, and a
    3x3 max pool with stride 2.

    >>> PRESETS["34"]
    Design(stages=(5, 5, 5), base=16, block='basic', stem='small')
    """

    stages: tuple[int, ...]
    base: int
    block: Block = "basic"
    stem: Literal["small", "large"] = "small"

    def __post_init__(self) -> None:
        expect(
            [
                (
                    len(self.stages) >= 1 and all(isinstance(n, int) and n >= 1 for n in self.stages),
                    f"stages must be whole numbers of blocks of at least 1, got {self.stages}",
                ),
                (self.base >= 2, f"base must be at least 2, got {self.base}"),
                (
                    self.block in ("basic", "bottleneck"),
                    f"unknown block {self.block!r}: {near(self.block, ['basic', 'bottleneck'])}",
                ),
            ]
        )

    @classmethod
    def of(
        cls,
        preset: str,
        stages: tuple[int, ...] | list[int] | None = None,
        base: int | None = None,
        block: Block | None = None,
    ) -> Design:
        """Take a preset, with whatever else is asked in its place."""
        expect_one_of("preset", preset, PRESETS)
        design = PRESETS[preset]
        return replace(
            design,
            stages=design.stages if stages is None else tuple(stages),
            base=design.base if base is None else base,
            block=block or design.block,
        )

    @property
    def stem_width(self) -> int:
        """Units of the stem."""
        return 64 if self.stem == "large" else self.base

    def width(self, stage: int) -> int:
        """Units of a stage, counted from 0."""
        return int(self.base * 2**stage)

    def expect_images(self, name: str, channels: int, shape: list[int]) -> None:
        """Refuse what is no batch of images, or too small to be halved between all stages."""
        if len(shape) != 4 or shape[1] != channels:
            raise AliveError(
                f"{name} expected images [N, {channels}, H, W], got {shape}",
                "Build the network with the channels of the data",
            )
        least = 2 ** (len(self.stages) - 1)
        least = 4 * least - 3 if self.stem == "large" else least
        if min(shape[2:]) < least:
            raise AliveError(
                f"images of {shape[2]}x{shape[3]} are too small for {len(self.stages)} stages, which halve them "
                f"{len(self.stages) - 1} times{' after a stem that quarters them' * (self.stem == 'large')}",
                f"Use images of at least {least}x{least}, or fewer stages",
            )


# 18 to 101 are the authors' FarkasNets for 32x32 images. `authors18` is their ResNet18, which has other stages than
# their FarkasNet18. The wide ones are the usual residual networks for 224x224 images.
PRESETS: dict[str, Design] = {
    "18": Design((3, 3, 3), 16),
    "34": Design((5, 5, 5), 16),
    "50": Design((3, 4, 6, 3), 64, "bottleneck"),
    "101": Design((3, 4, 23, 3), 64, "bottleneck"),
    "authors18": Design((2, 2, 2, 2), 16),
    "imagenet50": Design((3, 4, 6, 3), 256, "bottleneck", "large"),
    "imagenet101": Design((3, 4, 23, 3), 256, "bottleneck", "large"),
    "imagenet152": Design((3, 8, 36, 3), 256, "bottleneck", "large"),
}
