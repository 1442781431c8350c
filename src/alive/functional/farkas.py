"""Farkas aggregation (000): one unit that is minus a mixture of all others, so that never all are silent.

With λ = (μ_1 .. μ_{m-1}, 1), whatever the free units y_j are: Σ λ_j z_j = Σ μ_j b_j + b_eff = g, for every input. A
weighted mean never exceeds the largest term, so max_j z_j ≥ g/κ with κ = 1 + Σ μ_j. Nothing else is used, and equal
z's attain it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypedDict

import torch
from torch import Tensor, nn

from ..errors import AliveError, expect, near
from .activations import Activation, celu, elu, selu, softplus

AGGREGATIONS = ("sum", "mean", "learned", "learned from mean")
BIAS_MODES = ("paper", "strict", "softplus")
MARGIN = 1e-3  # the default of every mode but `paper`, which has none

Cutoff = float | str | Activation | nn.Module
Mixture = float | Tensor  # μ: one number for all free units, or a number each [m-1]

ONE_SIDED: dict[str, Activation] = {
    **{
        name: Activation(name) for name in ("relu", "leaky_relu", "prelu", "rrelu", "gelu", "silu", "mish", "hardswish")
    },
    "elu": elu(),
    "celu": celu(),
    "selu": selu(),
    "softplus": softplus(),
}
_MODULES: dict[type[nn.Module], str] = {
    nn.ReLU: "relu",
    nn.LeakyReLU: "leaky_relu",
    nn.PReLU: "prelu",
    nn.RReLU: "rrelu",
    nn.GELU: "gelu",
    nn.SiLU: "silu",
    nn.Mish: "mish",
    nn.Hardswish: "hardswish",
    nn.SELU: "selu",
}
TWO_SIDED = ("tanh", "sigmoid", "hardtanh", "hardsigmoid", "relu6", "softsign", "logsigmoid", "tanhshrink")


class RuleOptions(TypedDict, total=False):
    """What every Farkas layer, block and network takes by keyword; see `Rule.of`."""

    aggregation: str | float | tuple[float, ...]
    bias_mode: str
    cutoff: Cutoff
    margin: float | None


@dataclass(frozen=True, slots=True)
class Rule:
    """How the extra unit is made: its mixture, its bias, and the floor cutoff + margin below which g/κ never falls."""

    aggregation: str | float | tuple[float, ...] = "sum"
    bias_mode: str = "strict"
    cutoff: float = 0.0
    margin: float = MARGIN

    @classmethod
    def of(
        cls,
        aggregation: str | float | tuple[float, ...] = "sum",
        bias_mode: str = "strict",
        cutoff: Cutoff = 0.0,
        margin: float | None = None,
    ) -> Rule:
        """Read the options of a layer; the cutoff is a number, or the activation that follows.

        >>> Rule.of("mean", cutoff="elu")
        Rule(aggregation='mean', bias_mode='strict', cutoff=-2.3025850929940455, margin=0.001)
        """
        if margin is None:
            margin = 0.0 if bias_mode == "paper" else MARGIN
        return cls(aggregation, bias_mode, cutoff_of(cutoff), margin)

    def __post_init__(self) -> None:
        bare = self.cutoff == 0 and self.margin == 0
        expect(
            [
                (
                    not isinstance(self.aggregation, str) or self.aggregation in AGGREGATIONS,
                    f"unknown aggregation {self.aggregation!r}: {near(str(self.aggregation), AGGREGATIONS)}",
                ),
                (
                    isinstance(self.aggregation, str) or _all_positive(self.aggregation),
                    f"a fixed mixture is a number above 0 or one for each free unit, got {self.aggregation!r}",
                ),
                (
                    self.bias_mode in BIAS_MODES,
                    f"unknown bias_mode {self.bias_mode!r}: {near(self.bias_mode, BIAS_MODES)}",
                ),
                (math.isfinite(self.cutoff), f"the cutoff must be finite, got {self.cutoff}"),
                (
                    math.isfinite(self.margin) and self.margin >= 0,
                    f"the margin must be at least 0, got {self.margin}: below the cutoff every unit may be off",
                ),
                (
                    self.bias_mode != "paper" or bare,
                    f"bias_mode 'paper' has cutoff 0 and margin 0, got {self.cutoff} and {self.margin}: "
                    "take 'strict' for any other",
                ),
            ]
        )

    @property
    def floor(self) -> float:
        """The least that g/κ can be, whatever the biases: cutoff + margin."""
        return self.cutoff + self.margin

    def mixture(self, free: int, theta: Tensor | None) -> Mixture:
        """μ for so many free units: 1 (sum), 1/free (mean), the number given, exp(θ) (learned, at θ = 0 the sum)."""
        if theta is not None:
            return theta.exp()
        if isinstance(self.aggregation, int | float):
            return float(self.aggregation)
        return 1.0 if self.aggregation == "sum" else 1 / free


def _all_positive(mixture: object) -> bool:
    each = mixture if isinstance(mixture, tuple) and mixture else (mixture,)
    return all(isinstance(mu, int | float) and 0 < mu < math.inf for mu in each)


def cutoff_of(activation: Cutoff) -> float:
    """The cutoff c of an activation: at or below it the activation passes nothing, or less than a slope of 0.1.

    >>> cutoff_of(nn.ReLU()), round(cutoff_of(nn.Softplus()), 3)
    (0.0, -2.197)
    """
    if isinstance(activation, int | float):
        return float(activation)
    one_sided = _one_sided(activation)
    if one_sided is not None and math.isinf(one_sided.ceiling):
        return one_sided.cutoff
    name = activation if isinstance(activation, str) else getattr(activation, "name", type(activation).__name__)
    if one_sided is not None or name.lower() in TWO_SIDED:
        raise AliveError(
            f"{name} saturates on both sides: a unit pushed above its cutoff may be silent at its ceiling",
            "Farkas layers need an activation that stays open above, such as ReLU",
        )
    raise AliveError(
        f"no cutoff is known for the activation {name!r}", f"Give the cutoff as a number; {near(name, ONE_SIDED)}"
    )


def _one_sided(activation: str | Activation | nn.Module) -> Activation | None:
    if isinstance(activation, Activation):
        return activation
    if isinstance(activation, str):
        return ONE_SIDED.get(activation)
    if isinstance(activation, nn.ELU):
        return elu(activation.alpha)
    if isinstance(activation, nn.CELU):
        return celu(activation.alpha)
    if isinstance(activation, nn.Softplus):
        return softplus(activation.beta)
    return next((ONE_SIDED[name] for kind, name in _MODULES.items() if isinstance(activation, kind)), None)


def mixed(values: Tensor, mu: Mixture) -> Tensor:
    """Σ_j μ_j v_j over the first axis, kept as an axis of one; at least in float32, be the values shorter.

    >>> mixed(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), 0.5)
    tensor([[2., 3.]])
    """
    # Products and sums only: autocast would carry out a matrix product in half precision.
    wide = values.to(torch.promote_types(values.dtype, torch.float32))
    if isinstance(mu, Tensor):
        return (mu.to(wide.dtype).view(-1, *[1] * (values.ndim - 1)) * wide).sum(0, keepdim=True)
    total = wide.sum(0, keepdim=True)
    return total if mu == 1 else mu * total


def kappa(mu: Mixture, free: int) -> Mixture:
    """κ = 1 + Σ μ_j."""
    return 1 + (mu.sum() if isinstance(mu, Tensor) else mu * free)


def effective_bias(bias: Tensor, mu: Mixture, rule: Rule) -> Tensor:
    """b_eff [1] of the extra unit, from bias [m] whose last entry is its own.

    max(-Σ μ_j b_j + (c+δ)κ, b_m), or -Σ μ_j b_j + (c+δ)κ + softplus(b_m), in which b_m always has a gradient.

    Differs from the paper: Corollary 3.3 has c in the place of cκ, which fails for c > 0.

    >>> effective_bias(torch.tensor([1.0, 2.0, 0.0]), 1.0, Rule.of(bias_mode="paper"))
    tensor([0.])
    """
    free, own = bias[:-1], bias[-1:]
    least = rule.floor * kappa(mu, len(free)) - mixed(free, mu)
    if rule.bias_mode == "softplus":
        return least + torch.logaddexp(own, torch.zeros_like(own))  # not F.softplus, which is an activation to taps
    return torch.maximum(least, own)


def inserted(free: Tensor, extra: Tensor, place: int, axis: int = 0) -> Tensor:
    """The free units with the extra one at its place; the place of the last is the number of free ones."""
    if place == free.shape[axis]:
        return torch.cat([free, extra.to(free.dtype)], axis)
    after = free.shape[axis] - place
    return torch.cat([free.narrow(axis, 0, place), extra.to(free.dtype), free.narrow(axis, place, after)], axis)


def extended(weight: Tensor, bias: Tensor, mu: Mixture, rule: Rule, place: int) -> tuple[Tensor, Tensor]:
    """Weight [m, ...] and bias [m] of the plain layer, from weight [m-1, ...] and bias [m] of the Farkas layer.

    >>> weight, bias = torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.zeros(3)
    >>> extended(weight, bias, 1.0, Rule.of(bias_mode="paper"), 2)[0][2]
    tensor([-4., -6.])
    """
    rows = inserted(weight, -mixed(weight, mu), place)
    return rows, inserted(bias[:-1], effective_bias(bias, mu, rule), place)


def aggregated(y: Tensor, bias: Tensor, mu: Mixture, rule: Rule, *, place: int, axis: int = 1) -> Tensor:
    """z with m units on `axis`, from any y with m-1: Algorithm 1 to the letter, with the chosen b_eff.

    >>> y = torch.tensor([[1.0, -3.0]])
    >>> aggregated(y, torch.zeros(3), 1.0, Rule.of(bias_mode="paper"), place=2)
    tensor([[ 1., -3.,  2.]])
    """
    shape = [-1] + [1] * (y.ndim - 1 - axis % y.ndim)
    z = joined(y, mu, place=place, axis=axis)
    return z + inserted(bias[:-1], effective_bias(bias, mu, rule), place).view(shape)


def joined(y: Tensor, mu: Mixture, *, place: int, axis: int = 1) -> Tensor:
    """cat(y, -Σ μ_j y_j): the part of a Farkas layer that depends on the input."""
    if isinstance(mu, Tensor):
        extra = mixed(y.movedim(axis, 0), mu).movedim(0, axis)
    else:
        extra = mu * y.sum(axis, keepdim=True, dtype=torch.promote_types(y.dtype, torch.float32))
    return inserted(y, -extra, place, axis)


def lower_bound(bias: Tensor, mu: Mixture, rule: Rule) -> float:
    """g/κ of the biases as they stand, in double precision from the b_eff that the layer really adds.

    >>> lower_bound(torch.tensor([5.0, -7.0, 100.0]), 1.0, Rule.of())
    32.666666666666664
    """
    with torch.no_grad():
        b_eff = effective_bias(bias, mu, rule).to(bias.dtype).double()
        wide = mu.double() if isinstance(mu, Tensor) else mu
        g = mixed(bias[:-1].double(), wide) + b_eff
        return float(g / kappa(wide, len(bias) - 1))


def tolerance(
    weight: Tensor, bias: Tensor, mu: Mixture, reach: float, *, fan_in: int, dtype: torch.dtype | None = None
) -> float:
    """How far below g/κ rounding can bring max_j z_j for inputs with |x| ≤ reach: a worst case, never exceeded.

    Each z_j is a sum of fan_in + 1 rounded products, the extra row a sum of m-1 rounded rows; the errors are weighted
    as in Σ λ_j z_j / κ. `dtype` is what weights, inputs and outputs are rounded to, as under autocast. What was seen is
    far less: with m = 512, fan_in 256, |z| about 800 in float32 5e-5 (sum) and 2e-5 (mean), where this says 12 and 6.
    """
    with torch.no_grad():
        wide = mu.double() if isinstance(mu, Tensor) else mu
        rows = weight.double().abs().flatten(1).sum(1)
        size = 2 * reach * mixed(rows, wide) + mixed(bias[:-1].double().abs(), wide) + bias[-1].double().abs()
        size = 2 * size / kappa(wide, len(rows))
        inner = torch.finfo(torch.promote_types(weight.dtype, torch.float32)).eps / 2
        outer = torch.finfo(dtype or weight.dtype).eps / 2
        return float(size * (inner * (fan_in + len(bias)) + 3 * outer))
