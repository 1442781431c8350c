"""Variable activation networks (002): blocks whose skip connections fade out while the network trains."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from ..errors import expect, near

ALPHAS = ("channel", "scalar", "neuron")
FORMULATIONS = ("residual", "convex", "half")


class Gate(nn.Module):
    """Where a branch f and a skip s meet: f + (1-α) s (eq 4), or α f + (1-α) s (`convex`, eq 9).

    α [shape] is a parameter that starts at 0. Its Lagrange multiplier λ, the velocity of its step and the number of
    steps made are buffers, so that a checkpoint of the model is a checkpoint of the phase-out. The shape lies on
    `axis` and those after it: (C,) for channels, (C, H, W) for neurons, () for one number. `rank` is the place of the
    gate in an order of phasing out. In half precision α and λ stay in single: their steps would be rounded away.

    >>> gate = Gate((3,))
    >>> bool((gate(torch.ones(2, 3), torch.ones(2, 3)) == 2).all()), gate.residual()
    (True, 1.0)
    """

    alpha: nn.Parameter
    multiplier: Tensor
    velocity: Tensor
    steps: Tensor

    def __init__(
        self, shape: Sequence[int] = (), *, formulation: str = "residual", axis: int = 1, rank: int = 0
    ) -> None:
        super().__init__()
        _expect_known("formulation", formulation, FORMULATIONS[:2])
        self.formulation, self.axis, self.rank = formulation, axis, rank
        self.resize_(shape)

    def resize_(self, shape: Sequence[int]) -> None:
        """Start again with α = 0 of another shape."""
        wide = torch.promote_types(torch.get_default_dtype(), torch.float32)
        self.alpha = nn.Parameter(torch.zeros(tuple(shape), dtype=wide))
        self.register_buffer("multiplier", torch.full(tuple(shape), -1.0, dtype=wide))
        self.register_buffer("velocity", torch.zeros(tuple(shape), dtype=wide))
        self.register_buffer("steps", torch.zeros((), dtype=torch.long))

    def forward(self, f: Tensor, s: Tensor) -> Tensor:
        """Join branch and skip, both [N, C, ...]."""
        if self.formulation == "convex":
            f = self._over(self.alpha, f) * f
        return f + self.kept(s)

    def kept(self, s: Tensor) -> Tensor:
        """What is left of the skip: (1-α) s."""
        return self._over(1 - self.alpha, s) * s

    def residual(self) -> float:
        """Mean of (1-α)² over the entries: 0 once the skip is gone."""
        return float((1 - self.alpha.detach()).square().mean())

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Gate:
        """Follow the model to another device or to double, never to half precision."""

        def wide(value: Tensor) -> Tensor:
            moved = fn(value)
            short = moved.is_floating_point() and moved.dtype.itemsize < torch.float32.itemsize
            return value.to(moved.device) if short else moved

        return super()._apply(wide, recurse)  # type: ignore[no-any-return]

    def _over(self, value: Tensor, x: Tensor) -> Tensor:
        """The value laid along the axes of x, in its precision."""
        value = value.to(x.dtype)
        behind = x.dim() - self.axis % x.dim() - value.dim()
        return value.reshape(*value.shape, *(1,) * behind) if value.dim() and behind else value

    def extra_repr(self) -> str:
        """Show the shape and the formula."""
        return f"{tuple(self.alpha.shape)}, {self.formulation}"


class Half(nn.Module):
    """Branch and skip at half strength (eq 10); nothing is learned here and nothing fades.

    >>> Half()(torch.tensor(2.0), torch.tensor(4.0))
    tensor(3.)
    """

    def forward(self, f: Tensor, s: Tensor) -> Tensor:
        """Join branch and skip."""
        return 0.5 * f + 0.5 * s


class VANBlock(nn.Module):
    """A residual block with a gate on its skip: F(x) + (1-α) S(x).

    branch, skip   any modules; skip None is the identity
    channels       entries of α: the units of the block's output
    alpha          channel | scalar | neuron (one for each unit and position; needs `size`, the shape behind C)
    formulation    residual (eq 4) | convex (eq 9) | half (eq 10, no gate)

    >>> block = VANBlock(dense_branch(50), channels=50)
    >>> block(torch.randn(8, 50)).shape, block.gate
    (torch.Size([8, 50]), Gate((50,), residual))
    """

    def __init__(
        self,
        branch: nn.Module,
        skip: nn.Module | None = None,
        *,
        channels: int,
        alpha: str = "channel",
        formulation: str = "residual",
        size: Sequence[int] = (),
    ) -> None:
        super().__init__()
        _expect_known("formulation", formulation, FORMULATIONS)
        _expect_known("alpha", alpha, ALPHAS)
        expect([(alpha == "neuron" or not size, f"size belongs to alpha='neuron', not to {alpha!r}")])
        self.branch = branch
        self.skip = nn.Identity() if skip is None else skip
        shape = () if alpha == "scalar" else (channels, *size)
        self.gate = Half() if formulation == "half" else Gate(shape, formulation=formulation)

    def forward(self, x: Tensor) -> Tensor:
        """Map [N, C, ...] through branch and skip to their gated sum."""
        return self.gate(self.branch(x), self.skip(x))  # type: ignore[no-any-return]


def dense_branch(width: int) -> nn.Sequential:
    """F of a dense block (002, 4.1): batch norm, ReLU, linear.

    >>> [type(part).__name__ for part in dense_branch(50)]
    ['BatchNorm1d', 'ReLU', 'Linear']
    """
    return nn.Sequential(nn.BatchNorm1d(width), nn.ReLU(), nn.Linear(width, width))


def _expect_known(what: str, got: str, known: Sequence[str]) -> None:
    expect([(got in known, f"unknown {what} {got!r}: {near(got, known)}")])
