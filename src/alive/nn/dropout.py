"""Dropout that begins strong and fades to nothing: it breaks the ties of a network that starts at zero (001, 4.2)."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..errors import expect


class AnnealedDropout(nn.Module):
    """Inverted dropout with rate max(0, p0 (1 - e/epochs)) in epoch e; `first_epoch_p` replaces it in epoch 0.

    The epoch is part of the state dict, the rate follows from it.

    >>> drop = AnnealedDropout(0.9, 1000)
    >>> drop.set_epoch(500)
    >>> drop.p
    0.45
    """

    def __init__(self, p0: float = 0.9, epochs: int = 1000, *, first_epoch_p: float | None = None) -> None:
        super().__init__()
        expect(
            [
                (0 <= p0 < 1, f"p0 must be at least 0 and below 1, got {p0}"),
                (epochs >= 1, f"epochs must be at least 1, got {epochs}"),
                (
                    first_epoch_p is None or 0 <= first_epoch_p < 1,
                    f"first_epoch_p must be at least 0 and below 1, got {first_epoch_p}",
                ),
            ]
        )
        self.p0, self.epochs, self.first_epoch_p = p0, epochs, first_epoch_p
        self.epoch = 0

    @property
    def p(self) -> float:
        """The rate of the present epoch."""
        if self.epoch == 0 and self.first_epoch_p is not None:
            return self.first_epoch_p
        return max(0.0, self.p0 * (1 - self.epoch / self.epochs))

    def set_epoch(self, epoch: int) -> None:
        """Move to an epoch, counted from 0."""
        expect([(epoch >= 0, f"epochs are counted from 0, got {epoch}")])
        self.epoch = epoch

    def forward(self, x: Tensor) -> Tensor:
        """Zero each entry with probability p and scale the rest by 1/(1-p); in eval mode, x itself."""
        return F.dropout(x, self.p, self.training)

    # A plain int in use, a tensor in the state dict: a buffer would cost a device read in every forward pass.
    def get_extra_state(self) -> Tensor:
        """Give the epoch, as a tensor that every checkpoint format can hold."""
        return torch.tensor(self.epoch)

    def set_extra_state(self, state: Tensor) -> None:
        """Take the epoch back."""
        self.epoch = int(state)

    def extra_repr(self) -> str:
        """Show the rule and where it stands."""
        return f"p0={self.p0}, epochs={self.epochs}, first_epoch_p={self.first_epoch_p}, epoch={self.epoch}"


def set_epoch(model: nn.Module, epoch: int) -> None:
    """Move every AnnealedDropout of a model to an epoch.

    >>> model = nn.Sequential(AnnealedDropout(0.8, 4), nn.Sequential(AnnealedDropout(0.4, 4)))
    >>> set_epoch(model, 2)
    >>> [m.p for m in model.modules() if isinstance(m, AnnealedDropout)]
    [0.4, 0.2]
    """
    for module in model.modules():
        if isinstance(module, AnnealedDropout):
            module.set_epoch(epoch)
