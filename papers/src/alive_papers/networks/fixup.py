"""Fixup networks (the baseline of 000, Table 4): residual networks without norm, made trainable by their start.

Every branch ends in a zero layer; its other layers are scaled by L^(-1/(2m-2)), L the blocks of the network and m the
layers of a branch; single numbers, not vectors, are added before and after each convolution, one multiplies the branch.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from alive.errors import expect

from .design import Block, Design


class Shift(nn.Module):
    """Adds one learned number.

    >>> Shift()(torch.ones(2))
    tensor([1., 1.], grad_fn=<AddBackward0>)
    """

    def __init__(self) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        """Shift x."""
        return x + self.bias


class Scale(nn.Module):
    """Multiplies by one learned number, 1 at first."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, x: Tensor) -> Tensor:
        """Scale x."""
        return x * self.scale


class FixupBlock(nn.Module):
    """relu(skip(x) + scale · branch(x) + bias), with convolutions of the given kernels; the stride is the first 3x3's.

    Where the shape changes, the skip takes every stride-th position of the shifted input and adds channels of zeros.
    """

    def __init__(self, inputs: int, width: int, *, inner: int, kernels: tuple[int, ...], stride: int = 1) -> None:
        super().__init__()
        self.stride, self.more = stride, width - inputs
        expect([(self.more >= 0, f"a Fixup block cannot narrow its input from {inputs} to {width}")])
        self.before = nn.ModuleList(Shift() for _ in kernels)
        self.after = nn.ModuleList(Shift() for _ in kernels)
        self.convs = nn.ModuleList()
        strided = kernels.index(3)
        for level, kernel in enumerate(kernels):
            sizes = inner if level else inputs, width if level == len(kernels) - 1 else inner
            step = stride if level == strided else 1
            conv = nn.utils.skip_init(nn.Conv2d, *sizes, kernel, stride=step, padding=kernel // 2, bias=False)
            self.convs.append(conv)
        self.scale = Scale()
        self.relu = nn.ReLU()

    @torch.no_grad()
    def start(self, blocks: int, generator: Generator | None) -> None:
        """Draw the weights for a network of so many blocks: He by fan-out, scaled; the last layer zero."""
        scale = blocks ** (-1 / (2 * len(self.convs) - 2))
        for conv in self.convs:
            assert isinstance(conv, nn.Conv2d)
            _he(conv, generator, scale)
        nn.init.zeros_(self.convs[-1].weight)  # type: ignore[arg-type]

    def forward(self, x: Tensor) -> Tensor:
        """Maps [N, inputs, H, W] to [N, width, H/stride, W/stride]."""
        out = x
        last = len(self.convs) - 1
        for level, (before, conv, after) in enumerate(zip(self.before, self.convs, self.after, strict=True)):
            out = conv(before(out))
            out = self.relu(after(out)) if level < last else after(self.scale(out))
        return self.relu(out + self._skip(x))  # type: ignore[no-any-return]

    def _skip(self, x: Tensor) -> Tensor:
        if self.stride == 1 and not self.more:
            return x
        x = self.before[0](x)[:, :, :: self.stride, :: self.stride]
        return F.pad(x, (0, 0, 0, 0, 0, self.more))


class FixupNet(nn.Module):
    """The Fixup network of a preset: "34" is the FixUp34 of 000, [5, 5, 5] blocks; shapes as for `farkas.FarkasNet`.

    Stages begin with a strided block in the place of the 1x1 step and pool of the other networks, as in the reference.

    Differs from the paper: the stem is drawn as torch draws it for the small presets, as in the reference, and
    by He's rule for the large ones.

    >>> net = FixupNet(1, 10, stages=(2, 2), base=4)
    >>> net(torch.rand(3, 1, 8, 8)).abs().max().item()
    0.0
    """

    def __init__(
        self,
        channels: int,
        classes: int,
        *,
        preset: str = "34",
        stages: tuple[int, ...] | list[int] | None = None,
        base: int | None = None,
        block: Block | None = None,
        generator: Generator | None = None,
    ) -> None:
        super().__init__()
        expect(
            [
                (channels >= 1, f"channels must be at least 1, got {channels}"),
                (classes >= 1, f"classes must be at least 1, got {classes}"),
            ]
        )
        self.channels, self.design = channels, Design.of(preset, stages, base, block)
        self.stem = nn.utils.skip_init(nn.Conv2d, channels, self.design.stem_width, **self._stem_shape(), bias=False)
        self.stem_shift, self.relu = Shift(), nn.ReLU()
        self.pool = nn.MaxPool2d(3, 2, 1) if self.design.stem == "large" else nn.Identity()
        self.stages = nn.Sequential(*self._stages())
        self.head_shift = Shift()
        self.output = nn.utils.skip_init(nn.Linear, self.design.width(len(self.design.stages) - 1), classes)
        self._start(generator)

    def forward(self, x: Tensor) -> Tensor:
        """Map images [N, channels, H, W] to logits [N, classes]."""
        self.design.expect_images("FixupNet", self.channels, list(x.shape))
        maps = self.stages(self.pool(self.relu(self.stem_shift(self.stem(x)))))
        return self.output(self.head_shift(maps.mean((2, 3))))  # type: ignore[no-any-return]

    def parameter_groups(self, lr: float, *, weight_decay: float = 0.0) -> list[dict[str, Any]]:
        """For an optimiser: weights at lr and with decay, the single numbers at lr/10 and without.

        >>> groups = FixupNet(3, 10).parameter_groups(0.1, weight_decay=5e-4)
        >>> [(round(g["lr"], 3), g["weight_decay"]) for g in groups]
        [(0.1, 0.0005), (0.01, 0.0)]
        """
        single = [p for m in self.modules() if isinstance(m, Shift | Scale) for p in m.parameters()]
        taken = {id(p) for p in single}
        weights = [p for p in self.parameters() if id(p) not in taken]
        return [
            {"params": weights, "lr": lr, "weight_decay": weight_decay},
            {"params": single, "lr": lr / 10, "weight_decay": 0.0},
        ]

    def _stem_shape(self) -> dict[str, int]:
        kernel, stride = (7, 2) if self.design.stem == "large" else (3, 1)
        return {"kernel_size": kernel, "stride": stride, "padding": kernel // 2}

    def _stages(self) -> list[nn.Sequential]:
        design, inputs = self.design, self.design.stem_width
        bottleneck = design.block == "bottleneck"
        kernels = (1, 3, 1) if bottleneck else (3, 3)
        stages = []
        for number, blocks in enumerate(design.stages):
            width = design.width(number)
            inner = max(width // 4, 1) if bottleneck else width
            parts = []
            for position in range(blocks):
                stride = 2 if number and not position else 1
                parts.append(FixupBlock(inputs, width, inner=inner, kernels=kernels, stride=stride))
                inputs = width
            stages.append(nn.Sequential(*parts))
        return stages

    @torch.no_grad()
    def _start(self, generator: Generator | None) -> None:
        if self.design.stem == "large":
            _he(self.stem, generator)
        else:
            bound = 1 / math.sqrt(self.stem.weight[0].numel())
            nn.init.uniform_(self.stem.weight, -bound, bound, generator=generator)
        for module in self.modules():
            if isinstance(module, FixupBlock):
                module.start(sum(self.design.stages), generator)
        nn.init.zeros_(self.output.weight)
        nn.init.zeros_(self.output.bias)


def _he(conv: nn.Conv2d, generator: Generator | None, scale: float = 1.0) -> None:
    """Draw normal weights of deviation scale · sqrt(2 / (positions · units))."""
    fan_out = conv.weight.shape[0] * conv.weight[0, 0].numel()
    nn.init.normal_(conv.weight, 0.0, scale * math.sqrt(2 / fan_out), generator=generator)
