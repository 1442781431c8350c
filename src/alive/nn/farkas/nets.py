"""FarkasNet and the plain residual network of the same stages and head (000, Tables 1 to 4)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import OrderedDict
from typing import Unpack

from torch import Generator, Tensor, nn

from ...errors import AliveError, expect, near
from ...functional.farkas import RuleOptions
from .blocks import VARIANTS, FarkasResidual, FarkasStep, drawn
from .plan import Block, Plan


class Staged(nn.Module, ABC):
    """Stem, stages with a 1x1 step and AvgPool2d(2) between them, global average, one dense layer.

    What a step and a block are is for the networks below to say.
    """

    def __init__(self, channels: int, classes: int, plan: Plan) -> None:
        super().__init__()
        expect(
            [
                (channels >= 1, f"channels must be at least 1, got {channels}"),
                (classes >= 1, f"classes must be at least 1, got {classes}"),
            ]
        )
        self.channels, self.classes, self.plan = channels, classes, plan

    def build(self, *, batch_norm: bool, authors_head: bool, generator: Generator | None) -> None:
        """Make all parts in order, so that one generator starts them all."""
        large = self.plan.stem == "large"
        kernel, stride = (7, 2) if large else (3, 1)
        self.stem = self.step(self.channels, self.plan.stem_width, kernel=kernel, stride=stride)
        self.pool = nn.MaxPool2d(3, 2, 1) if large else nn.Identity()
        stages, width = [], self.plan.stem_width
        for number, blocks in enumerate(self.plan.stages):
            stage, width = self._stage(number, blocks, width)
            stages.append(stage)
        self.stages = nn.Sequential(*stages)
        self.output = drawn(nn.Linear, width, self.classes, generator=generator)
        self.head_norm = nn.BatchNorm1d(self.classes, affine=False) if batch_norm and authors_head else nn.Identity()

    def _stage(self, number: int, blocks: int, width: int) -> tuple[nn.Sequential, int]:
        """The blocks of a stage, behind a step where the width changes or the image is halved; and the width after."""
        parts: list[nn.Module] = []
        target = self.plan.width(number)
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
        self.plan.expect_images(type(self).__name__, self.channels, list(x.shape))
        maps = self.stages(self.pool(self.stem(x)))
        return self.head_norm(self.output(maps.mean((2, 3))))  # type: ignore[no-any-return]


class FarkasNet(Staged):
    """A residual network of Farkas layers: at every image and position, one unit of every layer is active (000).

    preset        "18", "34", "50", "101" for 32x32 images, "imagenet50", "imagenet101", "imagenet152", "authors18"
    stages, base, block   in the place of the preset's: [1, 1], 4, "basic" is a small one
    batch_norm    norm "after" the ReLUs (the authors'), or "before" them on the free units
    variant       by default "full", or "replace" with norm after the ReLU; the authors' code has "grow"
    zero_last     start each branch at zero (Table 4)
    authors_head  batch norm on the logits too, where batch_norm is on

    Differs from the paper: blocks keep their width by default, and the strict bound has a margin. Released code is
    variant="grow", aggregation="mean", bias_mode="paper".

    >>> import torch
    >>> net = FarkasNet(1, 10, stages=(2, 2), base=4, generator=torch.Generator().manual_seed(0))
    >>> net(torch.rand(3, 1, 8, 8)).shape
    torch.Size([3, 10])
    """

    def __init__(
        self,
        channels: int,
        classes: int,
        *,
        preset: str = "18",
        stages: tuple[int, ...] | list[int] | None = None,
        base: int | None = None,
        block: Block | None = None,
        batch_norm: bool = False,
        norm: str = "after",
        variant: str | None = None,
        zero_last: bool = False,
        authors_head: bool = False,
        generator: Generator | None = None,
        **rule: Unpack[RuleOptions],
    ) -> None:
        super().__init__(channels, classes, Plan.of(preset, stages, base, block))
        norm = norm if batch_norm else "none"
        self.variant = variant or ("replace" if norm == "after" else "full")
        _expect_variant(self.variant, norm)
        self._norm, self._zero_last, self._generator, self._rule = norm, zero_last, generator, rule
        self.build(batch_norm=batch_norm, authors_head=authors_head, generator=generator)
        del self._generator  # a generator cannot be copied with the network
        for path, module in self.named_modules():
            if isinstance(module, FarkasResidual):
                module.name = path

    def step(self, inputs: int, units: int, *, kernel: int, stride: int = 1, pool: bool = False) -> nn.Module:
        """Build a Farkas layer with its ReLU."""
        return FarkasStep(
            inputs,
            units,
            kernel=kernel,
            stride=stride,
            norm=self._norm,
            pool=pool,
            generator=self._generator,
            **self._rule,
        )

    def block(self, width: int) -> tuple[nn.Module, int]:
        """Build a residual block; it reads ReLUs or means of them, so that no sign need be checked."""
        block = FarkasResidual(
            width,
            block=self.plan.block,
            variant=self.variant,
            norm=self._norm,
            zero_last=self._zero_last,
            check="never",
            generator=self._generator,
            **self._rule,
        )
        return block, block.out_width


class ResNet(Staged):
    """The plain residual network with the stages, steps and head of a FarkasNet; convolutions have biases.

    Batch norm stands between convolution and ReLU, with affine numbers, as is usual. With `authors_head` the logits
    are normalised as well, as in the authors' baseline; preset "authors18" has its stages.

    >>> import torch
    >>> ResNet(1, 10, stages=(2, 2), base=4, batch_norm=True)(torch.rand(3, 1, 8, 8)).shape
    torch.Size([3, 10])
    """

    def __init__(
        self,
        channels: int,
        classes: int,
        *,
        preset: str = "18",
        stages: tuple[int, ...] | list[int] | None = None,
        base: int | None = None,
        block: Block | None = None,
        batch_norm: bool = False,
        zero_last: bool = False,
        authors_head: bool = False,
        generator: Generator | None = None,
    ) -> None:
        super().__init__(channels, classes, Plan.of(preset, stages, base, block))
        self._batch_norm, self._zero_last, self._generator = batch_norm, zero_last, generator
        self.build(batch_norm=batch_norm, authors_head=authors_head, generator=generator)
        del self._generator

    def step(self, inputs: int, units: int, *, kernel: int, stride: int = 1, pool: bool = False) -> nn.Module:
        """Build a convolution with its norm and ReLU."""
        parts = self._summed(inputs, units, kernel, stride)
        parts["relu"] = nn.ReLU()
        if pool:
            parts["pool"] = nn.AvgPool2d(2)
        return nn.Sequential(parts)

    def block(self, width: int) -> tuple[nn.Module, int]:
        """Build a residual block of two 3x3 convolutions, or of 1x1, 3x3, 1x1."""
        bottleneck = self.plan.block == "bottleneck"
        kernels = (1, 3, 1) if bottleneck else (3, 3)
        inner = max(width // 4, 2) if bottleneck else width
        hidden = [self.step(inner if level else width, inner, kernel=k) for level, k in enumerate(kernels[:-1])]
        last = nn.Sequential(self._summed(inner, width, kernels[-1], 1))
        block = Residual(nn.Sequential(*hidden), last)
        if self._zero_last:
            for parameter in last[-1].parameters():  # of the norm, or of the convolution where there is none
                nn.init.zeros_(parameter)
        return block, width

    def _summed(self, inputs: int, units: int, kernel: int, stride: int) -> OrderedDict[str, nn.Module]:
        parts: OrderedDict[str, nn.Module] = OrderedDict()
        parts["conv"] = drawn(
            nn.Conv2d, inputs, units, kernel, stride=stride, padding=kernel // 2, generator=self._generator
        )
        if self._batch_norm:
            parts["norm"] = nn.BatchNorm2d(units)
        return parts


class Residual(nn.Module):
    """relu(x + last(hidden(x)))."""

    def __init__(self, hidden: nn.Module, last: nn.Module) -> None:
        super().__init__()
        self.hidden, self.last, self.relu = hidden, last, nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        """Add the branch to its input."""
        return self.relu(x + self.last(self.hidden(x)))  # type: ignore[no-any-return]


def _expect_variant(variant: str, norm: str) -> None:
    expect(
        [
            (variant in VARIANTS, f"unknown variant {variant!r}: {near(variant, VARIANTS)}"),
            (norm in ("none", "after", "before"), f"unknown norm {norm!r}: {near(norm, ['after', 'before'])}"),
        ]
    )
    if variant == "full" and norm == "after":
        raise AliveError(
            "variant 'full' needs inputs ≥ 0, and batch norm after the ReLU gives them both signs",
            "Take variant='replace' or 'grow', or norm='before'",
        )
