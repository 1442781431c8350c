"""Separation slacks against numbers worked out by hand, and against the theorems of the paper."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from alive.errors import AliveError
from alive.functional import AGGREGATES, Separation, aggregate, slacks
from alive.functional.extremes import canonical
from alive.functional.separation import grouped_slacks, means

Z = torch.tensor([[2.0, 0.5, -4.0], [-3.0, 0.25, -0.5]])  # two points, three units
# By hand. Units: max (2, .5, -.5), min (-3, .25, -4). Points: max (2, .25), min (-4, -3).


def of(z: Tensor, **rule) -> dict[str, list[float]]:
    return {axis: s.tolist() for axis, s in slacks(z, Separation(**rule)).items()}


def test_dense_slacks_equal_the_hand_computed() -> None:
    assert of(Z) == {"U": [0.0, (0.5 + 1.25) / 2, 1.5 / 2], "P": [0.0, 0.75 / 2]}
    assert of(Z, mode="U") == {"U": [0.0, 0.875, 0.75]}
    assert of(Z, mode="P") == {"P": [0.0, 0.375]}


def test_the_layer_as_a_whole_is_one_term() -> None:
    assert of(Z, mode="L") == {"L": [0.0]}
    assert of(Z / 8, mode="L") == {"L": [(0.75 + 0.5) / 2]}


def test_one_sided_slacks_see_one_side_only() -> None:
    assert of(Z, against="death") == {"U": [0.0, 0.5, 1.5], "P": [0.0, 0.75]}
    assert of(Z, against="linearity") == {"U": [0.0, 1.25, 0.0], "P": [0.0, 0.0]}


def test_margins_balance_and_cutoff_enter_as_in_the_formula() -> None:
    assert of(Z, mode="U", pos_margin=3.0, neg_margin=0.0) == {"U": [0.5, (2.5 + 0.25) / 2, 3.5 / 2]}
    assert of(Z, mode="U", balance=0.75) == {"U": [0.0, 0.75 * 0.5 + 0.25 * 1.25, 0.75 * 1.5]}
    shifted = slacks(Z + 0.5, Separation(), cutoff=0.5)
    assert {axis: s.tolist() for axis, s in shifted.items()} == of(Z)


MAP = torch.tensor([[[[2.0, -2.0]], [[0.5, 0.0]]], [[[0.0, 0.5]], [[0.25, -0.5]]]])  # [N=2, C=2, H=1, W=2]


def test_conv_by_channel_takes_extremes_over_positions_too() -> None:
    assert of(MAP) == {"U": [0.0, (0.5 + 0.5) / 2], "P": [0.0, (0.5 + 0.5) / 2]}


def test_conv_by_position_has_a_slack_for_each_position() -> None:
    found = of(MAP, conv="position")
    # unit 0: positions (2, 0) and (-2, .5); unit 1: (.5, .25) and (0, -.5)
    assert found["U"] == [(0 + 1) / 2, (0.5 + 0) / 2, (0.5 + 1.25) / 2, (1 + 0.5) / 2]
    # point 0: (2, .5) and (-2, 0); point 1: (0, .25) and (.5, -.5)
    assert found["P"] == [(0 + 1.5) / 2, (1 + 0) / 2, (0.75 + 1) / 2, (0.5 + 0.5) / 2]


@pytest.mark.law
def test_term_counts_are_those_of_the_two_codes() -> None:
    z = torch.randn(5, 3, 4, 7)
    by_channel, by_position = slacks(z, Separation()), slacks(z, Separation(conv="position"))
    assert (len(by_channel["U"]), len(by_channel["P"])) == (3, 5)
    assert (len(by_position["U"]), len(by_position["P"])) == (3 * 4 * 7, 5 * 4 * 7)


@pytest.mark.law
def test_violation_is_punished_and_satisfaction_is_free() -> None:
    """The printed equations 10 and 12, max{0, −1−min}, have it the other way round."""
    separated, dead, linear = torch.tensor([[2.0], [-2.0]]), torch.full((2, 1), -2.0), torch.full((2, 1), 2.0)
    printed = torch.relu(-1 - separated.amin(0)), torch.relu(-1 - linear.amin(0))
    assert (printed[0] > 0).all()
    assert (printed[1] == 0).all()
    assert of(separated, mode="U") == {"U": [0.0]}
    assert of(dead, mode="U") == {"U": [1.5]}
    assert of(linear, mode="U") == {"U": [1.5]}
    assert of(dead, mode="U", against="linearity") == {"U": [0.0]}
    assert of(linear, mode="U", against="death") == {"U": [0.0]}


def _one_unit(against: str) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    x = torch.randn(9, 4, dtype=torch.float64)
    w = (0.1 * torch.randn(1, 4, dtype=torch.float64)).requires_grad_()
    b = torch.zeros(1, dtype=torch.float64, requires_grad=True)
    z = torch.nn.functional.linear(x, w, b)
    slacks(z, Separation(mode="U", against=against))["U"].sum().backward()
    return x, z.detach()[:, 0], w.grad[0], b.grad


@pytest.mark.law
def test_gradients_of_the_negative_slack_are_equations_35_to_38() -> None:
    x, z, w_grad, b_grad = _one_unit("linearity")
    lowest = z.argmin()
    assert z[lowest] > -1
    assert torch.equal(w_grad, x[lowest])
    assert b_grad.item() == 1.0


@pytest.mark.law
def test_gradients_of_the_positive_slack_are_equations_39_to_42() -> None:
    x, z, w_grad, b_grad = _one_unit("death")
    highest = z.argmax()
    assert z[highest] < 1
    assert torch.equal(w_grad, -x[highest])
    assert b_grad.item() == -1.0


@pytest.mark.law
def test_a_satisfied_slack_has_no_gradient() -> None:
    z = torch.tensor([[5.0], [-5.0]], requires_grad=True)
    slacks(z, Separation(mode="U"))["U"].sum().backward()
    assert z.grad is not None
    assert not z.grad.any()


@pytest.mark.law
@pytest.mark.parametrize(("balance", "moves"), [(0.5, False), (0.51, True)])
def test_bias_has_no_gradient_at_balance_one_half_while_both_slacks_are_active(balance: float, moves: bool) -> None:
    bias = torch.zeros(3, requires_grad=True)
    z = 0.1 * torch.randn(8, 3) + bias
    slacks(z, Separation(mode="U", balance=balance))["U"].sum().backward()
    assert bool(bias.grad.abs().max() > 1e-6) == moves


@pytest.mark.law
@given(st.floats(-0.9, 0.9), st.floats(-0.9, 0.9))
def test_while_both_are_active_the_slack_is_one_less_half_the_spread(a: float, b: float) -> None:
    z = torch.tensor([[a], [b]], dtype=torch.float64)
    assert slacks(z, Separation(mode="U"))["U"].item() == pytest.approx(1 - abs(a - b) / 2)


@pytest.mark.law
def test_an_axis_over_one_value_is_skipped_since_nothing_could_satisfy_it() -> None:
    assert list(slacks(torch.randn(1, 4), Separation())) == ["P"]
    assert list(slacks(torch.randn(4, 1), Separation())) == ["U"]
    assert list(slacks(torch.randn(1, 1), Separation())) == []
    assert list(slacks(torch.randn(1, 1), Separation(mode="L"))) == []
    assert list(slacks(torch.randn(1, 1, 2, 1), Separation())) == ["U", "P"]
    assert list(slacks(torch.randn(1, 4, 2, 2), Separation(conv="position"))) == ["P"]
    assert list(slacks(torch.randn(4), Separation())) == ["P"]  # a lone vector is one point


@pytest.mark.law
@pytest.mark.parametrize(("ties", "expected"), [("split", [-0.25, -0.25]), ("single", [-0.5, 0.0])])
def test_ties_share_the_gradient_or_give_it_to_the_first(ties: str, expected: list[float]) -> None:
    z = torch.tensor([[0.5], [0.5], [-9.0]], requires_grad=True)
    slacks(z, Separation(mode="U", ties=ties))["U"].sum().backward()
    assert z.grad[:, 0].tolist() == [*expected, 0.0]


def test_axes_say_where_units_and_points_lie() -> None:
    z = torch.randn(5, 3, 4, 2)
    expected = slacks(z, Separation())
    for moved, where in (
        (z.movedim(1, -1), {"unit_axis": -1}),
        (z.movedim(0, 1), {"unit_axis": 0, "point_axis": 1}),
        (z.permute(2, 0, 3, 1), {"unit_axis": 3, "point_axis": 1}),
    ):
        found = slacks(moved, Separation(), **where)
        assert all(torch.equal(found[axis], expected[axis]) for axis in expected)


def test_where_units_and_points_claim_one_axis_the_units_keep_it() -> None:
    z = torch.randn(5, 3)
    assert canonical(z, unit_axis=-1, point_axis=1).shape == (5, 3)


def test_where_both_claim_the_first_axis_z_is_one_point() -> None:
    z = torch.randn(4, 5, 6)  # [C, H, W]
    assert torch.equal(canonical(z, unit_axis=0), z[None])
    assert torch.equal(canonical(z, unit_axis=-3), z[None])


def test_a_nested_tensor_is_refused() -> None:
    z = torch.nested.nested_tensor([torch.zeros(2, 3), torch.zeros(4, 3)], layout=torch.jagged)
    with pytest.raises(AliveError, match="nested tensor, whose points differ in size"):
        slacks(z, Separation(), unit_axis=-1)


def test_low_precision_is_measured_in_float32() -> None:
    for dtype in (torch.bfloat16, torch.float16):
        assert slacks(Z.to(dtype), Separation())["U"].dtype == torch.float32
    assert slacks(Z.double(), Separation())["U"].dtype == torch.float64


LAYERS = [
    {"U": torch.tensor([1.0, 2.0]), "P": torch.tensor([4.0])},
    {"U": torch.tensor([3.0]), "P": torch.tensor([0.0])},
]


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("meansq", (2.5 + 9) / 2 + (16 + 0) / 2),
        ("sumsq", 30.0),
        ("sum", 10.0),
        ("norm", math.sqrt(30)),
        ("mean", 2.0),
        ("balanced", 6 / 3 + 4 / 2),
    ],
)
def test_aggregates_equal_the_hand_computed(how: str, expected: float) -> None:
    assert aggregate(LAYERS, how).item() == pytest.approx(expected)


@pytest.mark.parametrize("how", AGGREGATES)
def test_no_slacks_at_all_are_zero(how: str) -> None:
    assert aggregate([], how).item() == aggregate([{}], how).item() == 0.0
    assert aggregate([{"P": torch.zeros(0)}], how).item() == 0.0
    torch.testing.assert_close(aggregate([*LAYERS, {"P": torch.zeros(0)}], how), aggregate(LAYERS, how))


@pytest.mark.parametrize("how", AGGREGATES)
def test_layers_on_several_devices_are_summed_on_the_first(how: str) -> None:
    there = {axis: s.to("meta") for axis, s in LAYERS[0].items()}
    assert aggregate([there, LAYERS[1]], how).device.type == "meta"


def test_every_aggregate_is_tested_above_and_an_unknown_one_is_refused() -> None:
    assert set(AGGREGATES) == {"meansq", "sumsq", "sum", "norm", "mean", "balanced"}
    with pytest.raises(AliveError, match="did you mean 'sumsq'"):
        aggregate(LAYERS, "summsq")


def slow_mean_of_squares(layers: list[dict[str, Tensor]]) -> float:
    """The definition, number by number."""
    total = 0.0
    for axis in "UPL":
        each = [[x * x for x in s[axis].tolist()] for s in layers if axis in s and len(s[axis])]
        total += sum(sum(squares) / len(squares) for squares in each) / max(1, len(each))
    return total


@pytest.mark.twin
@pytest.mark.parametrize("seed", range(20))
def test_the_mean_of_squares_equals_its_definition(seed: int) -> None:
    g = torch.Generator().manual_seed(seed)
    layers = []
    for _ in range(int(torch.randint(1, 7, (), generator=g))):
        sizes = torch.randint(0, 4, (3,), generator=g).tolist()
        axes = [axis for axis in "UPL" if torch.rand((), generator=g) < 0.7]
        layers.append({a: torch.rand(n, generator=g, dtype=torch.float64) for a, n in zip(axes, sizes, strict=False)})
    assert aggregate(layers, "meansq").item() == pytest.approx(slow_mean_of_squares(layers), rel=1e-12)
    for axis, found in means(layers).items():
        assert found.slacks.tolist() == pytest.approx([layers[n][axis].mean().item() for n in found.layers])


@pytest.mark.law
@pytest.mark.parametrize("conv", ["channel", "position"])
def test_the_mean_of_squares_does_not_change_with_depth_width_batch_and_positions(conv: str) -> None:
    z = 0.3 * torch.randn(5, 4, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    rule = Separation(conv=conv)

    def penalty(*layers: Tensor) -> float:
        return aggregate([slacks(layer, rule) for layer in layers]).item()

    other = 0.1 * torch.randn(5, 6, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    alone, both = penalty(z), penalty(z, other)
    assert 0 < alone != both
    for tiled in (z.repeat(3, 1, 1), z.repeat(1, 3, 1), z.repeat(1, 1, 3)):
        assert penalty(tiled) == pytest.approx(alone, rel=1e-12)
        assert penalty(tiled, other) == pytest.approx(both, rel=1e-12)
    assert penalty(z, z, z) == pytest.approx(alone, rel=1e-12)
    assert penalty(z, other, z, other) == pytest.approx(both, rel=1e-12)


@pytest.mark.law
def test_the_norm_has_gradient_zero_at_zero() -> None:
    s = torch.zeros(3, requires_grad=True)
    aggregate([{"U": s}], "norm").backward()
    assert s.grad.tolist() == [0.0, 0.0, 0.0]


def test_groups_share_the_gradient_of_an_extreme_at_zero():
    """scatter_reduce counts the value it starts from as a tie: it must start from none that z can have."""
    z = torch.tensor([0.0, -3.0, 0.0], requires_grad=True)
    rule = Separation(mode="P", against="death")
    grouped_slacks(z, rule, {"P": (torch.tensor([0, 0, 0]), 1)})["P"].sum().backward()
    assert z.grad.tolist() == [-0.5, 0.0, -0.5]
