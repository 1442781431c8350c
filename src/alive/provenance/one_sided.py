"""Whether values show that an operation is one-sided: it lets one side of z through, the other not or less."""

from __future__ import annotations

from math import lgamma

from torch import Tensor

MOST = 1 << 16  # values that are looked at
SOME, FEW = 1 << 12, 32  # the most and the least of them, where all must be in order
SMALLER = 0.8  # of the share on one side, that on the other: less far from it a function is as good as straight
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


def gates_itself(z: Tensor, y: Tensor) -> bool:
    """Whether y = g(z) z, with a share g(z) ≥ 0 that grows with z: a leaky ReLU, an ELU, a GELU, a SiLU spelled out.

    >>> import torch
    >>> z = torch.linspace(-3, 3, 100)
    >>> leaky, elu = torch.maximum(z, 0.1 * z), torch.where(z > 0, z, z.exp() - 1)
    >>> [gates_itself(z, y) for y in (leaky, elu, 0.5 * z * (1 + torch.erf(z / 2**0.5)))]
    [True, True, True]
    >>> [gates_itself(z, y) for y in (2 * z, z.tanh(), z.abs(), z.exp(), z * z, z.clamp(-1, 1), z.flip(0))]
    [False, False, False, False, False, False, False]
    """
    z, y = z.reshape(-1)[:SOME].double(), y.reshape(-1)[:SOME].double()
    known = z.abs() > 1e-3 * z.abs().max()  # a share of next to nothing is all rounding
    z, y = z[known], y[known]
    if min(int((z > 0).sum()), int((z < 0).sum())) < FEW:
        return False
    share, order = y / z, z.argsort()
    top = float(share.max())
    slack = 1e-3 * top
    grows = bool((share[order].diff() >= -slack).all())
    bends = bool(
        (share[z > 0] >= top - slack).all() and (share[z < 0] <= SMALLER * top).all()
    )  # with slopes of its own
    return top > 0 and (grows or bends) and -slack <= float(share.min()) <= SMALLER * top


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
