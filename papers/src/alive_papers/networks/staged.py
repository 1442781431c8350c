"""Residual networks in stages: what those of 000 and their plain twins have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from torch import Generator, Tensor, nn

from alive.errors import expect
from alive.nn.init import torch_

from .design import Design


class Staged(nn.Module, ABC):
    """Stem, stages with a 1x1 step and AvgPool2d(2) between them, global average, one dense layer.

    What a step and a block are is for the networks below to say.
    """

    def __init__(self, channels: int, classes: int, design: Design) -> None:
        super().__init__()
        expect(
            [
                (channels >= 1, f"channels must be at least 1, got {channels}"),
                (classes >= 1, f"classes must be at least 1, got {classes}"),
            ]
        )
        self.channels, self.classes, self.design = channels, classes, design

    def build(self, *, batch_norm: bool, authors_head: bool, generator: Generator | None) -> None:
        """Make all parts in order, so that one generator starts them all."""
        large = self.design.stem == "large"
        kernel, stride = (7, 2) if large else (3, 1)
        self.stem = self.step(self.channels, self.design.stem_width, kernel=kernel, stride=stride)
        self.pool = nn.MaxPool2d(3, 2, 1) if large else nn.Identity()
        stages, width = [], self.design.stem_width
        for number, blocks in enumerate(self.design.stages):
            stage, width = self._stage(number, blocks, width)
            stages.append(stage)
        self.stages = nn.Sequential(*stages)
        self.output = drawn(nn.Linear, width, self.classes, generator=generator)
        self.head_norm = nn.BatchNorm1d(self.classes, affine=False) if batch_norm and authors_head else nn.Identity()

    def _stage(self, number: int, blocks: int, width: int) -> tuple[nn.Sequential, int]:
        """The blocks of a stage, behind a step where the width changes or the image is halved; and the width after."""
        parts: list[nn.Module] = []
        target = self.design.width(number)
        if number or width != target:
            parts.append(self.step(width, target, kernel=1, pool=number > 0))
            width = target
        for _ in range(blocks):
            block, width = self.block(width)
            parts.append(block)
        return nn.Sequential(*parts), width

    @abstractmethod
    def step(self, inputs: int, units: int, *, kernel: int, stride: int = 1, pool: bool = False) -> nn.Module:
        """One layer with its ReLU."""

    @abstractmethod
    def block(self, width: int) -> tuple[nn.Module, int]:
        """One residual block, and how wide its output is."""

    def forward(self, x: Tensor) -> Tensor:
        """Map images [N, channels, H, W] to logits [N, classes]."""
        self.design.expect_images(type(self).__name__, self.channels, list(x.shape))
        maps = self.stages(self.pool(self.stem(x)))
        return self.head_norm(self.output(maps.mean((2, 3))))  # type: ignore[no-any-return]


def drawn(kind: type[nn.Module], *args: Any, generator: Generator | None, **options: Any) -> Any:
    """A plain layer started as torch does, from a generator of one's own."""
    layer: Any = nn.utils.skip_init(kind, *args, **options)
    torch_((), layer, generator, 0.0)
    return layer
