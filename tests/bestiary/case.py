"""One beast: a model or idiom, and the layout of its pre-activations written down by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf
from typing import Any

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Layer:
    """What one activation saw: z in its natural shape; the point and the unit of every entry, broadcastable to it.

    An entry whose point is −1 belongs to no point. Layers of one name are one layer, in several calls; to a census
    also in several batches.

    Of a selection, z are the margins to being chosen, `on` says who passes, and `noun` what the units are called.
    """

    z: Tensor
    point: Tensor
    unit: Tensor
    cutoff: float = 0.0
    ceiling: float = inf
    name: str = ""
    noun: str = "unit"
    on: Tensor | None = None

    @property
    def signed(self) -> Tensor:
        """z, of a selection positive where it is on and nowhere else."""
        if self.on is None:
            return self.z
        return torch.where(self.on, self.z.clamp(min=1e-30), self.z.clamp(max=0.0))


def along(z: Tensor, axis: int) -> Tensor:
    """The index along one axis of z, broadcastable to z: arange for an axis of points or units."""
    shape = [1] * z.ndim
    shape[axis] = z.shape[axis]
    return torch.arange(z.shape[axis]).view(shape)


def laid_out(z: Tensor, *, points: int, units: int, **more: Any) -> Layer:
    """The usual layout: one axis holds the points, another the units; the others are positions."""
    return Layer(z, along(z, points), along(z, units), **more)


@dataclass(frozen=True)
class Case:
    """A beast.

    make     builds model and data, seeded by the harness; the model is in training mode and holds no chance. Data is
             what a census takes: a tensor is one batch, a list holds batches
    truth    runs the model on the batch, with gradients, in the mode it is in, and lays out what every activation saw
    forward  how the batch is run, where model(batch) does not do it
    options  keywords of both census and Jumpstart, such as point_axis
    needs    a package without which the case cannot run
    others   other layouts that are as right, where units or points can be read in more than one way
    stepwise every batch is a step of training of its own; else the penalty is taken once, over all
    """

    name: str
    kind: str
    make: Callable[[], tuple[nn.Module, Any]]
    truth: Callable[[nn.Module, Any], list[Layer]]
    forward: Callable[[nn.Module, Any], Any] | None = None
    options: dict[str, Any] = field(default_factory=dict)
    needs: str = ""
    others: tuple[Callable[[nn.Module, Any], list[Layer]], ...] = ()
    stepwise: bool = False


CASES: list[Case] = []


def case(name: str, kind: str, **more: Any) -> Callable[[Callable[[], tuple[nn.Module, Any]]], Callable[..., Any]]:
    """Enter a beast: decorates `make`; the rest are fields of Case."""

    def enter(make: Callable[[], tuple[nn.Module, Any]]) -> Callable[..., Any]:
        CASES.append(Case(name, kind, make, **more))
        return make

    return enter


def leaning(points: int, *shape: int, low: float = -2.0, high: float = 2.0) -> Tensor:
    """Inputs whose first points are negative and whose last are positive, in the mean."""
    return torch.linspace(low, high, points).view(-1, *[1] * len(shape)) + 0.5 * torch.randn(points, *shape)


def lean(*layers: nn.Module, bias: float = -0.1) -> None:
    """Weights that are positive: a negative point switches all units off, a positive one all on."""
    for layer in layers:
        layer.weight.data.abs_()
        if layer.bias is not None:
            layer.bias.data.fill_(bias)
