"""Farkas layers (000, Algorithm 1): dense and convolutional layers of m units of which, at every input, one is active.

The extra unit is not summed from the outputs: its row is summed from the other rows, which is the same function, and
one ordinary product computes all m units. So nothing of the size of the activations is added, kept or copied.
"""

from __future__ import annotations

import math
from typing import Any, Unpack

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from ...errors import AliveError, expect
from ...functional.farkas import (
    Mixture,
    Rule,
    RuleOptions,
    aggregated,
    extended,
    lower_bound,
    tolerance,
)
from .plain import Guaranteed


class Farkas(Guaranteed):
    """What all Farkas layers have: m units, a bias [m], a mixture μ [m-1], and the place of the extra unit."""

    def __init__(self, units: int, *, place: int, bias: bool, like: dict[str, Any], rule: Rule) -> None:
        super().__init__()
        if not bias:
            raise AliveError(
                "a Farkas layer needs its bias: g/κ, the bound on the largest unit, is made of biases alone",
                "Leave bias out, or use the plain layer",
            )
        if units < 2:
            raise AliveError(
                f"a Farkas layer needs at least 2 units, got {units}: one unit has no others to balance",
                "Make the layer wider, or use the plain layer",
            )
        expect([(-1 <= place < units, f"place must be one of {units} units, got {place}")])
        self.units, self.rule = units, rule
        self.place = units - 1 if place == -1 else place
        self.placed = place != -1
        self.bias = nn.Parameter(torch.zeros(units, **like))
        self.theta: nn.Parameter | None
        learned = rule.aggregation in ("learned", "learned from mean")
        self.register_parameter("theta", nn.Parameter(torch.zeros(units - 1, **like)) if learned else None)
        self.start_mixture()
        self.fixed: Tensor | None
        given = rule.aggregation if isinstance(rule.aggregation, tuple) else None
        expect([(given is None or len(given) == units - 1, f"{units} units need a mixture of {units - 1} numbers")])
        self.register_buffer("fixed", None if given is None else torch.tensor(given, **like), persistent=False)

    @property
    def mu(self) -> Mixture:
        """μ: a number where all free units share one, else [m-1]."""
        return self.fixed if self.fixed is not None else self.rule.mixture(self.units - 1, self.theta)

    @torch.no_grad()
    def start_mixture(self) -> None:
        """Let a learned mixture start where it does: at the sum, or at the mean."""
        if self.theta is not None:
            nn.init.constant_(self.theta, -math.log(self.units - 1) if self.rule.aggregation != "learned" else 0.0)

    def guarantee(self) -> float:
        """g/κ: for every input, the largest of the m pre-activations is at least this, and some inputs attain it."""
        return lower_bound(self.bias, self.mu, self.rule)

    # Two conversions of one model may give up different units: a checkpoint must say which, or rows would be mixed up.
    # Layers whose extra unit is simply the last, as in the networks here, have nothing to say.
    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        if self.placed:
            destination[f"{prefix}place"] = torch.tensor(self.place)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        place = int(state_dict.pop(f"{prefix}place", self.place))
        expect([(0 <= place < self.units, f"{prefix}place must be one of {self.units} units, got {place}")])
        self.placed |= place != self.place
        self.place = place
        super()._load_from_state_dict(state_dict, prefix, *rest)

    def extra_repr(self) -> str:
        """Show the rule."""
        r = self.rule
        place = "" if self.place == self.units - 1 else f", place={self.place}"
        return f"aggregation={r.aggregation!r}, bias_mode={r.bias_mode!r}, floor={r.floor:g}{place}"


class Weighted(Farkas):
    """A Farkas layer with weights [m-1, ...] of its own."""

    weight: nn.Parameter

    @property
    def fan_in(self) -> int:
        """Weights a unit."""
        return self.weight[0].numel()

    @property
    def reads(self) -> int:
        """Inputs that the extra unit reads: those of all groups."""
        return self.fan_in

    def reset_parameters(self, generator: Generator | None = None) -> None:
        """Draw weights and all m biases uniform within 1/sqrt(fan_in), as torch does; a learned mixture starts anew."""
        bound = 1 / math.sqrt(self.fan_in)
        nn.init.uniform_(self.weight, -bound, bound, generator=generator)
        nn.init.uniform_(self.bias, -bound, bound, generator=generator)
        self.start_mixture()

    def zero_parameters(self) -> None:
        """Set weights and biases to zero, as for the last layer of a residual branch."""
        nn.init.zeros_(self.weight)
        nn.init.zeros_(self.bias)

    def tolerance(self, reach: float, *, dtype: torch.dtype | None = None) -> float:
        """What rounding can take from the guarantee at inputs with |x| ≤ reach; see `functional.farkas.tolerance`."""
        return tolerance(self.weight, self.bias, self.mu, reach, fan_in=self.reads, dtype=dtype)

    def rows(self) -> tuple[Tensor, Tensor]:
        """Weight [m, ...] and bias [m] with the extra unit's row among them."""
        return extended(self.weight, self.bias, self.mu, self.rule, self.place)


