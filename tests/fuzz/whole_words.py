"""What the source of a whole program may use beside torch: weights with something to find, data, notes of the truth."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from case import along
from notebook import note
from torch import Tensor, nn

MOST_POINTS = 8


def weight(*shape: int) -> nn.Parameter:
    """Weights [..., inputs, outputs] whose products are of ordinary size."""
    return nn.Parameter(1.5 * torch.randn(shape) / max(1.0, shape[-2] ** 0.5))


def bias(*shape: int) -> nn.Parameter:
    """Biases of which some are far below zero, some far above."""
    offsets = torch.tensor([-3.0, 0.0, 0.0, -0.5, 3.0])[torch.randint(5, shape)]
    return nn.Parameter(offsets + 0.3 * torch.randn(shape))


def dense(inputs: int, outputs: int, **more: Any) -> nn.Linear:
    """A dense layer with such weights and biases."""
    layer = nn.Linear(inputs, outputs, **more)
    layer.weight = nn.Parameter(weight(inputs, outputs).detach().t().contiguous())
    if layer.bias is not None:
        layer.bias = bias(outputs)
    return layer


def conv(inputs: int, outputs: int, kind: Any = nn.Conv1d, **more: Any) -> nn.Module:
    """A convolution with such biases."""
    layer = kind(inputs, outputs, **more)
    layer.bias = bias(outputs)
    return layer


def old_weight_norm(layer: nn.Module) -> nn.Module:
    """By hooks, which torch would rather not do any more."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return nn.utils.weight_norm(layer)


def several(make: Any, count: int, *sizes: Any) -> nn.ModuleList:
    """A list of modules."""
    return nn.ModuleList(make(*sizes) for _ in range(count))


def leaning(n: int, *shape: int) -> Tensor:
    """Inputs whose first points are negative and whose last are positive, in the mean."""
    return torch.linspace(-2, 2, n).view(-1, *[1] * len(shape)) + 0.7 * torch.randn(n, *shape)


def lengths_of(n: int, longest: int, number: int) -> list[int]:
    """Lengths from 1 to the longest whose sum is the same in every batch of n, and whose order is not."""
    up = [1 + k % longest for k in range(n)]
    cut = (3 * number) % n
    return up[cut:] + up[:cut]


def edges_of(n: int, count: int) -> Tensor:
    """So many edges [2, count] of a graph in which every node has one."""
    source = torch.arange(count) % n
    return torch.stack([source, (source + 1 + torch.randint(max(1, n - 1), (count,))) % n])


def met(p: Tensor, src: Tensor, dst: Tensor) -> Tensor:
    """The point of what is added up at every node: the only one whose messages meet there, or nobody."""
    there = [set(p[src[dst == node]].tolist()) for node in range(len(p))]
    return torch.tensor([one.pop() if len(one) == 1 else -1 for one in there])


def seen(z: Tensor, p: Tensor, name: str, points: int = 0, units: int = -1, **more: Any) -> None:
    """Write down what the next activation sees: the point of every row along an axis, the units along another."""
    if p.ndim == 1:
        shape = [1] * z.ndim
        shape[points] = len(p)
        p = p.view(shape)
    note(z.clone(), point=p, unit=more.pop("unit", along(z, units)), name=name, **more)
