"""The plain residual network, with the stages and head of a FarkasNet (000, Tables 1 to 4)."""

from __future__ import annotations

from collections import OrderedDict

from torch import Generator, Tensor, nn

from .design import Block, Design
from .staged import Staged, drawn


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
        super().__init__(channels, classes, Design.of(preset, stages, base, block))
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
        bottleneck = self.design.block == "bottleneck"
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
