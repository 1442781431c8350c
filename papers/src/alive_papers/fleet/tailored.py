"""Tailored leaky ReLUs (TAT, Zhang and others 2022): a slope for which a deep network still tells points apart.

In a wide network of orthogonal layers, the cosine of two points' signals goes through the same function C in every
layer. The slope is chosen so that points at right angles come out of all layers at a cosine of .9, whatever the depth.
"""

from __future__ import annotations

import math

from alive.errors import expect

COSINE = 0.9  # of points that come in at right angles
HALVINGS = 80


def leaky_gain(slope: float) -> float:
    """What a leaky ReLU is multiplied by, so that normal numbers of variance 1 come out with mean square 1.

    >>> leaky_gain(1.0)
    1.0
    """
    return math.sqrt(2 / (1 + slope**2))


def leaky_cosine(cosine: float, slope: float) -> float:
    """C: the cosine after a wide layer of leaky ReLUs, from that before it.

    >>> leaky_cosine(0.5, 1.0), round(leaky_cosine(0.0, 0.0), 4)
    (0.5, 0.3183)
    """
    cosine = min(1.0, max(-1.0, cosine))
    bent = math.sqrt(1 - cosine**2) + (math.pi - math.acos(cosine)) * cosine
    return ((1 - slope) ** 2 * bent / math.pi + 2 * slope * cosine) / (1 + slope**2)


def tailored_slope(depth: int, *, cosine: float = COSINE) -> float:
    """The slope for so many layers; 0, a plain ReLU, where even that leaves right angles below the cosine asked for.

    >>> [round(tailored_slope(depth), 3) for depth in (5, 50)]
    [0.0, 0.431]
    """
    expect(
        [
            (depth >= 1, f"depth must be at least 1, got {depth}"),
            (0 < cosine < 1, f"cosine must lie strictly between 0 and 1, got {cosine}"),
        ]
    )
    low, high = 0.0, 1.0  # the more a unit is bent, the closer points come
    if _through(depth, low) <= cosine:
        return 0.0
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if _through(depth, middle) > cosine else (low, middle)
    return (low + high) / 2


def _through(depth: int, slope: float) -> float:
    cosine = 0.0
    for _ in range(depth):
        cosine = leaky_cosine(cosine, slope)
    return cosine
