"""Which activation a function of one number is: told by its values, whatever it is written as."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from math import inf, log, sqrt
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from .activations import TOLERANCE, Activation, celu, elu, relu6, selu, softplus

Function = Callable[[Tensor], Tensor]
LEAST = 0.8  # of the slope on one side, that on the other: less far from it a function is as good as straight
CLOSE = 2e-3  # how far an approximation, as that of GELU by tanh, may be from what it stands for
EXACT = 1e-6
NAUGHT = 1e-9  # a place no farther from 0 is 0
FAR = 1e6  # where what flattens out has done so, if its formula does not overflow there

_ends = torch.logspace(-3, 1.6, 60, dtype=torch.float64)
GRID = torch.cat([-1.013 * _ends.flip(0), _ends, torch.linspace(-8.03, 8.11, 101, dtype=torch.float64)]).sort().values
"""Numbers at which functions are looked at: dense around 0, and far out; unequal on both sides, and not 0 itself."""


class Form(NamedTuple):
    """What a function turned out to be: an activation, times a scale, plus an offset.

    No activation, where it is one-sided in a way that no cutoff says; `word` says which.
    """

    activation: Activation | None
    scale: float = 1.0
    offset: float = 0.0
    known: bool = True  # an activation that has a name, not merely a function of its kind
    word: str = ""

    @property
    def is_bent(self) -> bool:
        """Whether it changes at one number, and not gradually."""
        return self.activation is not None and self.activation.name in ("relu", "clamp", "threshold", "rectified")

    @property
    def is_shrinkage(self) -> bool:
        """Whether it is off between two numbers."""
        return self.word.endswith("shrinkage")

    @property
    def rank(self) -> tuple[bool, bool, bool]:
        """How much it looks as its author would have written it."""
        return self.known, abs(abs(self.scale) - 1) < CLOSE, abs(self.offset) < CLOSE


def form_of(f: Function) -> Form | None:
    """The activation that a function is; None if it is not one-sided.

    >>> [form_of(f).activation.name for f in (lambda z: (z + z.abs()) / 2, lambda z: z / (1 + (-z).exp()))]
    ['relu', 'silu']
    >>> form_of(lambda z: (1 + z.exp()).log()).activation
    Activation(name='softplus', cutoff=-2.197224577336219, ceiling=inf)
    >>> [form_of(f) for f in (torch.abs, torch.tanh, torch.exp, torch.sign, lambda z: 2 * z + 1)]
    [None, None, None, None, None]
    """
    y = f(GRID)
    if y.shape != GRID.shape or not bool(y.isfinite().all()):
        return None
    y = y.double()
    lines = _lines(GRID, y)
    if lines is not None:
        return _of_lines(f, lines) if len(lines) in (2, 3) else None
    return _smooth(f, y) or _zero_below(f, y)


# Straight pieces


class _Line(NamedTuple):
    slope: float
    height: float  # at 0
    first: int
    last: int

    def meets(self, other: _Line) -> float:
        return (self.height - other.height) / (other.slope - self.slope) if other.slope != self.slope else inf


def _lines(x: Tensor, y: Tensor) -> list[_Line] | None:
    """The straight pieces of a function; None if it has others. Between two of them lies one interval at most."""
    slopes = y.diff() / x.diff()
    near = EXACT * float(slopes.abs().max().clamp(min=1e-30))
    found: list[_Line] = []
    start, rows = 0, slopes.tolist()
    for k in range(1, len(rows) + 1):
        if k < len(rows) and abs(rows[k] - rows[start]) <= near:
            continue
        if k - start > 1:
            slope = 0.0 if abs(rows[start]) <= near else rows[start]
            found.append(_Line(slope, float(y[start + 1]) - slope * float(x[start + 1]), start, k))
        elif found and found[-1].last != start:
            return None
        start = k
        if len(found) > 3:
            return None
    return found if found and found[0].first == 0 and found[-1].last == len(rows) else None


def _of_lines(f: Function, lines: list[_Line]) -> Form | None:
    places = [_bend(f, a, b) for a, b in pairwise(lines)]
    if len(lines) == 2:
        (place, is_joined), (low, high) = places[0], lines
        return _find_bend(f, low, high, place, is_joined)
    (left, is_left_joined), (right, is_right_joined) = places
    low, middle, high = lines
    if low.slope == high.slope == 0 != middle.slope and is_left_joined and is_right_joined and left <= 0:
        if abs(middle.height) < EXACT and float(f(GRID[:1])) / middle.slope > 0:  # a probability kept off 0 and 1
            return None
        known = relu6(right) if not left else Activation("hardtanh", cutoff=left, ceiling=right)
        return Form(known, middle.slope, middle.height)
    if middle.slope == 0 and abs(middle.height) < EXACT and low.slope == high.slope != 0:
        kind = "soft" if is_left_joined and is_right_joined else "hard"
        return Form(None, high.slope, word=f"{kind} shrinkage")
    return None


def _bend(f: Function, a: _Line, b: _Line) -> tuple[float, bool]:
    """Where one piece ends and the next begins, and whether they are joined there."""
    low, high = float(GRID[a.last]), float(GRID[b.first])
    meet = a.meets(b)
    if low - EXACT <= meet <= high + EXACT:
        return (0.0 if abs(meet) < NAUGHT else meet), True
    return _last(f, low, high, lambda x, y: (y - a.slope * x - a.height).abs() < EXACT), False


def _last(f: Function, low: float, high: float, holds: Callable[[Tensor, Tensor], Tensor]) -> float:
    """The last number between two at which something holds of a function's values."""
    while high - low > NAUGHT:
        x = torch.linspace(low, high, 101, dtype=torch.float64)
        k = int(holds(x, f(x).double())[1:-1].cumprod(0).sum())
        low, high = float(x[k]), float(x[k + 1])
    return next((n for d in range(8) if abs((n := round(low, d)) - low) <= 2 * NAUGHT), low) + 0.0


