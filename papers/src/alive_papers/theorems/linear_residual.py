"""The landscape of deep linear residual networks (section 2 of 003): risk, gradient, and how large it must be."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from alive.errors import expect


@dataclass(frozen=True, slots=True, eq=False)
class Landscape:
    """One or many points of the landscape; fields have the leading axes of the layers given.

    excess      f - C = |((I + A_l) ... (I + A_1) - R) S^(1/2)|², what is above the least risk (2.4)
    gradient    of f in every layer [..., l, d, d] (Lemma 2.4)
    tau         the largest spectral norm of a layer
    bound       what the squared gradient is at least, 4 l (1 - tau)^(2(l-1)) s_min(S) (f - C); 0 where tau >= 1
    printed     the bound as the paper prints it (2.3), which is false
    """

    excess: Tensor
    gradient: Tensor
    tau: Tensor
    bound: Tensor
    printed: Tensor

    @property
    def squared_gradient(self) -> Tensor:
        """Sum of squares over all layers and entries."""
        return self.gradient.square().sum((-3, -2, -1))


def landscape(A: Tensor, R: Tensor, Sigma: Tensor) -> Landscape:
    """Risk, gradient and bounds of layers A [..., l, d, d], the first applied first, for target R and covariance Sigma.

    Differs from the paper: (2.3) lacks a factor 2 in the exponent and takes s_min(S)² where s_min(S) is provable;
    Lemma 2.4 is printed with the transposed factors in reverse.

    >>> point = landscape(-0.5 * torch.eye(1).expand(3, 1, 1), torch.eye(1), torch.eye(1))
    >>> point.excess.item(), point.squared_gradient.item(), point.bound.item(), point.printed.item()
    (0.765625, 0.57421875, 0.57421875, 2.296875)
    """
    _expect_shapes(A, R, Sigma)
    excess, gradient = _slope(A, R, Sigma)
    tau = torch.linalg.matrix_norm(A, 2).amax(-1)
    least = torch.linalg.eigvalsh(Sigma)[..., 0].clamp(min=0)
    depth, room = A.shape[-3], (1 - tau).clamp(min=0)
    bound = 4 * depth * room ** (2 * (depth - 1)) * least * excess
    printed = 4 * depth * room ** (depth - 1) * least.square() * excess
    inside = tau < 1
    return Landscape(excess, gradient, tau, bound * inside, printed * inside)


@dataclass(frozen=True, slots=True)
class Descent:
    """Gradient descent at one depth from one kind of start, over several targets and draws.

    `reached` is the share of runs whose excess fell below a millionth of the target's own, `steps` the median number
    they took (None if fewer than half did), `excess` the median relative excess at the end, `norm` the median of the
    largest layer's spectral norm there, in the coordinates of the residual parameterisation.
    """

    start: str
    depth: int
    runs: int
    reached: float
    steps: int | None
    excess: float
    norm: float


STARTS = ("residual, zero", "residual, random", "standard, zero", "standard, random")
RATES = (0.3, 0.1, 0.03, 0.01)
GOAL = 1e-6


def study(
    depths: Sequence[int] = (2, 4, 8, 16, 32),
    *,
    d: int = 4,
    targets: int = 8,
    steps: int = 500,
    generator: Generator | None = None,
) -> list[Descent]:
    """Train deep linear networks on targets of positive determinant; a row for each depth and start.

    In both parameterisations gradient descent moves along the same gradient; they differ in where zero is. Residual
    starts have A = 0, or normal of deviation 1/(depth √d); standard ones I + A = 0, or normal of deviation 1/√d.
    Every run may choose among the learning rates RATES / depth the one that ends lowest.

    >>> for row in study([8], d=2, targets=2, steps=300, generator=torch.Generator().manual_seed(0)):
    ...     print(row.start, row.reached)
    residual, zero 1.0
    residual, random 1.0
    standard, zero 0.0
    standard, random 0.0
    """
    expect(
        [
            (bool(depths) and min(depths, default=0) >= 1, f"depths must be at least 1, got {list(depths)}"),
            (d >= 1 and targets >= 1 and steps >= 1, "d, targets and steps must be at least 1"),
        ]
    )
    aims = _targets(targets, d, generator)
    return [
        _descend(name, _start(name, depth, aims, generator), aims, steps=steps) for depth in depths for name in STARTS
    ]


def _descend(name: str, start: Tensor, aims: Tensor, *, steps: int) -> Descent:
    """Follow all targets at all rates at once, and keep for each target the rate that ends lowest."""
    depth = start.shape[1]
    rates = torch.tensor(RATES, dtype=start.dtype).view(-1, 1, 1, 1, 1) / depth
    layers = start.expand(len(RATES), *start.shape).clone()  # [rates, targets, depth, d, d]
    goal = GOAL * aims.square().sum((-2, -1))
    first = torch.full(layers.shape[:2], -1)
    unit = torch.eye(start.shape[-1], dtype=start.dtype)
    for step in range(steps + 1):
        excess, gradient = _slope(layers, aims, unit)
        first[(first < 0) & (excess < goal)] = step
        if step < steps:
            layers = torch.where(excess.isfinite()[..., None, None, None], layers - rates * gradient, layers)
    final = (excess / goal * GOAL).nan_to_num(torch.inf, torch.inf)
    best = final.argmin(0)
    chosen = torch.arange(len(aims))
    took = first[best, chosen]
    norms = torch.linalg.matrix_norm((layers[best, chosen]).nan_to_num(0, 0, 0), 2).amax(-1)
    reached = float((took >= 0).double().mean())
    median = int(took[took >= 0].median()) if reached >= 0.5 else None
    return Descent(name, depth, len(aims), reached, median, float(final[best, chosen].median()), float(norms.median()))


def _slope(A: Tensor, R: Tensor, Sigma: Tensor) -> tuple[Tensor, Tensor]:
    """Excess, and its gradient: in layer i, 2 after_i' E S before_i' (Lemma 2.4)."""
    before, after = _products(A)
    first = after[..., 0, :, :]
    error = first + first @ A[..., 0, :, :] - R
    weighted = error @ Sigma
    gradient: Tensor = 2 * after.mT @ weighted.unsqueeze(-3) @ before.mT
    return (weighted * error).sum((-2, -1)), gradient


def _start(name: str, depth: int, aims: Tensor, generator: Generator | None) -> Tensor:
    count, d = aims.shape[0], aims.shape[-1]
    noise = torch.randn(count, depth, d, d, dtype=aims.dtype, generator=generator) / d**0.5
    eye = torch.eye(d, dtype=aims.dtype)
    starts: dict[str, Tensor] = {
        "residual, zero": torch.zeros_like(noise),
        "residual, random": noise / depth,
        "standard, zero": torch.zeros_like(noise) - eye,
        "standard, random": noise - eye,
    }
    return starts[name]


def _targets(count: int, d: int, generator: Generator | None) -> Tensor:
    """Maps of positive determinant: exponentials of normal matrices."""
    drawn = torch.randn(count, d, d, dtype=torch.float64, generator=generator) / d**0.5
    maps: Tensor = torch.linalg.matrix_exp(drawn)
    return maps


def _products(A: Tensor) -> tuple[Tensor, Tensor]:
    """For each layer the product of those before it and of those after it, [..., l, d, d] both."""
    eye = torch.eye(A.shape[-1], dtype=A.dtype)
    factors = (A + eye).unbind(-3)
    before = list(_running(factors[:-1], eye.expand_as(factors[0]), left=True))
    after = list(_running(factors[:0:-1], eye.expand_as(factors[0]), left=False))
    return torch.stack(before, -3), torch.stack(after[::-1], -3)


def _running(factors: Sequence[Tensor], whole: Tensor, *, left: bool) -> Iterator[Tensor]:
    """The empty product, and each one more factor long."""
    yield whole
    for factor in factors:
        whole = factor @ whole if left else whole @ factor
        yield whole


def _expect_shapes(A: Tensor, R: Tensor, Sigma: Tensor) -> None:
    d = A.shape[-1] if A.ndim else 0
    expect(
        [
            (
                A.ndim >= 3 and A.shape[-2] == d and A.shape[-3] >= 1 and d >= 1,
                f"A must be [..., l, d, d], got {list(A.shape)}",
            ),
            (R.shape[-2:] == (d, d), f"R must be [..., {d}, {d}], got {list(R.shape)}"),
            (Sigma.shape[-2:] == (d, d), f"Sigma must be [..., {d}, {d}], got {list(Sigma.shape)}"),
        ]
    )
    expect([(torch.allclose(Sigma, Sigma.mT), "Sigma must be symmetric: it is a covariance")])
