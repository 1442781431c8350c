"""Add skip connections to a finished plain model: each layer that keeps its shape passes its input on at the start."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ..errors import AliveError
from ..nn.init import Layer, hidden_and_output
from .models import copied


class Skip(nn.Module):
    """x + γ layer(x), with one number γ that starts at 0.

    Before a ReLU, and behind one, the layer then starts as the identity: relu(x) = x where x ≥ 0.

    >>> Skip(nn.Linear(2, 2))(torch.tensor([[1.0, 2.0]])).tolist()
    [[1.0, 2.0]]
    """

    def __init__(self, layer: Layer) -> None:
        super().__init__()
        self.layer = layer
        self.share = nn.Parameter(torch.zeros((), device=layer.weight.device, dtype=layer.weight.dtype))

    def forward(self, x: Tensor) -> Tensor:
        """The input, and as much of the layer as γ has grown to."""
        return x + self.share * self.layer(x)  # type: ignore[no-any-return]


def with_skips(model: nn.Module, *, output: str | None = None) -> nn.Module:
    """A copy of a model with a skip around every dense and convolutional layer that gives what it reads its own shape.

    The first layer and the output (its path is `output`, by default the last nn.Linear) stay as they are. Layers keep
    their weights; what the network computes at the start is another function, that of the layers that stay.

    >>> with_skips(nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1)))[2]
    Skip(
      (layer): Linear(in_features=4, out_features=4, bias=True)
    )
    """
    twin = copied(model)
    hidden, _ = hidden_and_output(twin, output)
    square = [layer for layer in hidden[1:] if _keeps_shape(layer)]
    if not square:
        raise AliveError(
            f"{type(model).__name__} has no hidden layer but the first that keeps the shape of what it reads",
            "A skip needs one: as many units as inputs, and for kernels a stride of 1 and padding to the same size",
        )
    for parent in list(twin.modules()):
        for name, layer in list(parent.named_children()):
            if any(layer is each for each in square):
                setattr(parent, name, Skip(layer))  # type: ignore[arg-type]
    return twin


def _keeps_shape(layer: Layer) -> bool:
    if isinstance(layer, nn.Linear):
        return layer.in_features == layer.out_features
    if layer.in_channels != layer.out_channels or any(step != 1 for step in layer.stride):
        return False
    if isinstance(layer.padding, str):
        return layer.padding == "same"
    sizes = zip(layer.padding, layer.dilation, layer.kernel_size, strict=True)
    return all(2 * padding == dilation * (kernel - 1) for padding, dilation, kernel in sizes)
