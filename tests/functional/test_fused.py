"""The fast slacks are the slow slacks: in value, in gradient, for every shape, dtype, rule and layout."""

from __future__ import annotations

from dataclasses import replace
from math import inf, nan

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

from alive.functional import Separation, ends, fused, separation, way

DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16]
KINDS = ["normal", "rounded", "constant", "zeros", "wide"]
quick = settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))

rules = st.builds(
    Separation,
    mode=st.sampled_from(["U", "P", "UP", "L"]),
    conv=st.sampled_from(["channel", "position"]),
    against=st.sampled_from(["both", "death", "linearity"]),
    balance=st.sampled_from([0.5, 0.25, 0.0, 1.0]),
    pos_margin=st.sampled_from([1.0, 0.25, 0.0]),
    neg_margin=st.sampled_from([1.0, 2.0, 0.0]),
    ties=st.sampled_from(["split", "single"]),
)
shapes = st.lists(st.integers(1, 4), min_size=1, max_size=5).map(tuple)


def values(kind: str, shape: tuple[int, ...], seed: int) -> Tensor:
    z = torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return {"normal": z, "rounded": z.round() / 2, "constant": z * 0 + 0.5, "zeros": z * 0, "wide": z * 3}[kind]


@st.composite
def cases(draw, dtypes=tuple(DTYPES)):
    """A leaf, a view of it as some layout, where its axes are, and a rule."""
    shape = draw(shapes)
    z = values(draw(st.sampled_from(KINDS)), shape, draw(st.integers(0, 999))).to(draw(st.sampled_from(dtypes)))
    order = draw(st.permutations(range(len(shape))))
    where = {"point_axis": 0, "unit_axis": 1}
    if len(shape) > 1:
        where = {"point_axis": order.index(0), "unit_axis": order.index(1) - draw(st.sampled_from([0, len(shape)]))}
    return z.permute(order) if draw(st.booleans()) else z.permute(order).contiguous(), where, draw(rules)


def graded(measure, z: Tensor) -> tuple[list[str], Tensor, Tensor, Tensor | None]:
    """Axes, slacks in a row, the activation if any, and the gradient of one random weighting of both."""
    z = z.detach().clone(memory_format=torch.preserve_format).requires_grad_()
    y, s = measure(z * 1)
    row = torch.cat([*s.values(), torch.zeros(1, dtype=torch.promote_types(z.dtype, torch.float32))])
    weight = torch.linspace(0.5, 2, len(row), dtype=row.dtype)
    total = (row * weight).sum() + 0 * z.sum()
    if y is not None:
        total = total + (y.to(row.dtype) * torch.linspace(-1, 1, y.numel(), dtype=row.dtype).view(y.shape)).sum()
    (grad,) = torch.autograd.grad(total, z)
    return list(s), row.detach(), grad, y


def slow(rule: Separation, *, relu: bool, cutoff: float = 0.0, **where):
    return lambda z: (z.relu() if relu else None, separation.slacks(z, rule, cutoff=cutoff, **where))


def by_ends(rule: Separation, *, relu: bool = False, **where):
    """As on a device that is not a CPU: nothing compiled."""

    def measure(z: Tensor):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(way, "_ways", {})
            patch.setattr(way, "compiles", lambda z: False)
            patch.setattr(ends, "compiles", lambda z: False)
            return fused.relu_slacks(z, rule, **where) if relu else (None, fused.slacks(z, rule, **where))

    return measure


def single(rule: Separation) -> Separation:
    """The rule as it is where nothing is compiled: the first of equal extremes gets the gradient."""
    return replace(rule, ties="single")


def as_measured(rule: Separation, z: Tensor) -> Separation:
    return rule if z.dtype.itemsize > 2 else single(rule)


def assert_twins(fast, reference, z: Tensor) -> None:
    axes, s, grad, y = graded(fast, z)
    slow_axes, slow_s, slow_grad, slow_y = graded(reference, z)
    close = {"rtol": 1e-5, "atol": 1e-6} if z.dtype.itemsize > 2 else {"rtol": 2e-2, "atol": 2e-2}
    assert axes == slow_axes
    torch.testing.assert_close(s, slow_s, rtol=1e-6, atol=1e-6, equal_nan=True)
    torch.testing.assert_close(grad, slow_grad, **close)
    assert (y is None and slow_y is None) or torch.equal(y, slow_y)


@pytest.mark.twin
@quick
@given(cases(), st.sampled_from([0.0, -0.5, 0.25]))
def test_slacks_are_the_slow_slacks(case, cutoff: float) -> None:
    z, where, rule = case
    assert_twins(
        lambda z: (None, fused.slacks(z, rule, cutoff=cutoff, **where)),
        slow(as_measured(rule, z), relu=False, cutoff=cutoff, **where),
        z,
    )


@pytest.mark.twin
@quick
@given(cases(), st.booleans())
def test_relu_slacks_are_relu_and_the_slow_slacks(case, inplace: bool) -> None:
    z, where, rule = case
    assert_twins(
        lambda z: fused.relu_slacks(z, rule, inplace=inplace, **where),
        slow(as_measured(rule, z), relu=True, **where),
        z,
    )


