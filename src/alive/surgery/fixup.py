"""The start of Fixup (Zhang, Dauphin and Ma 2019) on a residual model of one's own."""

from __future__ import annotations

from typing import Any

import torch
from torch import Generator, nn

from ..errors import AliveError
from ..nn.init import hidden_and_output
from ..nn.norms import NORMS
from ..torch_private import BatchNorm
from .graph.forward import Addition, between
from .models import LAYERS
from .phase_out import sums_of


@torch.no_grad()
def fixup_(model: nn.Module, *, output: str | None = None, generator: Generator | None = None) -> tuple[str, ...]:
    """Start a residual model without norms in place; gives the paths of the last layers of its branches, now zero.

    With L branches of m layers each, the weights of a branch are He's by fan-out times L^(-1/(2m-2)), the last layer of
    each branch and the output are zero, all others He's; biases are zero. The single numbers that Fixup also adds
    between layers are modules, which a start cannot put in.

    >>> class Block(nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.branch = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))
    ...     def forward(self, x):
    ...         return x + self.branch(x)
    >>> fixup_(nn.Sequential(nn.Linear(2, 4), Block(), Block(), nn.Linear(4, 1)))
    ('1.branch.2', '2.branch.2')
    """
    held = [path for path, module in model.named_modules() if isinstance(module, (*NORMS, BatchNorm))]
    if held:
        raise AliveError(
            f"the model has norms, such as {held[0]}", "Fixup starts networks that have none: take them out"
        )
    hidden, last = hidden_and_output(model, output)
    branches = [own for module, sums in sums_of(model) for found in sums if (own := _layers(module, found))]
    if not branches:
        raise AliveError(f"{type(model).__name__} has no residual sum", 'Fixup is for residual models; take "kaiming"')
    for layer in (*hidden, last):
        nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu", generator=generator)
        if layer.bias is not None:
            nn.init.zeros_(layer.bias)
    for layers in branches:
        for layer in layers[:-1]:
            layer.weight.mul_(len(branches) ** (-1 / (2 * len(layers) - 2)))
        nn.init.zeros_(layers[-1].weight)
    nn.init.zeros_(last.weight)
    paths = {module: path for path, module in model.named_modules()}
    return tuple(paths[layers[-1]] for layers in branches)


def _layers(module: nn.Module, found: Addition) -> list[Any]:
    """The dense and convolutional layers of a branch, in order."""
    steps = [node for node in between(found.branch, found.skip) if node.op == "call_module"]
    parts = [part for node in steps for part in module.get_submodule(str(node.target)).modules()]
    return [part for part in parts if isinstance(part, LAYERS)]
