"""Signal: how far apart the points still are in a layer, and how much of the gradient arrives there.

A layer can have no dead unit although all points have become the same in it. Records of parts of the data
add up to the record of the whole, as a census does, so nothing is kept that grows with the number of points.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import exp, inf, isfinite, prod, sqrt
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..functional.signals import RESOLVED
from ..provenance import Grid, Layout, Scattered, tensors
from ..torch_private import is_functorch_wrapped_tensor

MOST_FEATURES = 2**22  # of a layer, beyond which its maps are compared by their means
MOST_UNITS = 512  # of which a covariance is kept


class Moments(NamedTuple):
    """Of features [F] over points: how many, their mean, and the sum of squared distances from it."""

    points: int
    mean: Tensor
    apart: float

    @classmethod
    def of(cls, rows: Tensor) -> tuple[Moments, Tensor]:
        """From rows [N, ...], and the rows less the first: points that are the same differ by nothing at all."""
        away = rows - rows[:1]
        mean = _mean(away)
        n, middle = len(rows), _square(mean)
        apart = (whole := _square(away)) - n * middle
        if not apart > 1e-3 * whole:  # the first lies far from all others: too much cancels
            apart = _square(away - mean)
        return cls(n, (rows[0] + mean).flatten(), apart), away

    def plus(self, other: Moments) -> Moments:
        """Both parts together (Chan, Golub and LeVeque)."""
        n = self.points + other.points
        step = other.mean - self.mean
        apart = self.apart + other.apart + _square(step) * (self.points * other.points / n)
        return Moments(n, self.mean + step * (other.points / n), apart)


@dataclass(frozen=True, eq=False)
class Signal:
    """What a layer still tells of its points. Parts of the data add up: `a.plus(b)`.

    features  each unit at each position; None where positions differ from batch to batch
    units     each unit by its mean over positions
    together  of the units: the sum over points of products of their distances from the mean [C, C], up to 512 of them
    square    the sum of all squares, of so many numbers
    arrived   the sum over points of the norms of the gradient, where it was asked for; `silent_points` have none at all
    cut       whether nothing leads back here from the output: behind detach(), no_grad(), numpy or an argmax
    """

    points: int
    square: float
    numbers: int
    resolution: float
    features: Moments | None = None
    units: Moments | None = None
    together: Tensor | None = None
    arrived: float | None = None
    silent_points: int = 0
    judged: int = 0
    cut: bool = False

    @property
    def size(self) -> float:
        """The root of the mean square."""
        return sqrt(self.square / self.numbers) if self.numbers else 0.0

    @cached_property
    def spread(self) -> float | None:
        """How far apart the points are, relative to size: 0 if all are one, at most 1; None where that is unknown."""
        moments = self.features or self.units
        if moments is None or moments.points < 2 or not isfinite(self.square) or not isfinite(moments.apart):
            return None
        if not self.square:
            return 0.0
        # Of maps compared by their means, the distance is that of the means.
        deviation = sqrt(max(moments.apart, 0.0) / (moments.points * len(moments.mean)))
        return min(deviation / self.size, 1.0)

    @cached_property
    def rank(self) -> float | None:
        """In how many directions the points differ: the exponential of the entropy of their singular values."""
        if self.together is None or self.points < 2 or not bool(self.together.isfinite().all()):
            return None
        squares = torch.linalg.eigvalsh(self.together.double())
        if not float(squares[-1]) > 0 or (self.spread or 0.0) <= 8 * self.resolution:  # noise has every direction
            return 0.0
        values = squares[squares > len(squares) * RESOLVED * squares[-1]].sqrt()  # the rest is rounding
        share = values / values.sum()
        return exp(-float((share * share.log()).sum()))

    @property
    def gradient(self) -> float | None:
        """The norm of the gradient that arrives, averaged over points; None where it was not asked for."""
        return None if self.arrived is None or not self.judged else self.arrived / self.judged

    @property
    def silent(self) -> float | None:
        """The share of points at which no gradient arrives."""
        return None if self.arrived is None or not self.judged else self.silent_points / self.judged

    @property
    def deviations(self) -> Tensor | None:
        """The standard deviation of each unit over the points [C], where their covariance is kept."""
        return None if self.together is None else (self.together.diagonal() / self.points).clamp(min=0).sqrt()

    def plus(self, other: Signal) -> Signal:
        """Both parts of the data together."""
        together = None
        if self.together is not None and other.together is not None and self._alike(other):
            assert self.units is not None
            assert other.units is not None
            step = other.units.mean - self.units.mean
            share = self.points * other.points / (self.points + other.points)
            together = self.together + other.together + step.outer(step) * share
        return Signal(
            self.points + other.points,
            self.square + other.square,
            self.numbers + other.numbers,
            max(self.resolution, other.resolution),
            _join(self.features, other.features),
            _join(self.units, other.units),
            together,
            None if self.arrived is None or other.arrived is None else self.arrived + other.arrived,
            self.silent_points + other.silent_points,
            self.judged + other.judged,
            self.cut and other.cut,
        )

    def _alike(self, other: Signal) -> bool:
        """Whether both are of the same units."""
        return self.units is not None and other.units is not None and self.units.mean.shape == other.units.mean.shape

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers; what is unknown or infinite is None."""
        numbers = {name: getattr(self, name) for name in ("size", "spread", "rank", "gradient", "silent")}
        return {name: None if value is None or not isfinite(value) else value for name, value in numbers.items()}


