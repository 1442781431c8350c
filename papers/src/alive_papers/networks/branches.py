"""The branches and skips of 002's convolutional blocks."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F

from alive.errors import expect, expect_one_of

ORDERS = ("preact", "literal")


class PooledShortcut(nn.Module):
    """A skip without weights: average over stride x stride positions, then zero channels on both sides.

    >>> import torch
    >>> PooledShortcut(4, 8, stride=2)(torch.ones(1, 4, 6, 6)).sum((0, 2, 3)).tolist()
    [0.0, 0.0, 9.0, 9.0, 9.0, 9.0, 0.0, 0.0]
    """

    def __init__(self, inputs: int, outputs: int, *, stride: int = 1) -> None:
        super().__init__()
        expect([(outputs >= inputs, f"a pooled shortcut cannot narrow {inputs} channels to {outputs}")])
        before = (outputs - inputs) // 2
        self.stride, self.padding = stride, (0, 0, 0, 0, before, outputs - inputs - before)

    def forward(self, x: Tensor) -> Tensor:
        """Map [N, inputs, H, W] to [N, outputs, ceil(H/stride), ceil(W/stride)]."""
        pooled = x if self.stride == 1 else F.avg_pool2d(x, self.stride, ceil_mode=True)
        return F.pad(pooled, self.padding)


def shortcut(inputs: int, outputs: int, *, stride: int = 1, kind: str = "projection") -> nn.Module:
    """Make the skip of a block: the identity where nothing changes, else a 1x1 projection (eq 1) or a `pooled` one.

    >>> shortcut(16, 16), shortcut(16, 32, stride=2).stride
    (Identity(), (2, 2))
    """
    expect_one_of("shortcut", kind, ("projection", "pooled"))
    if inputs == outputs and stride == 1:
        return nn.Identity()
    if kind == "pooled":
        return PooledShortcut(inputs, outputs, stride=stride)
    return nn.Conv2d(inputs, outputs, 1, stride=stride, bias=False)


def conv_branch(inputs: int, outputs: int, *, stride: int = 1, order: str = "preact") -> nn.Sequential:
    """F of a convolutional block: two 3x3 convolutions, the first with the stride.

    `preact` is BN-ReLU-conv-BN-ReLU-conv. `literal` is conv-BN-ReLU-conv-BN-ReLU, as 002 prints it.

    Differs from the paper: it prints the one and cites the other; `preact`, the cited one, is the default.

    >>> import torch
    >>> conv_branch(4, 8, stride=2)(torch.randn(2, 4, 6, 6)).shape
    torch.Size([2, 8, 3, 3])
    """
    expect_one_of("order", order, ORDERS)
    first = nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False)
    second = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
    if order == "literal":
        return nn.Sequential(first, *_norm_relu(outputs), second, *_norm_relu(outputs))
    return nn.Sequential(*_norm_relu(inputs), first, *_norm_relu(outputs), second)


def _norm_relu(channels: int) -> tuple[nn.Module, nn.Module]:
    return nn.BatchNorm2d(channels), nn.ReLU()