def _find_bend(f: Function, low: _Line, high: _Line, place: float, joined: bool) -> Form | None:
    """Two pieces: a ReLU, a leaky one, or z above a threshold."""
    if not high.slope or abs(low.slope) > LEAST * abs(high.slope):
        return None
    offset = high.height / high.slope
    if low.slope:
        return Form(Activation("leaky_relu", cutoff=place, leaks=True), high.slope, offset)
    floor = f(GRID[:3]).double() / high.slope
    if joined and abs(offset) < EXACT and bool((floor == floor[0]).all() and floor[0] > 0):
        return None  # no less than a number above 0: it guards a division or a logarithm
    name = ("relu" if place == 0 else "clamp") if joined else "threshold"
    return Form(Activation(name, cutoff=place), high.slope, offset)


# Curves


def _zero_below(f: Function, y: Tensor) -> Form | None:
    """What does not change up to a number, and does above it."""
    flat = int((y == y[0]).cumprod(0).sum())
    if not 3 < flat < len(y) - 3 or y[-1] == y[0]:
        return None
    above = y[flat:]
    if bool((above == above[0]).all()):  # a step
        return None
    floor = y[0]
    place = _last(f, float(GRID[flat - 1]), float(GRID[flat]), lambda x, v: v == floor)
    ahead = torch.tensor([place * (1 + EXACT), place + 0.5], dtype=torch.float64)
    near, beyond = (f(ahead).double() - floor).abs().tolist()
    if beyond < EXACT * float(y.abs()[GRID.abs() < 1].max()):  # it only fades away below what numbers show
        return None
    if place and abs(float(y[-1] - y[-2])) < EXACT * abs(float(y[-1] - floor)):
        return None
    if place > 0 and near < 10 * EXACT * beyond:  # no less than a number above 0: a guard, and a function of that
        return None
    name = (
        "squared_relu" if torch.allclose(y - floor, (y[-1] - floor) * (F.relu(GRID) / GRID[-1]) ** 2) else "rectified"
    )
    return Form(Activation(name, cutoff=place, straight_from=inf), known=name == "squared_relu")


