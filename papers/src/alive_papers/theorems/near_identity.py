"""A linear map as a product of layers near the identity (Theorem 2.1 of 003), by polar decomposition and Schur form."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from alive.errors import AliveError, expect

Array = NDArray[np.float64]
TINY = 1e-12  # angles and logarithms below this are rounding
EXACT = 1e-6  # relative error of a product above which its layers are no factorisation


@dataclass(frozen=True, slots=True, eq=False)
class Factorisation:
    """Layers A [depth, d, d], the first applied first, with (I + A_depth) ... (I + A_1) = R.

    `norm` is the largest spectral norm of the near-identity layers, `bound` the paper's 2(√π + √(3γ))²/depth, which is
    promised from depth 3γ on. `extra` names a layer more that is not near the identity: a reflection (norm 2) put last,
    or a projection (norm 1) put first.
    """

    layers: Tensor
    norm: float
    bound: float
    gamma: float
    stretches: int
    rotations: int
    extra: str | None = None

    def product(self) -> Tensor:
        """The product of all layers [d, d]."""
        whole = torch.eye(self.layers.shape[1], dtype=self.layers.dtype)
        for layer in self.layers:
            whole = whole + layer @ whole
        return whole


def factor_near_identity(R: Tensor, depth: int, *, reflect: bool = False) -> Factorisation:
    """Write R [d, d] as a product of `depth` layers I + A_i whose largest spectral norm is small, of order 1/depth.

    R = QP with P positive and Q a rotation; `stretches` layers are a root of P, `rotations` a root of Q, in the split
    that makes the largest norm least. Float64, in which a layer that shrinks everything to less than a
    billionth loses its digits against the identity: maps so small are refused, with the depth that they need.

    Differs from the paper: Theorem 2.1 is false where det R <= 0, since |A_i| < 1 makes every det(I + A_i) positive.
    Such R are refused, or with `reflect` solved by one layer more: a Householder reflection (det R < 0) or a
    projection (R singular).

    >>> found = factor_near_identity(-torch.eye(2), 10)
    >>> round(found.norm, 3), torch.allclose(found.product(), -torch.eye(2).double())
    (0.313, True)
    """
    whole = _expect_square(R, depth)
    u, k, vt = np.linalg.svd(whole)
    singular = bool(k[-1] <= len(k) * np.finfo(float).eps * k[0])
    improper = bool(np.linalg.det(u) * np.linalg.det(vt) < 0)
    if (singular or improper) and not reflect:
        raise _impossible(singular)
    if singular and improper:  # the direction that R destroys may be turned at will
        u[:, -1], improper = -u[:, -1], False
    kept = k > len(k) * np.finfo(float).eps * k[0]
    q = u @ vt
    mirror = _mirror(q) if improper else None
    turn = _Turn.of(q if mirror is None else mirror @ q)
    stretch = np.log(np.where(kept, k, 1.0))
    layers, norm, split = _layers(vt.T, stretch, turn, depth)
    extra = "reflection" if improper else "projection" if singular else None
    if mirror is not None:
        layers.append(mirror - np.eye(len(k)))
    elif singular:
        layers.insert(0, -(vt.T * ~kept) @ vt)
    gamma = float(np.abs(stretch).max())
    _expect_product(layers, whole, gamma)
    bound = 2 * (math.sqrt(math.pi) + math.sqrt(3 * gamma)) ** 2 / depth
    return Factorisation(torch.from_numpy(np.stack(layers)), norm, bound, gamma, *split, extra)


class _Turn(NamedTuple):
    """A rotation as angles in planes: columns of `basis` come in the pairs `planes`."""

    basis: Array
    planes: list[tuple[int, int]]
    angles: list[float]

    @classmethod
    def of(cls, q: Array) -> _Turn:
        from scipy.linalg import schur

        form, basis = schur(q, output="real")
        planes, angles, turned = [], [], []
        place = 0
        while place < len(q):
            if place + 1 < len(q) and abs(form[place + 1, place]) > TINY:
                block = form[place : place + 2, place : place + 2]
                planes.append((place, place + 1))
                angles.append(math.atan2(block[1, 0] - block[0, 1], block[0, 0] + block[1, 1]))
                place += 2
            else:
                if form[place, place] < 0:
                    turned.append(place)
                place += 1
        planes += zip(turned[0::2], turned[1::2], strict=True)  # two reversed directions are half a turn
        return cls(basis, planes, angles + [math.pi] * (len(turned) // 2))

    @property
    def largest(self) -> float:
        return max(map(abs, self.angles), default=0.0)

    def root(self, degree: int) -> Array:
        """The rotation by a `degree`-th of every angle, less the identity."""
        part = np.zeros_like(self.basis)
        for (i, j), angle in zip(self.planes, self.angles, strict=True):
            part[[i, j], [i, j]] = -2 * math.sin(angle / degree / 2) ** 2  # cos - 1 without cancellation
            part[j, i] = math.sin(angle / degree)
            part[i, j] = -part[j, i]
        return self.basis @ part @ self.basis.T


def _layers(v: Array, stretch: Array, turn: _Turn, depth: int) -> tuple[list[Array], float, tuple[int, int]]:
    """The near-identity layers, their largest norm, and how many are stretches and rotations."""
    size = len(v)
    if depth == 1 and np.abs(stretch).max() > TINY and turn.largest > TINY:
        only = (np.eye(size) + turn.root(1)) @ ((v * np.exp(stretch)) @ v.T) - np.eye(size)
        return [only], float(np.linalg.norm(only, 2)), (1, 1)
    norm, p = min((_norm(stretch, turn.largest, p, depth - p), p) for p in range(depth + 1))
    stretched = (v * np.expm1(stretch / max(p, 1))) @ v.T
    return [stretched] * p + [turn.root(max(depth - p, 1))] * (depth - p), norm, (p, depth - p)


def _norm(stretch: Array, angle: float, p: int, q: int) -> float:
    """The largest norm with p stretches and q rotations: 2 sin(angle / 2q) or |k^(1/p) - 1|."""
    impossible = (p == 0 and np.abs(stretch).max() > TINY) or (q == 0 and angle > TINY)
    if impossible:
        return math.inf
    turned = 2 * math.sin(angle / q / 2) if q else 0.0
    return max(turned, float(np.abs(np.expm1(stretch / p)).max()) if p else 0.0)


def _expect_product(layers: list[Array], whole: Array, gamma: float) -> None:
    """Refuse layers whose rounding has swallowed the map."""
    product = np.eye(len(whole))
    for layer in layers:
        product = product + layer @ product
    error = float(np.abs(product - whole).max() / (np.abs(whole).max() or 1.0))
    if not error <= EXACT:
        raise AliveError(
            f"the product of these layers differs from R by {error:.1g} of its largest entry: I + A rounds off what a "
            f"stretch by e^±{gamma:.3g} in {len(layers)} layers leaves",
            f"Give more depth, such as {2 * math.ceil(gamma / 6)}",
        )


def _mirror(q: Array) -> Array:
    """The reflection that makes an improper orthogonal matrix proper, along a direction that it reverses."""
    values, vectors = np.linalg.eigh(q + q.T)
    v = vectors[:, values.argmin()]
    reflected: Array = np.eye(len(q)) - 2 * np.outer(v, v)
    return reflected


def _impossible(singular: bool) -> AliveError:
    if singular:
        return AliveError(
            "R is singular, and no product of layers I + A with |A| < 1 is, at any depth",
            "Pass reflect=True to allow one layer more, a projection of norm 1",
        )
    return AliveError(
        "det R < 0, and |A| < 1 makes every det(I + A) positive: no depth suffices (Theorem 2.1 is false here)",
        "Pass reflect=True to allow one layer more, a reflection of norm 2",
    )


def _expect_square(R: Tensor, depth: int) -> Array:
    expect(
        [
            (R.ndim == 2 and R.shape[0] == R.shape[-1] and R.numel() > 0, f"R must be square, got {list(R.shape)}"),
            (not R.is_complex() and bool(R.isfinite().all()), "R must be real and finite"),
            (isinstance(depth, int) and depth >= 1, f"depth must be a whole number of at least 1, got {depth}"),
        ]
    )
    whole: Array = R.detach().to("cpu", torch.float64).numpy()
    return whole
