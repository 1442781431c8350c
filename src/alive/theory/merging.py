"""How far apart points stay, and how much gradient comes back, in closed form: fresh dense ReLU networks.

Of one layer to the next, wide networks map the products of points by a function of two variances and an angle (the
arc-cosine kernel of Cho and Saul); the gradient's mean square needs no width at all, since weights are even about zero.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from ..errors import expect


class Draw(NamedTuple):
    """Variances of a weight and of a bias."""

    weight: float
    bias: float


def variances(init: str, out: int, into: int) -> Draw | None:
    """Of one layer under an initialiser that draws every weight alike; None for others.

    >>> variances("kaiming", 4, 8)
    Draw(weight=0.25, bias=0.0)
    """
    known = {
        "glorot": Draw(2 / (out + into), 0.0),
        "kaiming": Draw(2 / into, 0.0),
        "torch": Draw(1 / (3 * into), 1 / (3 * into)),
    }
    return known.get(init)


def spreads(x: Tensor, *, depth: int, width: int, init: str) -> list[float] | None:
    """The spread of points [N, d] in each layer of a wide network, relative to their size; None if no form is known.

    Exact as the width grows without bound; a thin network scatters about it. Below some 1e-7 it is rounding.

    >>> x = torch.randn(20, 8, generator=torch.Generator().manual_seed(0))
    >>> [f"{spread:.0e}" for spread in spreads(x, depth=30, width=16, init="torch")[::10]]
    ['9e-01', '3e-04', '4e-08']
    """
    _expect(x, depth, width)
    if variances(init, width, width) is None:
        return None
    products, found, scale = x.double() @ x.double().mT, [], x.shape[1]
    for _ in range(depth):
        drawn = variances(init, width, scale)
        assert drawn is not None
        products = drawn.bias + drawn.weight * products
        found.append(_relative_spread(products))
        products, scale = width * _behind_relu(products), width
    return found


def arriving(init: str, *, depth: int, width: int, outputs: int = 1) -> float | None:
    """The root mean square, over starts, of the gradient at the first layer's pre-activations, of 1 at the output.

    Each layer halves the mean square, for half of the units are off, and multiplies it by width times the variance of
    a weight. Dead points are among those that the mean is over. None where no form is known.

    >>> f"{arriving('torch', depth=30, width=16):.1e}", arriving("kaiming", depth=30, width=16, outputs=16)
    ('2.1e-12', 1.0)
    """
    last, hidden = variances(init, outputs, width), variances(init, width, width)
    if last is None or hidden is None:
        return None
    return math.sqrt(width * last.weight / 2 * (width * hidden.weight / 2) ** (depth - 1))


def _behind_relu(products: Tensor) -> Tensor:
    """E[relu(u) relu(v)] of Gaussians with these covariances [N, N]."""
    size = products.diagonal().clamp(min=0).sqrt()
    both = size[:, None] * size
    cosine = torch.where(both > 0, products / both.clamp(min=torch.finfo(both.dtype).tiny), 1.0).clamp(-1, 1)
    angle = cosine.arccos()
    angle.fill_diagonal_(0.0)
    return both * (angle.sin() + (math.pi - angle) * angle.cos()) / (2 * math.pi)


def _relative_spread(products: Tensor) -> float:
    """From all products of points: the mean distance from their mean, relative to size."""
    size, common = float(products.diagonal().mean()), float(products.mean())
    return math.sqrt(max(size - common, 0.0) / size) if size > 0 else 0.0


def _expect(x: Tensor, depth: int, width: int) -> None:
    expect(
        [
            (x.ndim == 2 and len(x) > 0, f"expected points [N, d], got {list(x.shape)}"),
            (depth >= 1 and width >= 1, f"depth and width must be at least 1, got {depth} and {width}"),
        ]
    )
