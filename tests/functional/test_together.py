"""Small layers measured together are those measured one by one; nothing kept is overwritten while a graph lives."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from alive.functional import Separation, fused, separation

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


def pending(z: Tensor, rule: Separation) -> fused.Pending:
    found = fused.later(z, rule, 1, 0, 0.0)
    assert found is not None
    return found


@pytest.mark.twin
@pytest.mark.parametrize("rule", RULES, ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_layers_together_are_layers_one_by_one(rule: Separation, dtype: torch.dtype) -> None:
    def total(layers: list[separation.Slacks]) -> Tensor:
        return sum((k + 1) * s.square().sum() for k, layer in enumerate(layers) for s in layer.values())

    leaves = [[values(s, k, dtype).requires_grad_() for k, s in enumerate(SHAPES)] for _ in range(2)]
    fast = fused.together([pending(z, rule) for z in leaves[0]])
    slow = [separation.slacks(z, rule) for z in leaves[1]]
    for ours, theirs in zip(fast, slow, strict=True):
        assert list(ours) == list(theirs)
        torch.testing.assert_close(dict(ours), dict(theirs))
    grads = [torch.autograd.grad(total(found), zs) for found, zs in ((fast, leaves[0]), (slow, leaves[1]))]
    torch.testing.assert_close(*grads)


def test_joined_layers_are_their_slacks_in_a_row() -> None:
    layers = [pending(values(s, k), Separation()) for k, s in enumerate(SHAPES)]
    row, each = fused.joined(layers), fused.together(layers)
    for axis in ("U", "P"):
        assert torch.equal(row[axis], torch.cat([s[axis] for s in each if axis in s]))


def test_a_layer_put_off_is_what_it_was_whatever_is_done_to_it_afterwards() -> None:
    leaf = values((6, 4), 0).requires_grad_()
    z = leaf * 1
    layer = pending(z, Separation())
    z.relu_()
    (grad,) = torch.autograd.grad(fused.together([layer])[0]["U"].sum() + z.sum(), leaf)
    expected = separation.slacks(leaf, Separation())["U"].sum() + leaf.relu().sum()
    torch.testing.assert_close(grad, torch.autograd.grad(expected, leaf)[0])


def test_large_and_strange_layers_are_not_put_off() -> None:
    assert fused.later(torch.zeros(fused.SMALL + 1, 1), Separation(), 1, 0, 0.0) is None
    assert fused.later(torch.zeros(4, 3, dtype=torch.bfloat16), Separation(), 1, 0, 0.0) is None
    assert fused.later(torch.zeros(4, 3)[:, ::2], Separation(), 1, 0, 0.0) is None


@pytest.mark.twin
@pytest.mark.parametrize("how", ["relu", "beside", "together"])
@pytest.mark.parametrize("kind", ["few", "ties"])
def test_graphs_that_live_side_by_side_do_not_touch_each_other(how: str, kind: str) -> None:
    rule = Separation()

    def measured(z: Tensor, *, slow: bool) -> Tensor:
        if slow:
            s = separation.slacks(z, rule)
        elif how == "together":
            s = fused.together([pending(z, rule)])[0]
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
        return tuple(s for layer in fused.together([pending(z, rule) for z in zs]) for s in layer.values())

    assert torch.autograd.gradcheck(row, zs)
    assert torch.autograd.gradgradcheck(row, zs)


def test_numbers_that_are_stored_with_the_other_sign_are_read_right() -> None:
    z = torch.randn(5, 4, dtype=torch.complex64).conj().imag
    assert z.is_neg()
    found = fused.slacks(z, Separation())
    torch.testing.assert_close(dict(found), dict(separation.slacks(z.clone(), Separation())))
