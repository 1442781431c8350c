"""Whether values show that an operation is one-sided: it lets one side of z through and sets the other to zero."""

from __future__ import annotations

from math import lgamma

from torch import Tensor

MOST = 1 << 16  # values that are looked at
SURE = 8.0  # how unlikely chance must be, as minus the logarithm of its probability


def is_one_sided(z: Tensor, y: Tensor) -> bool:
    """Whether y is a ReLU of z, of −z, or of z above a threshold, up to a positive factor; from these values alone.

    >>> import torch
    >>> z = torch.linspace(-1, 1, 20)
    >>> [is_one_sided(z, y) for y in (z * (z > 0), z * (z > 0.3), -z.clamp(max=0), z.abs(), z.clamp(min=-0.5))]
    [True, True, True, False, False]
    """
    z, y = z.reshape(-1)[:MOST], y.reshape(-1)[:MOST]
    return _splits_at_zero(z, y) or _jumps(z, y)


def _splits_at_zero(z: Tensor, y: Tensor) -> bool:
    for off, on in ((z < 0, z > 0), (z > 0, z < 0)):
        if _evidence(off, on) > 2 and not bool(y[off].any()):
            slope = (y[on] / z[on]).double()
            return bool(slope.abs().min() > 0) and bool((slope.max() - slope.min()).abs() <= 1e-4 * slope.abs().max())
    return False


def _jumps(z: Tensor, y: Tensor) -> bool:
    """Whether y is z above some threshold and 0 below."""
    off, on = (y == 0) & (z != 0), (y == z) & (z != 0)
    if not bool((off | on | (z == 0)).all()) or _evidence(off, on) < SURE:
        return False
    return bool(z[off].max() < z[on].min())


def _evidence(off: Tensor, on: Tensor) -> float:
    """How unlikely it is that values fall on the two sides in order by chance: ln of n over k."""
    k, n = int(off.sum()), int(off.sum() + on.sum())
    return lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1) if 0 < k < n else 0.0
