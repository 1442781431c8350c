"""The Farkas bound on tensors: it holds for any free units, it is tight, and the printed statements fail."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from alive.errors import AliveError
from alive.functional.activations import Activation, relu6
from alive.functional.farkas import (
    AGGREGATIONS,
    BIAS_MODES,
    Rule,
    aggregated,
    cutoff_of,
    effective_bias,
    extended,
    kappa,
    lower_bound,
    mixed,
)


def made(
    aggregation: str, mode: str, units: int, seed: int, cutoff: float = 0.0
) -> tuple[Rule, Tensor, float | Tensor]:
    """A rule, a bias [m] and a mixture, in double precision."""
    chance = torch.Generator().manual_seed(seed)
    rule = Rule.of(aggregation, mode, cutoff if mode != "paper" else 0.0)
    bias = torch.randn(units, generator=chance, dtype=torch.float64) * 3
    theta = torch.randn(units - 1, generator=chance, dtype=torch.float64) if aggregation == "learned" else None
    return rule, bias, rule.mixture(units - 1, theta)


@pytest.mark.law
@settings(max_examples=150, deadline=None)
@given(
    aggregation=st.sampled_from(AGGREGATIONS),
    mode=st.sampled_from(BIAS_MODES),
    units=st.integers(2, 9),
    seed=st.integers(0, 10**6),
    scale=st.sampled_from([0.0, 1e-30, 1e-3, 1.0, 1e6]),
    cutoff=st.floats(-3, 3),
)
def test_the_bound_holds_for_any_free_units(aggregation, mode, units, seed, scale, cutoff):
    rule, bias, mu = made(aggregation, mode, units, seed, cutoff)
    y = torch.randn(200, units - 1, dtype=torch.float64, generator=torch.Generator().manual_seed(seed + 1)) * scale
    z = aggregated(y, bias, mu, rule, place=seed % units)
    bound = lower_bound(bias, mu, rule)
    noise = 1e-13 * (scale + 10) * units
    assert bound >= rule.floor - 1e-12
    assert (z.amax(1) >= bound - noise).all()


@pytest.mark.law
@pytest.mark.parametrize("aggregation", AGGREGATIONS)
@pytest.mark.parametrize("mode", BIAS_MODES)
def test_the_bound_is_attained_where_all_units_are_equal(aggregation, mode):
    rule, bias, mu = made(aggregation, mode, 6, 3)
    bound = lower_bound(bias, mu, rule)
    z = aggregated((bound - bias[:-1])[None], bias, mu, rule, place=5)
    torch.testing.assert_close(z, torch.full_like(z, bound))


@pytest.mark.law
@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_algorithm_1_sums_to_zero_in_its_equality_branch_and_leaves_a_dead_set(aggregation):
    rule, bias, mu = made(aggregation, "paper", 5, 0)
    bias[-1] = -1000
    y = torch.randn(500, 4, dtype=torch.float64)
    z = aggregated(y, bias, mu, rule, place=4)
    weights = torch.ones(4, dtype=torch.float64) * mu
    assert ((z[:, :-1] @ weights + z[:, -1]).abs() < 1e-11).all()
    assert ((z > 0).any(1) & (z < 0).any(1)).all(), "off the dead set some unit is on and some is off"
    dead = aggregated(-bias[None, :-1], bias, mu, rule, place=4)
    assert dead.amax() <= 1e-12, "on Wx + b = 0 every unit is at zero"
    assert lower_bound(bias, mu, rule) == pytest.approx(0, abs=1e-12)


def test_all_dead_where_weights_and_biases_are_zero_in_paper_mode_alone():
    y, bias = torch.zeros(3, 4), torch.zeros(5)
    assert aggregated(y, bias, 1.0, Rule.of(bias_mode="paper"), place=4).amax() == 0
    assert aggregated(y, bias, 1.0, Rule.of(bias_mode="strict"), place=4).amax() > 0


def test_the_printed_corollary_fails_for_a_positive_cutoff_and_ours_does_not():
    """m = 2, c = 1, b = (0, 1.5), wx = .75: the printed condition b_m > c - b_1 holds, and yet no unit passes c."""
    y, bias = torch.tensor([[0.75]]), torch.tensor([0.0, 1.5])
    assert bias[1] > 1 - bias[0]
    printed = torch.cat([y, -y], 1) + bias
    assert printed.amax() <= 1
    ours = aggregated(y, bias, 1.0, Rule.of(cutoff=1.0), place=1)
    assert ours.amax() > 1


def test_the_printed_corollary_fails_often_and_ours_never():
    y = torch.randn(20000, 3, dtype=torch.float64) * 2
    bias = torch.randn(4, dtype=torch.float64)
    for c in (0.5, 1.0):
        least = c - bias[:-1].sum() + 1e-3
        printed = torch.cat([y + bias[:-1], -y.sum(1, keepdim=True) + least], 1)
        assert (printed.amax(1) <= c).sum() > 20
        ours = aggregated(y, bias, 1.0, Rule.of(cutoff=c), place=3)
        assert (ours.amax(1) > c).all()


def test_the_printed_algorithm_2_leaves_points_dead_and_the_corrected_one_none():
    """Printed: cat(y, -Agg(x + y)); corrected: cat(x + y, -Agg(x + y))."""
    x, y = torch.randn(20000, 4).relu(), torch.randn(20000, 4)
    extra = -(x + y).sum(1, keepdim=True)
    bias = torch.zeros(5)
    printed = torch.cat([y, extra], 1) + bias
    assert (printed.amax(1) <= 0).float().mean() > 0.01
    corrected = aggregated(x + y, bias, 1.0, Rule.of(bias_mode="paper"), place=4)
    assert (corrected.amax(1) > 0).all()


def test_the_extra_bias_trains_only_where_it_is_above_the_least_and_always_with_softplus():
    def gradient(mode: str, own: float) -> float:
        bias = torch.tensor([1.0, 2.0, own], requires_grad=True)
        effective_bias(bias, 1.0, Rule.of(bias_mode=mode)).sum().backward()
        return float(bias.grad[-1])

    assert gradient("paper", -4.0) == 0
    assert gradient("strict", -4.0) == 0
    assert gradient("paper", 4.0) == 1
    assert gradient("softplus", -4.0) == pytest.approx(1 / (1 + math.exp(4)), rel=1e-5)


def test_the_mean_is_not_the_uniform_mixture():
    """λ is 1/(2(m-1)) for the free units and 1/2 for the extra one; the uniform λ is the sum."""
    rule = Rule.of("mean")
    assert kappa(rule.mixture(4, None), 4) == 2
    assert kappa(Rule.of("sum").mixture(4, None), 4) == 5


@pytest.mark.parametrize("place", [0, 2, 4])
@pytest.mark.twin
def test_rows_summed_in_the_weights_equal_units_summed_in_the_outputs(place):
    for aggregation in AGGREGATIONS:
        rule, bias, mu = made(aggregation, "strict", 5, 1)
        weight, x = torch.randn(4, 3, dtype=torch.float64), torch.randn(7, 3, dtype=torch.float64)
        slow = aggregated(x @ weight.T, bias, mu, rule, place=place)
        torch.testing.assert_close(F.linear(x, *extended(weight, bias, mu, rule, place)), slow)


def test_half_precision_is_mixed_in_single():
    values = torch.full((1000, 1), 1.001, dtype=torch.bfloat16)
    assert mixed(values, 1.0).dtype == torch.float32
    assert float(mixed(values, torch.ones(1000))) == pytest.approx(1000 * float(values[0]), rel=1e-6)


@pytest.mark.parametrize(
    ("activation", "slope", "cutoff"),
    [
        (nn.ReLU(), None, 0.0),
        (nn.LeakyReLU(), None, 0.0),
        (nn.GELU(), None, 0.0),
        (nn.SiLU(), None, 0.0),
        (nn.ELU(2.0), 0.1, math.log(0.05)),
        (nn.SELU(), 0.1, None),
        (nn.Softplus(), 0.1, math.log(1 / 9)),
        ("elu", None, math.log(0.1)),
        (Activation("mine", cutoff=0.3), None, 0.3),
        (0.7, None, 0.7),
    ],
)
def test_cutoffs(activation, slope, cutoff):
    c = cutoff_of(activation)
    if cutoff is not None:
        assert c == pytest.approx(cutoff)
    if slope is not None:  # what the cutoff means: the slope falls to the tolerance there
        z = torch.tensor(c, dtype=torch.float64, requires_grad=True)
        activation(z).backward()
        assert float(z.grad) == pytest.approx(slope, rel=1e-6)


@pytest.mark.parametrize("two_sided", [nn.Tanh(), nn.Sigmoid(), nn.Hardtanh(), nn.ReLU6(), "tanh", "sigmoid", relu6()])
def test_two_sided_activations_are_refused(two_sided):
    with pytest.raises(AliveError, match="saturates on both sides"):
        cutoff_of(two_sided)


def test_faults_of_a_rule_are_told_together():
    with pytest.raises(AliveError, match=r"did you mean 'sum'.*did you mean 'strict'.*margin must be at least 0"):
        Rule("summ", "strickt", 0.0, -1.0)
    with pytest.raises(AliveError, match=r"no cutoff is known for the activation 'rely'.*did you mean 'relu'"):
        cutoff_of("rely")
    with pytest.raises(AliveError, match="'paper' has cutoff 0 and margin 0"):
        Rule.of(bias_mode="paper", cutoff="elu")
    with pytest.raises(AliveError, match="cutoff must be finite"):
        Rule.of(cutoff=math.inf)
