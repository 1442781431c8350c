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


def mean_orthogonal_(weight: Tensor, gain: float, generator: Generator | None) -> None:
    """Draw an orthogonal matrix that hands the mean on: ones become √(in/out) ones, what sums up to 0 is turned.

    Of all matrices with orthonormal rows (or columns) these have the largest sum of entries, √(out · in). Our reading
    of the start of Lee, Kim and Choi (2025, arXiv 2509.00362), of which only the abstract was at hand: orthogonal, so
    that scale is kept, with a mean that keeps ReLUs from dying. Kernels hold it at their centre tap.

    >>> weight = torch.empty(4, 4)
    >>> mean_orthogonal_(weight, 1.0, None)
    >>> torch.allclose(weight @ weight.T, torch.eye(4), atol=1e-5), torch.allclose(weight.sum(1), torch.ones(4))
    (True, True)
    """
    out, into = weight.shape[:2]
    turn = weight.new_empty(out - 1, into - 1)
    if turn.numel():
        nn.init.orthogonal_(turn, generator=generator)
    ones = weight.new_full((out, into), 1 / math.sqrt(out * into))
    _at_centre(weight, gain * (ones + _beside_ones(out).to(turn) @ turn @ _beside_ones(into).to(turn).T))


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


def _beside_ones(size: int) -> Tensor:
    """An orthonormal basis [size, size - 1] of all that sums up to 0: the reflection of the first axis onto ones."""
    ones = torch.full((size,), 1 / math.sqrt(size), dtype=torch.float64)
    same = torch.eye(size, dtype=torch.float64)
    normal = ones + same[0]
    return (same - 2 * torch.outer(normal, normal) / (normal @ normal))[:, 1:]


def _at_centre(weight: Tensor, core: Tensor) -> None:
    nn.init.zeros_(weight)
    centre: list[int | EllipsisType] = [size // 2 for size in weight.shape[2:]]
    weight[(..., *centre)] = core.to(weight)
