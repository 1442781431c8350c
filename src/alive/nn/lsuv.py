"""LSUV (Mishkin and Matas 2016): orthonormal weights, then each layer scaled until its outputs have unit variance."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import torch
from torch import Generator, Tensor, nn

from ..errors import expect
from .init import Layer, hidden_and_output, initialise_

TOLERANCE, ROUNDS = 0.1, 10  # of the variance; of the paper


@torch.no_grad()
def lsuv_(
    model: nn.Module, points: Tensor, *, generator: Generator | None = None, output: str | None = None
) -> tuple[str, ...]:
    """Start a model for these points: the paths of layers that could not be scaled, for no signal reaches them.

    Layers are taken in the order of a pass, each after those before it have been scaled. Variance is over all
    points and units; at least two points are needed. The rest of the random state and the mode of the model stay.

    >>> model = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 1))
    >>> points = torch.randn(50, 2, generator=torch.Generator().manual_seed(0))
    >>> lsuv_(model, points)
    ()
    >>> abs(float(model(points).detach().var()) - 1) < 0.1
    True
    """
    expect([(len(points) >= 2, f"a variance needs at least two points, got {len(points)}")])
    initialise_(model, "orthogonal", generator=generator, output=output)
    hidden, last = hidden_and_output(model, output)
    paths = {module: path for path, module in model.named_modules()}
    silent: list[str] = []

    def scale(layer: nn.Module, args: tuple[Tensor, ...], out: Tensor) -> Tensor:
        assert isinstance(layer, Layer)
        for _ in range(ROUNDS):
            spread = out.var()
            if not (torch.isfinite(spread) and spread > 0):
                silent.append(paths[layer])
                break
            if abs(spread - 1) < TOLERANCE:
                break
            layer.weight.div_(spread.sqrt())
            out = layer.forward(args[0])
        return out

    hooks = [layer.register_forward_hook(scale) for layer in (*hidden, last)]
    try:
        model(points)
    finally:
        for hook in hooks:
            hook.remove()
    return tuple(silent)


# Starts that look at the data; they cannot be had without, and so are no INITIALISERS.
FITTED: Mapping[str, Callable[..., tuple[str, ...]]] = MappingProxyType({"lsuv": lsuv_})
