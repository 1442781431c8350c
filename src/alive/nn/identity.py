"""The residual block of 003: at zero weights the identity, with no norm, no bias and nothing after the sum."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F

from ..errors import expect


class IdentityBlock(nn.Module):
    """x' + C2 relu(C1 x), with x' = x: average-pooled by the stride, zero units added on both sides to `outputs`.

    Differs from the paper: an odd side, which the reference code cannot run, rounds up; its last window averages
    the positions that are there.

    >>> import torch
    >>> block = IdentityBlock(2, 4, stride=2)
    >>> _ = nn.init.zeros_(block.conv2.weight)
    >>> block(torch.ones(1, 2, 4, 4)).flatten(2)[0].tolist()
    [[0.0, 0.0, 0.0, 0.0], [1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0], [0.0, 0.0, 0.0, 0.0]]
    """

    def __init__(self, inputs: int, outputs: int, *, stride: int = 1) -> None:
        super().__init__()
        expect(
            [
                (1 <= inputs <= outputs, f"a block can only widen: got {inputs} units in and {outputs} out"),
                (stride >= 1, f"stride must be at least 1, got {stride}"),
            ]
        )
        self.added, self.stride = outputs - inputs, stride
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False)
        self.relu = nn.ReLU()
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)

    def shortcut(self, x: Tensor) -> Tensor:
        """x' [N, outputs, H/stride, W/stride] from x [N, inputs, H, W]."""
        if self.stride > 1:
            x = F.avg_pool2d(x, self.stride, ceil_mode=True)
        if self.added:
            x = F.pad(x, (0, 0, 0, 0, self.added // 2, self.added - self.added // 2))
        return x

    def forward(self, x: Tensor) -> Tensor:
        """One block."""
        return self.shortcut(x) + self.conv2(self.relu(self.conv1(x)))  # type: ignore[no-any-return]