class FarkasLinear(Weighted):
    """A dense layer [..., in_features] to [..., out_features] with max_j z_j ≥ `guarantee()` at every input (000, 3.1).

    aggregation  "sum" (μ = 1), "mean" (μ = 1/(m-1)), any fixed μ > 0, a number or a tuple of m-1; "learned": μ = exp θ,
                 which starts at the sum, "learned from mean": at the mean
    bias_mode    "strict": at least cutoff + margin everywhere; "paper": Algorithm 1 to the letter, no margin;
                 "softplus": as strict, with a bias of the extra unit that always has a gradient
    cutoff       a number, or the activation that follows, by name, as a module or as a record
    margin       δ ≥ 0, by default 1e-3; what lies below `tolerance(reach)` is lost in rounding
    place        which unit is the extra one, by default the last

    Differs from the paper: the cutoff enters b_eff times κ (Corollary 3.3 fails for c > 0); a margin makes the theorem
    strict, for Algorithm 1 itself leaves the points with Wx + b = 0 dead.

    >>> layer = FarkasLinear(3, 5)
    >>> z = layer(torch.randn(100, 3))
    >>> bool((z.amax(1) >= 0.0009).all()), list(layer.weight.shape), list(layer.bias.shape)
    (True, [4, 3], [5])
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        *,
        bias: bool = True,
        place: int = -1,
        generator: Generator | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        **rule: Unpack[RuleOptions],
    ) -> None:
        like = {"device": device, "dtype": dtype}
        super().__init__(out_features, place=place, bias=bias, like=like, rule=Rule.of(**rule))
        expect([(in_features >= 1, f"in_features must be at least 1, got {in_features}")])
        self.in_features, self.out_features = in_features, out_features
        self.weight = nn.Parameter(torch.empty(out_features - 1, in_features, **like))  # type: ignore[arg-type]
        self.reset_parameters(generator)

    def forward(self, x: Tensor) -> Tensor:
        """Pre-activations [..., out_features]."""
        return F.linear(x, *self.rows())

    @torch.no_grad()
    def to_plain(self) -> nn.Linear:
        """Give the nn.Linear with the same outputs; the extra row is an ordinary row there, and trains as one."""
        plain = nn.utils.skip_init(
            nn.Linear, self.in_features, self.out_features, device=self.weight.device, dtype=self.weight.dtype
        )
        return filled(plain, self.rows(), self)  # type: ignore[no-any-return]

    def extra_repr(self) -> str:
        """Show sizes and rule."""
        return f"in_features={self.in_features}, out_features={self.out_features}, {super().extra_repr()}"


class FarkasAggregate(Farkas):
    """The extra unit alone: y [N, m-1, ...] to z [N, m, ...], whatever computed y.

    `dims` counts the axes of positions behind the units (0: y [..., m-1]). It allows batch norm before the activation:
    normalise the m-1 free units, then aggregate.

    >>> net = nn.Sequential(nn.Conv2d(3, 7, 3), nn.BatchNorm2d(7), FarkasAggregate(8, dims=2), nn.ReLU())
    >>> net(torch.randn(2, 3, 5, 5)).shape
    torch.Size([2, 8, 3, 3])
    """

    def __init__(
        self,
        units: int,
        *,
        dims: int = 0,
        place: int = -1,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        **rule: Unpack[RuleOptions],
    ) -> None:
        like = {"device": device, "dtype": dtype}
        super().__init__(units, place=place, bias=True, like=like, rule=Rule.of(**rule))
        expect([(0 <= dims <= 3, f"dims must be 0, 1, 2 or 3, got {dims}")])
        self.dims = dims

    def forward(self, y: Tensor) -> Tensor:
        """Put the extra unit among the others and add all biases."""
        return aggregated(y, self.bias, self.mu, self.rule, place=self.place, axis=y.ndim - 1 - self.dims)

    @torch.no_grad()
    def to_plain(self) -> nn.Module:
        """Give the nn.Linear, or convolution with kernel 1, with the same outputs."""
        free = torch.eye(self.units - 1, device=self.bias.device, dtype=self.bias.dtype)
        weight, bias = extended(free, self.bias, self.mu, self.rule, self.place)
        kind = PLAIN[self.dims]
        kernel = (1,) * bool(self.dims)
        plain = nn.utils.skip_init(
            kind, self.units - 1, self.units, *kernel, device=self.bias.device, dtype=self.bias.dtype
        )
        weight = weight.view(*weight.shape, *[1] * self.dims)
        return filled(plain, (weight, bias), self)  # type: ignore[no-any-return]

    def extra_repr(self) -> str:
        """Show sizes and rule."""
        return f"units={self.units}, dims={self.dims}, {super().extra_repr()}"


PLAIN: dict[int, type[nn.Linear | nn.Conv1d | nn.Conv2d | nn.Conv3d]] = {
    0: nn.Linear,
    1: nn.Conv1d,
    2: nn.Conv2d,
    3: nn.Conv3d,
}


def filled(plain: Any, rows: tuple[Tensor, Tensor], farkas: Farkas) -> Any:
    """Give a plain layer its rows, and the mode of the Farkas layer it stands for; what was frozen stays so."""
    plain.weight.copy_(rows[0])
    plain.bias.copy_(rows[1])
    rows_learn = farkas.weight if isinstance(farkas, Weighted) else farkas.bias
    plain.weight.requires_grad_(rows_learn.requires_grad)
    plain.bias.requires_grad_(farkas.bias.requires_grad)
    return plain.train(farkas.training)