def _smooth(f: Function, y: Tensor) -> Form | None:
    """What grows as z on one side, and less on the other, and is curved."""
    (bottom, _), (top, height) = _tail(f, y, -1), _tail(f, y, 1)
    if not 0 < abs(top) < inf or abs(bottom) > LEAST * abs(top):
        return None
    offset = height / top
    y = y / top - offset
    for known, twin in _twins(y, top):
        if float((twin - y).abs().max()) < CLOSE:
            return Form(known, 1.0 if known.name == "selu" else top, offset)
    return _of_a_kind(f, y, top, offset, bottom / top)


def _tail(f: Function, y: Tensor, side: int) -> tuple[float, float]:
    """Slope and height of the straight line that a function nears on one side; not finite, if it nears none."""
    x = side * FAR * torch.tensor([1.0, 2.0, 4.0], dtype=torch.float64)
    far = f(x).double()
    if not bool(far.isfinite().all()):
        x, far = (t[[-3, -2, -1]] if side > 0 else t[[2, 1, 0]] for t in (GRID, y))
    first, last = (far.diff() / x.diff()).tolist()
    if abs(first - last) > EXACT * max(abs(first), 1):
        return inf, inf
    height = float(far[-1] - last * x[-1])
    return (0.0 if abs(last) < EXACT else last), (0.0 if abs(height) < CLOSE**2 else height)


def _twins(y: Tensor, scale: float) -> Iterator[tuple[Activation, Tensor]]:
    """Activations that it may be, with their values; those that have a number of their own, by that number."""
    one = int((GRID - 1).abs().argmin())
    near = int(GRID.abs().argmin())
    least, middle, floor = float(y[one]) / float(GRID[one]), float(y[near] - GRID[near] / 2), -float(y[0])
    yield Activation.smooth("gelu"), F.gelu(GRID)
    if 0.5 < least < 1:
        beta = log(least / (1 - least)) / float(GRID[one])
        name = "gelu" if abs(beta - 1.702) < CLOSE else "silu"
        yield Activation.smooth(name), GRID * torch.sigmoid(beta * GRID)
    yield Activation.smooth("mish"), F.mish(GRID)
    yield Activation.smooth("hardswish", straight_from=3.0), F.hardswish(GRID)
    if floor > CLOSE:
        floor = float(f"{floor:.6g}")
        is_selu = abs(scale - 1.0507) < 1e-3 and abs(floor - 1.67326) < 1e-3
        yield selu() if is_selu else elu(floor), F.elu(GRID, floor)
        yield celu(floor), F.celu(GRID, floor)
    if middle > EXACT:
        beta, b = (float(f"{n:.5g}") for n in (log(2) / middle, 4 * middle**2))
        yield softplus(beta), F.softplus(GRID, beta, threshold=1e9)
        yield Activation.smooth("squareplus", _flattest(b)), (GRID + (GRID**2 + b).sqrt()) / 2


def _flattest(b: float) -> float:
    """Where the slope of squareplus, (1 + z / √(z² + b)) / 2, falls to the tolerance."""
    share = 1 - 2 * TOLERANCE
    return -share * sqrt(b / (1 - share**2))


def _of_a_kind(f: Function, y: Tensor, scale: float, offset: float, leak: float) -> Form | None:
    """A curve without a name: as GELU, it gates z by a share, and is off at 0; or it flattens out, as a softplus."""
    share = y / GRID
    if float(share.min()) >= -CLOSE and float(share.max()) <= 1 + CLOSE and not offset:
        return Form(Activation.smooth("self_gated"), scale, offset, known=False)
    if leak > TOLERANCE:
        return Form(None, scale, word="a leaky or smooth ReLU")
    if bool((y.diff() < -EXACT).any()):
        return None
    steep = (y.diff() / GRID.diff() > TOLERANCE).int()
    first = int(steep.argmax())
    low, high = float(GRID[first - 1]), float(GRID[first + 1])
    wide = 1e-5

    def is_flat(x: Tensor, _: Tensor) -> Tensor:
        return (f(x + wide) - f(x - wide)) / (2 * wide * scale) <= TOLERANCE

    return Form(Activation.smooth("flattening", _last(f, low, high, is_flat)), scale, offset, known=False)
