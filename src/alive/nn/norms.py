"""Two cures a finished model can be given: inputs of one scale, and batch norm behind every hidden layer."""

from __future__ import annotations

from copy import deepcopy

import torch
from torch import Tensor, nn

from ..errors import AliveError
from ..torch_private import BatchNorm
from .init import hidden_and_output

NORMS = (BatchNorm, nn.LayerNorm, nn.GroupNorm, nn.RMSNorm, nn.LocalResponseNorm)


class FeatureNorm(nn.BatchNorm1d):
    """Batch norm of the last axis, whatever lies before it: [N, C], and tokens [N, T, C] too."""

    def forward(self, x: Tensor) -> Tensor:
        """Every leading axis counts as points."""
        return super().forward(x.reshape(-1, x.shape[-1])).view_as(x)


NORM_OF: dict[type[nn.Module], type[nn.Module]] = {
    nn.Linear: FeatureNorm,
    nn.Conv1d: nn.BatchNorm1d,
    nn.Conv2d: nn.BatchNorm2d,
    nn.Conv3d: nn.BatchNorm3d,
}


class Standardise(nn.Module):
    """A first layer that gives every feature mean 0 and spread 1, as measured on training points x [N, ...].

    A feature that never varies is only centred.

    >>> x = torch.tensor([[0.0, 1000.0], [2.0, 3000.0]])
    >>> Standardise(x)(x).tolist()
    [[-1.0, -1.0], [1.0, 1.0]]
    """

    mean: Tensor
    spread: Tensor

    def __init__(self, x: Tensor) -> None:
        super().__init__()
        if not isinstance(x, Tensor) or not x.is_floating_point() or x.dim() < 2 or not len(x):
            kind = f"{x.dtype} {list(x.shape)}" if isinstance(x, Tensor) else type(x).__name__
            raise AliveError(
                f"Standardise measures real points [N, ...], at least one, got {kind}",
                "Give it the training inputs; token ids and classes have no scale",
            )
        exact = x.detach().double()
        spread = exact.std(0, correction=0)
        resolved = exact.abs().amax(0) * torch.finfo(x.dtype).eps  # less than this is rounding, not spread
        self.register_buffer("mean", exact.mean(0).to(x.dtype))
        self.register_buffer("spread", torch.where(spread > resolved, spread, 1.0).to(x.dtype))

    def forward(self, x: Tensor) -> Tensor:
        """The points on the common scale."""
        return (x - self.mean) / self.spread


def with_batch_norm(model: nn.Module, *, output: str | None = None) -> nn.Module:
    """A copy of a model with batch norm behind every dense and convolutional layer but the output.

    `output` is the path of the output layer, by default the last nn.Linear. Layers keep their weights; each becomes
    a Sequential of itself and its norm.

    >>> twin = with_batch_norm(nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 1)))
    >>> [type(part).__name__ for part in twin[0]], type(twin[2]).__name__
    (['Linear', 'FeatureNorm'], 'Linear')
    """
    held = [name for name, module in model.named_modules() if isinstance(module, NORMS)]
    if held:
        raise AliveError(f"the model has norms already, such as {held[0]}", "Leave them as they are")
    twin = deepcopy(model)
    hidden, _ = hidden_and_output(twin, output)
    if twin in hidden or not hidden:
        raise AliveError(f"{type(model).__name__} has no hidden layer", "Batch norm stands behind hidden layers")
    for parent in list(twin.modules()):
        for name, layer in parent.named_children():
            if any(layer is each for each in hidden):
                weight: Tensor = layer.weight  # type: ignore[assignment]
                norm = NORM_OF[next(kind for kind in NORM_OF if isinstance(layer, kind))]
                setattr(parent, name, nn.Sequential(layer, norm(len(weight), device=weight.device, dtype=weight.dtype)))
    return twin
