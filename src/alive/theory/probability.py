"""How likely death at birth is, in closed form: units, layers, points and networks (section 3 of 004, A.2 of 001)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from ..errors import AliveError, expect

# Weights and biases drawn independently and evenly about zero: whatever a layer reads, half of the draws switch a unit
# off. So a point that reaches a layer dies there with probability exactly 2^-width, at any depth.
SYMMETRIC = ("glorot", "kaiming", "torch")
TINY = 1e-17  # below it -log(1 - p) is p to the last digit, and p itself may underflow


def layer_dead(p: float, width: int) -> float:
    """P(a layer of independent units is off), each off with probability p: p^width (eq 19 of 001).

    For p = P(unit off for all points) the layer is dead; for q = P(unit off for one point) the point dies in it.

    >>> layer_dead(0.5, 4)
    0.0625
    """
    _expect_chance(p, [width])
    return p**width


def network_dead(p: float, widths: Sequence[int]) -> float:
    """P(some layer is off) = 1 - prod(1 - p^width), layers independent (eq 22 of 001).

    Differs from the paper: 004 prints 1 - prod(1 - p)^width, which is `some_unit_dead`; eq 24 of 001 lost a "not".

    >>> round(network_dead(0.5, [4] * 10), 4)
    0.4755
    """
    _expect_chance(p, widths)
    if p == 1:
        return 1.0
    return 0.0 - math.expm1(sum(math.log1p(-(p**width)) for width in widths))


def some_unit_dead(p: float, widths: Sequence[int]) -> float:
    """P(some unit is off) = 1 - prod(1 - p)^width: what 004 prints as the probability of a dead layer.

    >>> round(some_unit_dead(0.5, [4] * 10), 4)
    1.0
    """
    _expect_chance(p, widths)
    return 1.0 if p == 1 else 0.0 - math.expm1(sum(widths) * math.log1p(-p))


def point_dead(init: str, widths: Sequence[int]) -> float | None:
    """P(a point other than 0 is dead in a plain dense ReLU network of these widths), or None where no form is known.

    Exact for SYMMETRIC initialisers, since every layer is drawn afresh; zero weights kill all points. The
    probability that a network is born dead, every point dead, is at most this.

    >>> round(point_dead("glorot", [4] * 50), 3)
    0.96
    """
    if init == "zeros":
        return 1.0
    return network_dead(0.5, widths) if init in SYMMETRIC else None


def width_for(depth: int, limit: float, *, q: float = 0.5) -> int:
    """The least width at which a point dies in `depth` layers with probability of at most `limit`.

    >>> width_for(50, 0.05)
    10
    """
    _expect_limit(q, limit)
    expect([(depth >= 1, f"depth must be at least 1, got {depth}")])
    # 1 - (1 - q^n)^depth <= limit, solved for n; the loop mends what rounding did
    each = -math.expm1(math.log1p(-limit) / depth)
    width = max(1, math.floor(math.log(each) / math.log(q)))
    while -math.expm1(depth * math.log1p(-(q**width))) > limit:
        width += 1
    return width


def depth_for(width: int, limit: float, *, q: float = 0.5) -> int:
    """The largest depth at which a point dies with probability of at most `limit`; 0 if one layer is too many.

    It is finite for every width: eq 26 of 001, with the condition that it needs, sum q^width = infinity.

    >>> depth_for(10, 0.05)
    52
    """
    _expect_limit(q, limit)
    _expect_chance(q, [width])
    each = Fraction(q) ** width if q**width < TINY else Fraction(-math.log1p(-(q**width)))
    return math.floor(Fraction(-math.log1p(-limit)) * Fraction(1 + 1e-12) / each)


def _expect_chance(p: float, widths: Sequence[int]) -> None:
    wrong = [width for width in widths if width < 1]
    expect(
        [
            (0 <= p <= 1, f"a probability lies in 0..1, got {p}"),
            (not wrong, f"widths must be at least 1, got {wrong[:1]}"),
        ]
    )


def _expect_limit(q: float, limit: float) -> None:
    if not (0 < q < 1 and 0 < limit < 1):
        raise AliveError(f"probability and limit must lie strictly between 0 and 1, got {q} and {limit}")
