"""How likely death at birth is, by trial: many freshly initialised rectangles run over the points at once."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Generator, Tensor, nn

from ..errors import expect, near
from ..functional.signals import has_merged
from ..nn import RectangularConv, initialise_
from ..nn.rectangular import NORM_EPS
from .drawn import DRAWERS, Drawn

NUMBERS = 4_000_000  # pre-activations held at once


class Estimate(NamedTuple):
    """A mean over draws, and its standard error."""

    value: float
    error: float

    @classmethod
    def of(cls, values: Tensor) -> Estimate:
        """From shares [draws] in 0..1; the error allows for what few draws cannot have shown.

        >>> value, error = Estimate.of(torch.zeros(98))
        >>> value, round(error, 4)
        (0.0, 0.0099)
        """
        draws, mean = len(values), float(values.double().mean())
        spread = float(values.double().var()) if draws > 1 else 0.25
        unseen = (draws * mean + 1) / (draws + 2)  # one more dead and one more alive
        least = unseen * (1 - unseen) / (draws + 2) if mean in (0, 1) else 0.0
        return cls(mean, math.sqrt(max(spread / draws, least)))

    def __str__(self) -> str:
        return f"{100 * self.value:.1f} ± {100 * self.error:.1f} %"


@dataclass(frozen=True, slots=True)
class Birth:
    """Fresh networks of one kind over one set of points.

    born_dead   share of networks in which every point is dead in some layer: no gradient passes
    dead_layer  share of networks with a layer that is off for all points
    dead_points, dead_units  expected shares of the points and units of a network
    by_depth    share of networks in which every point is dead within the first l layers, for each l
    born_merged  share of networks, not born dead, whose points have become one in the last layer
    merged_by_depth  share of networks that are born dead or have merged in layer l, for each l
    """

    draws: int
    points: int
    born_dead: Estimate
    dead_layer: Estimate
    dead_points: Estimate
    dead_units: Estimate
    by_depth: tuple[float, ...]
    dead_units_by_layer: tuple[float, ...]
    born_merged: Estimate
    merged_by_depth: tuple[float, ...]


def birth(
    x: Tensor,
    *,
    depth: int,
    width: int,
    init: str = "glorot",
    batch_norm: bool = False,
    draws: int = 1000,
    generator: Generator | None = None,
) -> Birth:
    """Initialise a rectangle `draws` times and count who is dead over the points x: [N, d] dense, [N, C, H, W] conv.

    Every draw is distributed as alive.nn.initialise_ has it, in the arithmetic of x: some 250 Glorot layers deep,
    single precision underflows, and points die of that too, which no closed form counts. Batch norm normalises over all
    points, as in the first step of training, where gradients also pass from point to point through the statistics; a
    census, in eval mode, sees fresh batch norms as the identity.

    >>> found = birth(torch.eye(2), depth=10, width=4, draws=400, generator=torch.Generator().manual_seed(0))
    >>> abs(found.dead_points.value - 0.4755) < 3 * found.dead_points.error
    True
    """
    expect(
        [
            (x.ndim in (2, 4) and x.numel() > 0, f"expected points [N, d] or [N, C, H, W], got {list(x.shape)}"),
            (x.is_floating_point(), f"points must be floats, got {x.dtype}"),
            (draws >= 1, f"draws must be at least 1, got {draws}"),
            (depth >= 1 and width >= 1, f"depth and width must be at least 1, got {depth} and {width}"),
            (init in DRAWERS, f"unknown initialiser {init!r}: {near(init, DRAWERS)}"),
        ]
    )
    kind = _Kind(depth, width, init, batch_norm)
    run = _dense_runs if x.ndim == 2 else _convolutional_runs
    start = float(_relative_spread(x.unsqueeze(0)))
    counted = [_count(levels, networks, len(x)) for networks, levels in run(x, kind, draws, generator)]
    dead_units, layers_off, dead_share, spread = (
        torch.cat(parts) for parts in zip(*counted, strict=True)
    )  # [draws, L]
    merged = has_merged(spread, spread[:, :1].clamp(min=start), torch.finfo(x.dtype).eps) & (len(x) > 1)
    dead = dead_share == 1
    return Birth(
        draws=draws,
        points=len(x),
        born_dead=Estimate.of(dead[:, -1]),
        dead_layer=Estimate.of(layers_off.any(1)),
        dead_points=Estimate.of(dead_share[:, -1]),
        dead_units=Estimate.of(dead_units.mean(1)),
        by_depth=tuple(dead.double().mean(0).tolist()),
        dead_units_by_layer=tuple(dead_units.mean(0).tolist()),
        born_merged=Estimate.of(merged[:, -1] & ~dead[:, -1]),
        merged_by_depth=tuple((merged | dead).double().mean(0).tolist()),
    )


class _Kind(NamedTuple):
    depth: int
    width: int
    init: str
    batch_norm: bool


def _dense_runs(
    x: Tensor, kind: _Kind, draws: int, generator: Generator | None
) -> Iterator[tuple[int, Iterator[Tensor]]]:
    """As many networks at once as memory allows."""
    fans = [(kind.width, kind.width if level else x.shape[1]) for level in range(kind.depth)]
    at_once = max(1, NUMBERS // (len(x) * max(fans[0])))
    for start in range(0, draws, at_once):
        networks = min(at_once, draws - start)
        drawn = DRAWERS[kind.init](fans, networks, x.dtype, generator)
        yield networks, _dense(x, drawn, batch_norm=kind.batch_norm)


def _convolutional_runs(
    x: Tensor, kind: _Kind, draws: int, generator: Generator | None
) -> Iterator[tuple[int, Iterator[Tensor]]]:
    """One network after the other."""
    spare = torch.Generator().manual_seed(0)  # this first start is drawn over
    network = RectangularConv(
        x.shape[1], 1, depth=kind.depth, width=kind.width, batch_norm=kind.batch_norm, init=kind.init, generator=spare
    ).to(x.dtype)
    for _ in range(draws):
        initialise_(network, kind.init, generator=generator, output="output")
        yield 1, _convolutional(network, x)


def _count(levels: Iterator[Tensor], networks: int, points: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """By draw and layer: the share of dead units, whether all are, the share of points dead so far, and the spread."""
    gone = torch.zeros(networks, points, dtype=torch.bool)
    units, shares, spreads = [], [], []
    for z in levels:  # [F, N, C, positions]
        top = z.amax(3)
        units.append((top.amax(1) <= 0).double().mean(1))
        gone |= top.amax(2) <= 0
        shares.append(gone.double().mean(1))
        spreads.append(_relative_spread(z))
    dead_units = torch.stack(units, 1)
    return dead_units, dead_units == 1, torch.stack(shares, 1), torch.stack(spreads, 1)


def _relative_spread(z: Tensor) -> Tensor:
    """The mean distance of the points [F, N, ...] from their mean, relative to size [F]; as in a census."""
    z = z.flatten(2)
    away = z - z[:, :1]
    away -= away.mean(1, keepdim=True)
    size = z.double().square().mean((1, 2))
    return torch.where(size > 0, away.double().square().mean((1, 2)) / size.clamp(min=1e-300), 0.0).sqrt()


@torch.no_grad()
def _dense(x: Tensor, drawn: Drawn, *, batch_norm: bool) -> Iterator[Tensor]:
    """Layer after layer, the pre-activations [F, N, C, 1] of all points in all networks."""
    h = x.expand(len(drawn.biases[0]), *x.shape)
    for weight, bias in zip(drawn.weights, drawn.biases, strict=True):
        z = torch.baddbmm(bias.unsqueeze(1), h, weight.mT)
        if batch_norm:
            z = (z - z.mean(1, keepdim=True)) / (z.var(1, keepdim=True, correction=0) + NORM_EPS).sqrt()
        yield z.unsqueeze(3)
        h = z.relu()


@torch.no_grad()
def _convolutional(network: RectangularConv, x: Tensor) -> Iterator[Tensor]:
    """Layer after layer, the pre-activations [1, N, C, positions] of one network."""
    h = x
    for layer in network.hidden.children():
        z: Tensor = layer.get_submodule("linear")(h)
        if hasattr(layer, "norm"):
            z = nn.functional.batch_norm(z, None, None, training=True, eps=NORM_EPS)
        yield z.flatten(2).unsqueeze(0)
        h = z.relu_()
