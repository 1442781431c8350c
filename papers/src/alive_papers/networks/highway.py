"""Highway blocks: a learned gate, read from the input, chooses between branch and skip."""

from __future__ import annotations

import torch
from torch import Tensor, nn

CARRY = -1.0  # the bias that makes a new block carry its input rather than transform it


class Highway(nn.Module):
    """A highway block (002, eq 2): F(x) T(x) + S(x) (1-T(x)), T = sigmoid(H x + b), b = -1 at the start.

    `transform` is H, a dense or convolutional layer with a bias, as wide as the branch; skip None is the identity.

    Differs from the paper: 002 writes T without a bias; the released highway networks start it at -1.

    >>> block = Highway(nn.Linear(4, 4), nn.Linear(4, 4))
    >>> block(torch.randn(2, 4)).shape, block.transform.bias.tolist()
    (torch.Size([2, 4]), [-1.0, -1.0, -1.0, -1.0])
    """

    def __init__(self, branch: nn.Module, transform: nn.Linear | nn.Conv2d, skip: nn.Module | None = None) -> None:
        super().__init__()
        self.branch, self.transform = branch, transform
        self.skip = nn.Identity() if skip is None else skip
        self.carry_()

    def carry_(self) -> None:
        """Set the bias of the gate to its start."""
        nn.init.constant_(self.transform.bias, CARRY)  # type: ignore[arg-type]

    def forward(self, x: Tensor) -> Tensor:
        """Map [N, C, ...] to [N, C', ...]."""
        t = torch.sigmoid(self.transform(x))
        return self.branch(x) * t + self.skip(x) * (1 - t)  # type: ignore[no-any-return]
