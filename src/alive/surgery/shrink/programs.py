"""Linear and integer programs over the bent units of a network: how large can a unit's pre-activation be in the box?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from ...errors import require
from .bounds import OUTWARD, Variables

with require("shrinking over a box", "alive[programs]"):
    from scipy.optimize import Bounds, LinearConstraint, linprog, milp
    from scipy.sparse import csr_array, hstack, vstack

Array = NDArray[np.float64]
SOLVER = 1e-6  # how far the solver may be off in an integer program, of the size of its terms


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """The bent units as inequalities: rows u <= limits, lo <= u <= hi; for integers one switch more a bent unit."""

    rows: Any
    limits: Array
    lo: Array
    hi: Array
    switched: Any
    switched_limits: Array

    def above(self, factors: Array, seconds: float) -> float:
        """An upper bound of factors'u by linear programming; checked from the multipliers, without the solver."""
        done = linprog(
            -factors,
            A_ub=self.rows,
            b_ub=self.limits,
            bounds=np.stack([self.lo, self.hi], 1),
            method="highs",
            options={"time_limit": max(seconds, 1e-3)},
        )
        if done.ineqlin is None or done.ineqlin.marginals is None:
            return np.inf
        multipliers = np.clip(-np.asarray(done.ineqlin.marginals, dtype=np.float64), 0, None)
        if multipliers.shape != self.limits.shape or not np.isfinite(multipliers).all():
            return np.inf
        left = factors - self.rows.T @ multipliers
        ends = np.where(left > 0, self.hi, self.lo)
        size = (
            np.abs(multipliers * self.limits).sum()
            + ((np.abs(factors) + abs(self.rows).T @ multipliers) * np.maximum(np.abs(self.lo), np.abs(self.hi))).sum()
        )
        return float(multipliers @ self.limits + left @ ends + OUTWARD * size)

    def above_by_integers(self, factors: Array, seconds: float) -> float:
        """An upper bound by integer programming: the solver's own, moved up by what its tolerances may hide."""
        switches = self.switched.shape[1] - len(factors)
        costs = np.concatenate([-factors, np.zeros(switches)])
        done = milp(
            costs,
            integrality=np.concatenate([np.zeros(len(factors)), np.ones(switches)]),
            bounds=Bounds(np.concatenate([self.lo, np.zeros(switches)]), np.concatenate([self.hi, np.ones(switches)])),
            constraints=LinearConstraint(self.switched, -np.inf, self.switched_limits),
            options={"time_limit": max(seconds, 1e-3)},
        )
        bound = done.mip_dual_bound
        if bound is None or not np.isfinite(bound):
            return np.inf
        size = (np.abs(factors) * np.maximum(np.abs(self.lo), np.abs(self.hi))).sum()
        return float(-bound + SOLVER * size)


def program(variables: Variables) -> Program | None:
    """The program of all variables so far; None where none is bent, so that intervals are exact already."""
    known = [group for group in variables.groups if group.rows is not None]
    if not known:
        return None
    count = len(variables)
    rows, limits, switched, switched_limits, switches = [], [], [], [], 0
    total = sum(group.stop - group.start for group in known)
    for group in known:
        assert group.rows is not None
        assert group.z is not None
        assert group.shifts is not None
        own, size = _wide(group.rows, count), group.stop - group.start
        r = csr_array((np.ones(size), (np.arange(size), np.arange(group.start, group.stop))), shape=(size, count))
        shift, lo, hi = (np.asarray(x) for x in (group.shifts, group.z.lo, group.z.hi))
        chord = hi / (hi - lo)
        rows += [own - r, r - csr_array(own * chord[:, None])]  # r >= z, r <= chord (z - lo)
        limits += [-shift, chord * (shift - lo)]
        places = (np.arange(size), np.arange(switches, switches + size))
        on_lo, on_hi = (csr_array((end, places), shape=(size, total)) for end in (lo, hi))
        none = csr_array((size, total))
        switched += [hstack([own - r, none]), hstack([r - own, -on_lo]), hstack([r, -on_hi])]
        switched_limits += [-shift, shift - lo, np.zeros(size)]
        switches += size
    return Program(
        csr_array(vstack(rows)),
        np.concatenate(limits),
        variables.lo.numpy(),
        variables.hi.numpy(),
        csr_array(vstack(switched)),
        np.concatenate(switched_limits),
    )


def _wide(rows: Tensor, count: int) -> Any:
    found = csr_array(rows.numpy())
    return csr_array((found.data, found.indices, found.indptr), shape=(found.shape[0], count))
