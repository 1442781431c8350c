"""Glimpses: a few values of a tensor, which dismiss nearly all pairs that `one_sided` would look at."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import NamedTuple

from torch import Tensor

from ..torch_private import version_of
from .one_sided import SOME

VALUES = 32
UNKNOWN = -1  # version of what tells none
CLEAR = 0.1  # of the largest share, by which one must be out of order


class Glimpse(NamedTuple):
    """Some values of a tensor, and its version when they were read."""

    ref: weakref.ref[Tensor]
    version: int
    values: Sequence[float]

    @classmethod
    def of(cls, t: Tensor) -> Glimpse:
        """Look at a tensor."""
        return cls(weakref.ref(t), _version(t), values_of(t))

    def now(self, t: Tensor) -> Sequence[float]:
        """The values of the tensor, read again if they may have been changed in place."""
        return self.values if self.version == _version(t) != UNKNOWN else values_of(t)


def _version(t: Tensor) -> int:
    return UNKNOWN if t.is_inference() else version_of(t)


def values_of(t: Tensor) -> Sequence[float]:
    """A few of the values that `one_sided` looks at, spread over them."""
    t = t.detach()
    if t.ndim and not t.is_contiguous():  # only the copy of some rows
        t = t[: -(-SOME * len(t) // t.numel())]
    row = t.reshape(-1)[:SOME]
    values: list[float] = row[:: max(1, len(row) // VALUES)].tolist()
    return values


def may_be_one_sided(z: Sequence[float], y: Sequence[float]) -> bool:
    """Whether these values leave it open that `is_one_sided` holds; where they do not, it does not hold."""
    below = above = jumps = True
    for a, b in zip(z, y, strict=True):
        if b:
            below, above, jumps = below and not a < 0, above and not a > 0, jumps and (b == a or not a)
            if not (below or above or jumps):
                return False
    return True


def may_gate_itself(z: Sequence[float], y: Sequence[float]) -> bool:
    """Whether these values leave it open that `gates_itself` holds.

    The shares of z grow with it, or are one above 0, and none lies below 0.

    >>> may_gate_itself([-1.0, 1.0], [-0.1, 1.0]), may_gate_itself([-1.0, 1.0], [0.5, 1.0])
    (True, False)
    """
    least = 1e-3 * max(max(z), -min(z))
    shares = [b / a for a, b in zip(z, y, strict=True) if a > least or a < -least]
    if not shares:
        return True
    slack = CLEAR * max(max(shares), -min(shares))
    if min(shares) < -slack:
        return False
    top, grows = 0.0, True
    for _, share in sorted(zip((a for a in z if a > least or a < -least), shares, strict=True)):
        grows = grows and share >= top - slack
        top = max(top, share)
    return grows or min((b / a for a, b in zip(z, y, strict=True) if a > least), default=top) >= top - slack
