"""Orthogonal weights, and those made of them: one function a kind, each fills one kernel [out, in, ...]."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import EllipsisType

import torch
from torch import Generator, Tensor, nn

Fill = Callable[[Tensor, float, Generator | None], None]  # (weight, gain, generator)

PERTURBATION = 0.1  # of the all-ones matrices; a published implementation takes this


def orthogonal_(weight: Tensor, gain: float, generator: Generator | None) -> None:
    """Draw an orthogonal matrix times gain, a kernel being read as [out, in · taps] (Saxe and others 2014).

    >>> weight = torch.empty(3, 5)
    >>> orthogonal_(weight, 1.0, None)
    >>> torch.allclose(weight @ weight.T, torch.eye(3), atol=1e-5)
    True
    """
    nn.init.orthogonal_(weight, gain, generator=generator)


def delta_orthogonal_(weight: Tensor, gain: float, generator: Generator | None) -> None:
    """Draw an orthogonal matrix at the centre tap, zero elsewhere (Xiao and others 2018); dense layers are orthogonal.

    Differs from the paper: with fewer units than inputs the rows are orthonormal, where the paper has no start.
    """
    core = weight.new_empty(weight.shape[:2])
    nn.init.orthogonal_(core, gain, generator=generator)
    _at_centre(weight, core)


def uniform_orthogonal_(weight: Tensor, gain: float, generator: Generator | None) -> None:
    """Draw an orthogonal matrix that keeps the mean square of what it reads: times √(out/in) where out is larger.

    What DKS and TAT start from (Martens and others 2021; Zhang and others 2022); kernels hold it at their centre tap.
    """
    out, into = weight.shape[:2]
    delta_orthogonal_(weight, gain * max(1.0, math.sqrt(out / into)), generator)


def deterministic_(weight: Tensor, gain: float, generator: Generator | None) -> None:
    """Fill with Q_out I Q_inᵀ, where Q_n is the orthogonal factor of J_n + εI, J_n all ones; nothing is drawn.

    Lee and others (2024, arXiv 2311.03733). Every row then sums up to nearly √(in/out), and a square matrix is the
    identity: written as such, for what rounding leaves beside the ones would decide which dead units get a gradient.
    R has a positive diagonal, so that Q is one matrix on every machine. Kernels hold it at their centre tap.
    """
    out, into = weight.shape[:2]
    least = min(out, into)
    same = torch.eye(out, dtype=torch.float64)
    core = same if out == into else _ones(out)[:, :least] @ _ones(into)[:, :least].T
    _at_centre(weight, gain * core)


def _ones(size: int) -> Tensor:
    """The orthogonal factor of the perturbed all-ones matrix."""
    ones = torch.ones(size, size, dtype=torch.float64)
    q, r = torch.linalg.qr(ones + PERTURBATION * torch.eye(size, dtype=torch.float64))
    return torch.mul(q, r.diagonal().sign())


def _at_centre(weight: Tensor, core: Tensor) -> None:
    nn.init.zeros_(weight)
    centre: list[int | EllipsisType] = [size // 2 for size in weight.shape[2:]]
    weight[(..., *centre)] = core.to(weight)
