"""Small layers measured together are those measured one by one; nothing kept is overwritten while a graph lives."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from alive.functional import Separation, fused, separation, together

RULES = [
    Separation(),
    Separation(mode="U", balance=0.3),
    Separation(mode="P", against="death"),
    Separation(mode="L", ties="single"),
]
SHAPES = [(7, 5), (64, 16), (3, 4, 6), (2, 3, 4, 5), (2, 8), (40, 2)]


def values(shape: tuple[int, ...], seed: int, dtype: torch.dtype = torch.float32) -> Tensor:
    z = torch.randn(shape, generator=torch.Generator().manual_seed(seed))
    return (z.round() / 2 if seed % 2 else z / 2).to(dtype)


def pending(z: Tensor, rule: Separation) -> together.Pending:
    found = together.later(z, rule, 1, 0, 0.0)
    assert found is not None
    return found


@pytest.mark.twin
@pytest.mark.parametrize("rule", RULES, ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_layers_together_are_layers_one_by_one(rule: Separation, dtype: torch.dtype) -> None:
    def total(layers: list[separation.Slacks]) -> Tensor:
        return sum((k + 1) * s.square().sum() for k, layer in enumerate(layers) for s in layer.values())

    leaves = [[values(s, k, dtype).requires_grad_() for k, s in enumerate(SHAPES)] for _ in range(2)]
    fast = together.together([pending(z, rule) for z in leaves[0]])
    slow = [separation.slacks(z, rule) for z in leaves[1]]
    for ours, theirs in zip(fast, slow, strict=True):
        assert list(ours) == list(theirs)
        torch.testing.assert_close(dict(ours), dict(theirs))
    grads = [torch.autograd.grad(total(found), zs) for found, zs in ((fast, leaves[0]), (slow, leaves[1]))]
    torch.testing.assert_close(*grads)


def test_joined_layers_are_their_slacks_in_a_row() -> None:
    layers = [pending(values(s, k), Separation()) for k, s in enumerate(SHAPES)]
    row, each = together.joined(layers), together.together(layers)
    for axis in ("U", "P"):
        assert torch.equal(row[axis], torch.cat([s[axis] for s in each if axis in s]))


def test_a_layer_put_off_is_what_it_was_whatever_is_done_to_it_afterwards() -> None:
    leaf = values((6, 4), 0).requires_grad_()
    z = leaf * 1
    layer = pending(z, Separation())
    z.relu_()
    (grad,) = torch.autograd.grad(together.together([layer])[0]["U"].sum() + z.sum(), leaf)
    expected = separation.slacks(leaf, Separation())["U"].sum() + leaf.relu().sum()
    torch.testing.assert_close(grad, torch.autograd.grad(expected, leaf)[0])


def test_large_and_strange_layers_are_not_put_off() -> None:
    assert together.later(torch.zeros(together.SMALL + 1, 1), Separation(), 1, 0, 0.0) is None
    assert together.later(torch.zeros(4, 3, dtype=torch.bfloat16), Separation(), 1, 0, 0.0) is None
    assert together.later(torch.zeros(4, 3)[:, ::2], Separation(), 1, 0, 0.0) is None


@pytest.mark.twin
@pytest.mark.parametrize("how", ["relu", "beside", "together"])
@pytest.mark.parametrize("kind", ["few", "ties"])
def test_graphs_that_live_side_by_side_do_not_touch_each_other(how: str, kind: str) -> None:
    rule = Separation()

    def measured(z: Tensor, *, slow: bool) -> Tensor:
        if slow:
            s = separation.slacks(z, rule)
        elif how == "together":
            s = together.together([pending(z, rule)])[0]
        else:
            s = fused.relu_slacks(z, rule)[1] if how == "relu" else fused.slacks(z, rule)
        return sum(v.square().sum() for v in s.values())

    first, second = (values((9, 50), k).mul(0.3).requires_grad_() for k in ((0, 2) if kind == "few" else (1, 3)))
    expected = [torch.autograd.grad(measured(z, slow=True), z)[0] for z in (first, second)]
    one, two = measured(first, slow=False), measured(second, slow=False)
    once = torch.autograd.grad(one, first, retain_graph=True)[0]
    other = torch.autograd.grad(two, second, retain_graph=True)[0]
    for _ in range(3):  # as many layers of the same shape come and go
        measured(values((9, 50), 5).requires_grad_(), slow=False).backward()
    torch.testing.assert_close([once, other], expected)
    torch.testing.assert_close(torch.autograd.grad(one, first)[0], expected[0])
    torch.testing.assert_close(torch.autograd.grad(two, second)[0], expected[1])


@pytest.mark.law
@pytest.mark.parametrize("rule", RULES, ids=str)
def test_gradients_once_and_twice_pass_gradcheck(rule: Separation) -> None:
    zs = [(0.3 * torch.randn(s, dtype=torch.float64)).requires_grad_() for s in ((3, 2), (2, 3, 2))]

    def row(*zs: Tensor) -> tuple[Tensor, ...]:
        return tuple(s for layer in together.together([pending(z, rule) for z in zs]) for s in layer.values())

    assert torch.autograd.gradcheck(row, zs)
    assert torch.autograd.gradgradcheck(row, zs)


def test_numbers_that_are_stored_with_the_other_sign_are_read_right() -> None:
    z = torch.randn(5, 4, dtype=torch.complex64).conj().imag
    assert z.is_neg()
    found = fused.slacks(z, Separation())
    torch.testing.assert_close(dict(found), dict(separation.slacks(z.clone(), Separation())))


@pytest.mark.twin
@pytest.mark.parametrize("sizes", [[(9, 4), (9, 4), (9, 4)], [(9, 4), (9, 5), (8, 4)]], ids=["alike", "unlike"])
def test_layers_in_rows_have_the_means_of_layers_one_by_one(sizes: list[tuple[int, int]]) -> None:
    zs = [values(size, number) for number, size in enumerate(sizes)]
    fast = together.in_rows([pending(z, Separation()) for z in zs])
    slow = [separation.slacks(z, Separation()) for z in zs]
    torch.testing.assert_close(separation.mean_squares(fast), separation.aggregate(slow))
    for axis, means in separation.means(slow).items():
        ours = separation.means_of(fast)[axis]
        assert ours.layers == means.layers
        torch.testing.assert_close((ours.squares, ours.slacks), (means.squares, means.slacks))


@pytest.mark.twin
@pytest.mark.parametrize("width", [1, 15, 16, 17, 31, 33, 100])
@pytest.mark.parametrize("ties", ["split", "single"])
@pytest.mark.parametrize("step", [0.0, 0.01, 0.5], ids=["untied", "few ties", "many ties"])
def test_rows_that_are_no_whole_vectors(width: int, ties: str, step: float) -> None:
    z = values((13, width), 2)
    z = z if not step else (z / step).round() * step
    rule = Separation(ties=ties)

    def found(measure: Callable[[Tensor], separation.Slacks]) -> list[Tensor]:
        leaf = z.clone().requires_grad_()
        s = list(measure(leaf).values())
        return [*s, *torch.autograd.grad(sum(each.square().sum() for each in s), leaf)]

    slow = found(lambda leaf: separation.slacks(leaf, rule))
    torch.testing.assert_close(found(lambda leaf: fused.slacks(leaf, rule)), slow)
    torch.testing.assert_close(found(lambda leaf: together.together([pending(leaf, rule)])[0]), slow)