UNMEASURED = Signal(0, 0.0, 0, 0.0)


def _join(a: Moments | None, b: Moments | None) -> Moments | None:
    return None if a is None or b is None or a.mean.shape != b.mean.shape else a.plus(b)


def measured(z: Tensor, layout: Layout, points: int) -> Signal:
    """The signal in pre-activations that lie so."""
    resolution = torch.finfo(z.dtype).eps
    if is_functorch_wrapped_tensor(z):  # inside torch.func, where numbers cannot be read
        return Signal(points, 0.0, 0, resolution)
    z = z.to(torch.promote_types(z.dtype, torch.float32))
    if not layout.points or points < 1 or not z.numel():
        return Signal(points, _square(z), z.numel(), resolution)
    rows = _on_grid(z, layout, points) if isinstance(layout.place, Grid) else _of_scattered(z, layout.place, points)
    if rows is None:
        return Signal(points, _square(z), z.numel(), resolution)
    if not isinstance(layout.place, Grid):
        return of_rows(rows, resolution=resolution)
    return of_rows(rows, resolution=resolution, units=layout.units)


def of_rows(rows: Tensor, *, resolution: float, units: bool = True) -> Signal:
    """The signal in rows [N, C, *positions], a point each."""
    n, features = len(rows), prod(rows.shape[1:])
    whole, away = Moments.of(rows)
    means = away if away.ndim == 2 else away.mean(tuple(range(2, away.ndim)))  # [N, C], less those of the first point
    middle = means.mean(0)
    means = means - middle
    first = rows[0] if rows.ndim == 2 else rows[0].flatten(1).mean(1)
    pooled = Moments(n, (first + middle).cpu(), _square(means))
    together = (means.t() @ means).cpu() if units and 1 < means.shape[1] <= MOST_UNITS else None
    square = whole.apart + n * _square(whole.mean)
    kept = Moments(n, whole.mean.cpu(), whole.apart) if features <= MOST_FEATURES else None
    return Signal(n, square, rows.numel(), resolution, kept, pooled if units else None, together)


def of_input(batch: Any, points: int, point_axis: int | None) -> Signal | None:
    """The signal in the first input of a batch, if it holds real numbers of each point."""
    x = next(iter(tensors(batch)), None)
    if x is None or point_axis is None or not x.is_floating_point() or x.layout != torch.strided:
        return None
    if not -x.ndim <= point_axis < x.ndim or x.shape[point_axis] != points or x.ndim < 2:
        return None
    rows = x.detach().movedim(point_axis, 0)
    resolution = torch.finfo(x.dtype).eps
    return of_rows(rows.to(torch.promote_types(x.dtype, torch.float32)), resolution=resolution)


def _on_grid(z: Tensor, layout: Layout, points: int) -> Tensor:
    """z as [N, C, *positions], as a view where it can be."""
    axes = layout.axes
    if axes is None:
        return layout.arrange(z, points)
    return z if axes == (0, 1) else z.movedim(axes, (0, 1))


def _of_scattered(z: Tensor, place: Scattered, points: int) -> Tensor | None:
    """The mean of each unit for each point [N, C]; None where some point does not meet some unit."""
    if place.points is None or place.units is None or z.numel() < points * place.width:
        return None
    assert place.point is not None
    assert place.unit is not None
    size = points * place.width
    cell = (place.point * place.width + place.unit).clamp(max=size).to(z.device)
    counts = torch.bincount(cell, minlength=size)[:size]
    if not bool((counts > 0).all()):
        return None
    sums = z.new_zeros(size + 1).index_add_(0, cell, z.reshape(-1))[:size]
    return (sums / counts).view(points, place.width)


def norms(gradient: Tensor, layout: Layout, points: int) -> Tensor | None:
    """The norm of the gradient at each point [N], in double precision; None where points cannot be told."""
    if not layout.points or points < 1:
        return None
    g = gradient.detach()
    if isinstance(layout.place, Scattered):
        assert layout.place.point is not None
        squares = g.reshape(-1).double().square()
        return squares.new_zeros(points + 1).index_add_(0, layout.place.point.to(g.device), squares)[:points].sqrt()
    rows = _on_grid(g, layout, points)
    over = tuple(range(1, rows.ndim))
    dtype = torch.promote_types(g.dtype, torch.float32)
    found: Tensor = torch.linalg.vector_norm(rows, dim=over, dtype=dtype).double()
    if bool((found < 1e-15).any()) or not bool(found.isfinite().all()):  # squares may have left the range
        found = torch.linalg.vector_norm(rows.double(), dim=over)
    return found


def _mean(rows: Tensor) -> Tensor:
    """rows.mean(0), by axes in the order in which they lie in memory: in another it takes fifty times as long."""
    order = sorted(range(1, rows.ndim), key=rows.stride, reverse=True)
    back = [order.index(d) for d in range(1, rows.ndim)]
    return rows.permute(0, *order).mean(0).permute(back)


def _square(t: Tensor) -> float:
    """The sum of squares; in double precision where single does not hold it."""
    found = float(torch.linalg.vector_norm(t)) ** 2
    if found == inf or found < 1e-30:
        return float(torch.linalg.vector_norm(t, dtype=torch.float64)) ** 2
    return found