@pytest.mark.twin
@quick
@given(cases(), st.booleans())
def test_the_way_of_any_device_is_the_slow_slacks_where_the_first_of_ties_counts(case, relu: bool) -> None:
    z, where, rule = case
    assert_twins(by_ends(rule, relu=relu, **where), slow(single(rule), relu=relu, **where), z)


LARGE = [((3, 5, 40, 36), "channel"), ((2, 3, 257), "channel"), ((4, 2, 16, 16), "position"), ((2, 700), "channel")]


@pytest.mark.twin
@pytest.mark.parametrize("kind", ["normal", "rounded", "zeros"])
@pytest.mark.parametrize(("shape", "conv"), LARGE)
def test_maps_larger_than_a_block_are_searched_whole(shape: tuple[int, ...], conv: str, kind: str) -> None:
    z = values(kind, shape, 1).float() * 0.2
    for ties in ("split", "single"):
        rule = Separation(conv=conv, ties=ties)
        assert_twins(lambda z, rule=rule: (None, fused.slacks(z, rule)), slow(rule, relu=False), z)
        assert_twins(by_ends(rule), slow(single(rule), relu=False), z)


def constant_units(*shape: int) -> Tensor:
    """A layer that nothing reaches: every value is the bias of its unit; some units are satisfied on a side."""
    bias = torch.linspace(-1.5, 1.5, shape[1])
    return bias.view(-1, *[1] * (len(shape) - 2)).expand(shape).clone()


@pytest.mark.twin
@pytest.mark.parametrize(
    ("shape", "rule"),
    [
        ((40, 8, 32, 16), Separation(balance=0.3)),
        ((40, 8, 32, 16), Separation(mode="L", pos_margin=2.0)),
        ((40, 8, 32, 16), Separation(mode="P", against="death", pos_margin=2.0)),
        ((40, 8, 512), Separation(conv="position", balance=0.3)),
        ((500, 400), Separation(mode="U", balance=0.3)),
    ],
    ids=str,
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_layer_of_ties_is_the_slow_slacks(shape: tuple[int, ...], rule: Separation, dtype: torch.dtype) -> None:
    z = constant_units(*shape).to(dtype)
    assert_twins(lambda z: (None, fused.slacks(z, rule)), slow(rule, relu=False), z)
    assert_twins(by_ends(rule), slow(single(rule), relu=False), z)
    for inplace in (False, True):
        assert_twins(lambda z, inplace=inplace: fused.relu_slacks(z, rule, inplace=inplace), slow(rule, relu=True), z)


@pytest.mark.twin
@pytest.mark.parametrize("where", [{"unit_axis": -1}, {"unit_axis": 0, "point_axis": 1}], ids=str)
def test_ties_are_found_wherever_the_axes_lie(where: dict[str, int]) -> None:
    z = constant_units(40, 8, 32, 16)
    z = z.movedim(1, -1) if where["unit_axis"] == -1 else z.transpose(0, 1).contiguous()
    rule = Separation(balance=0.3)
    assert_twins(lambda z: (None, fused.slacks(z, rule, **where)), slow(rule, relu=False, **where), z)


def test_ties_keep_a_byte_a_value_for_backward() -> None:
    z = constant_units(40, 8, 32, 16).requires_grad_()
    s = fused.slacks(z, Separation(balance=0.3))["U"]
    assert sum(saved.nbytes for saved in s.grad_fn.saved_tensors) < 1.1 * z.numel()
    (first,) = torch.autograd.grad(s.square().sum(), z, create_graph=True)
    (second,) = torch.autograd.grad(first.square().sum(), z)
    w = z.detach().requires_grad_()
    (slow_first,) = torch.autograd.grad(
        separation.slacks(w, Separation(balance=0.3))["U"].square().sum(), w, create_graph=True
    )
    torch.testing.assert_close(second, torch.autograd.grad(slow_first.square().sum(), w)[0])


@pytest.mark.twin
@pytest.mark.parametrize("inplace", [False, True])
def test_channels_last_keeps_its_layout_and_its_gradient(inplace: bool) -> None:
    z = torch.randn(3, 4, 5, 6).round(decimals=1).to(memory_format=torch.channels_last)
    assert_twins(lambda z: fused.relu_slacks(z, Separation(), inplace=inplace), slow(Separation(), relu=True), z)
    y, _ = fused.relu_slacks(z, Separation())
    assert y.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.twin
@quick
@given(
    st.lists(st.sampled_from([nan, inf, -inf, 0.0, 0.5, -0.5, 3.0, -3.0]), min_size=12, max_size=12),
    st.sampled_from([(3, 4), (3, 2, 2), (1, 2, 2, 3)]),
    rules,
    st.sampled_from([torch.float32, torch.bfloat16]),
)
def test_nan_and_inf_propagate_as_in_the_slow_slacks(numbers, shape, rule: Separation, dtype: torch.dtype) -> None:
    z = torch.tensor(numbers, dtype=dtype).view(shape)
    expected = separation.slacks(z, rule)
    for found in (fused.slacks(z, rule), fused.relu_slacks(z, rule)[1], by_ends(rule)(z)[1]):
        for axis, s in expected.items():
            torch.testing.assert_close(found[axis], s, equal_nan=True)
    if expected:
        *_, grad, _ = graded(by_ends(rule), z)
        *_, truth, _ = graded(slow(single(rule), relu=False), z)
        torch.testing.assert_close(grad, truth, equal_nan=True, rtol=2e-2, atol=2e-2)


@pytest.mark.twin
@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 3, 2, 2), (2, 3, 0), (1, 1), (1,)])
@pytest.mark.parametrize("conv", ["channel", "position"])
def test_empty_and_unsatisfiable_layers_give_what_the_slow_slacks_give(shape: tuple[int, ...], conv: str) -> None:
    rule, z = Separation(conv=conv), torch.zeros(shape)
    expected = separation.slacks(z, rule)
    for found in (fused.slacks(z, rule), fused.relu_slacks(z, rule)[1], by_ends(rule)(z)[1]):
        assert {axis: s.shape for axis, s in found.items()} == {axis: s.shape for axis, s in expected.items()}


@pytest.mark.parametrize("shape", [(64, 32), (8, 6, 16, 16), (8, 30, 20)])
def test_the_way_of_any_device_saves_next_to_nothing_beside_the_activation(shape: tuple[int, ...]) -> None:
    y, _ = fused.relu_slacks(torch.randn(shape, dtype=torch.bfloat16, requires_grad=True), Separation())
    *rest, saved = y.grad_fn.saved_tensors
    assert saved.data_ptr() == y.data_ptr()
    assert sum(t.numel() for t in rest) <= 2 * (shape[0] + shape[1])


def test_either_output_may_go_unused() -> None:
    z = torch.randn(4, 3, requires_grad=True)
    y, s = fused.relu_slacks(z, Separation())
    (only_y,) = torch.autograd.grad(y.sum(), z, retain_graph=True)
    assert torch.equal(only_y, (z > 0).float())
    (only_s,) = torch.autograd.grad(s["U"].sum(), z)
    (expected,) = torch.autograd.grad(separation.slacks(z, Separation())["U"].sum(), z)
    torch.testing.assert_close(only_s, expected)


def test_a_frozen_input_is_measured_without_a_graph() -> None:
    y, s = fused.relu_slacks(torch.randn(4, 3), Separation())
    assert not y.requires_grad
    assert not s["U"].requires_grad


def test_z_may_be_changed_in_place_after_it_was_measured() -> None:
    leaf = torch.randn(4, 3, requires_grad=True)
    z = leaf * 1
    s = fused.slacks(z, Separation())
    z.relu_()
    (grad,) = torch.autograd.grad(s["U"].sum() + z.sum(), leaf)
    expected = separation.slacks(leaf, Separation())["U"].sum() + leaf.relu().sum()
    torch.testing.assert_close(grad, torch.autograd.grad(expected, leaf)[0])


def test_a_gradient_that_others_hold_is_not_changed() -> None:
    z = torch.randn(4, 3, requires_grad=True)
    y, s = fused.relu_slacks(z, Separation())
    upstream = torch.ones_like(y)
    torch.autograd.backward([y, s["U"]], [upstream, torch.ones_like(s["U"])])
    assert torch.equal(upstream, torch.ones_like(y))


RULES = [Separation(), Separation(mode="L"), Separation(conv="position", against="death"), Separation(ties="single")]


@pytest.mark.law
@pytest.mark.parametrize("rule", RULES, ids=str)
def test_gradients_once_and_twice_pass_gradcheck(rule: Separation) -> None:
    z = (0.3 * torch.randn(3, 2, 2, 2, dtype=torch.float64)).requires_grad_()

    def both(z: Tensor) -> tuple[Tensor, ...]:
        y, s = fused.relu_slacks(z, rule)
        return (y, *s.values(), *fused.slacks(z, rule, cutoff=-0.1).values())

    assert torch.autograd.gradcheck(both, z)
    assert torch.autograd.gradgradcheck(both, z)


@pytest.mark.twin
@pytest.mark.parametrize("relu", [False, True])
def test_a_gradient_of_the_gradient_equals_the_slow_one(relu: bool) -> None:
    def second(measure) -> Tensor:
        w = torch.linspace(-0.5, 0.4, 6, dtype=torch.float64).view(2, 3).requires_grad_()
        x = torch.randn(5, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
        y, s = measure(x @ w.T)
        loss = sum(v.square().sum() for v in s.values()) + (y.square().sum() if relu else 0)
        (first,) = torch.autograd.grad(loss, w, create_graph=True)
        return torch.autograd.grad(first.square().sum(), w)[0]

    rule = Separation()
    fast = (lambda z: fused.relu_slacks(z, rule)) if relu else (lambda z: (None, fused.slacks(z, rule)))
    torch.testing.assert_close(second(fast), second(slow(rule, relu=relu)))
