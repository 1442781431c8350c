"""Gates and VAN blocks against the equations of 002."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from alive.errors import AliveError
from alive.nn.van import Gate, Half, VANBlock, dense_branch
from alive_papers.networks.branches import PooledShortcut, conv_branch, shortcut

SHAPES = {"scalar": (), "channel": (3,), "neuron": (3, 4, 5)}


@pytest.mark.twin
@pytest.mark.parametrize("formulation", ["residual", "convex"])
@pytest.mark.parametrize("alpha", SHAPES)
def test_a_gate_is_its_equation_entry_by_entry(formulation, alpha):
    gate = Gate(SHAPES[alpha], formulation=formulation)
    nn.init.uniform_(gate.alpha)
    f, s = torch.randn(2, 3, 4, 5), torch.randn(2, 3, 4, 5)
    got = gate(f, s)
    for n, c, h, w in ((0, 0, 0, 0), (1, 2, 3, 4), (1, 1, 0, 3)):
        a = gate.alpha[(c, h, w)[: gate.alpha.dim()]]
        lead = a if formulation == "convex" else 1.0
        torch.testing.assert_close(got[n, c, h, w], lead * f[n, c, h, w] + (1 - a) * s[n, c, h, w])


@pytest.mark.twin
def test_a_gate_on_the_last_axis_reads_sequences():
    gate = Gate((4,), axis=-1)
    nn.init.uniform_(gate.alpha)
    f, s = torch.randn(2, 6, 4), torch.randn(2, 6, 4)
    torch.testing.assert_close(gate(f, s), torch.stack([f[:, t] + (1 - gate.alpha) * s[:, t] for t in range(6)], 1))


@pytest.mark.parametrize("formulation", ["residual", "convex"])
def test_a_gate_at_one_gives_the_branch_to_the_bit(formulation):
    gate = Gate((8,), formulation=formulation)
    nn.init.ones_(gate.alpha)
    f, s = torch.randn(16, 8), 1e6 * torch.randn(16, 8)
    assert torch.equal(gate(f, s), f)


def test_a_residual_gate_at_zero_is_a_resnet_to_the_bit():
    f, s = torch.randn(16, 8), torch.randn(16, 8)
    assert torch.equal(Gate((8,))(f, s), f + s)


@pytest.mark.law
@given(st.integers(0, 10_000))
def test_equation_9_gives_no_gradient_to_the_weights_at_alpha_zero(seed):
    """Only α moves in the first step of eq 9; in eq 4 the weights move at once."""
    chance = torch.Generator().manual_seed(seed)
    moved = {}
    for formulation in ("convex", "residual"):
        block = VANBlock(dense_branch(5), channels=5, formulation=formulation)
        block(torch.randn(7, 5, generator=chance)).square().sum().backward()
        moved[formulation] = [float(p.grad.abs().max()) for p in block.branch.parameters()]
        assert float(block.gate.alpha.grad.abs().max()) > 0
    assert max(moved["convex"]) == 0
    assert max(moved["residual"]) > 0


@pytest.mark.law
@given(st.integers(0, 10_000))
def test_the_gradient_of_alpha_is_minus_the_skip(seed):
    chance = torch.Generator().manual_seed(seed)
    gate = Gate((3,)).double()
    f, s, g = (torch.randn(4, 3, 2, 2, dtype=torch.float64, generator=chance) for _ in range(3))
    (gate(f, s) * g).sum().backward()
    torch.testing.assert_close(gate.alpha.grad, -(g * s).sum((0, 2, 3)))


def test_half_is_equation_10_and_has_no_gate():
    block = VANBlock(nn.Linear(3, 3), channels=3, formulation="half")
    x = torch.randn(4, 3)
    torch.testing.assert_close(block(x), (block.branch(x) + x) / 2)
    assert isinstance(block.gate, Half)
    assert not any(isinstance(m, Gate) for m in block.modules())


def test_alpha_is_a_parameter_and_its_state_travels_in_the_state_dict():
    gate = Gate((2,))
    assert set(gate.state_dict()) == {"alpha", "multiplier", "velocity", "steps"}
    assert [name for name, _ in gate.named_parameters()] == ["alpha"]
    assert gate.multiplier.tolist() == [-1, -1]


def test_shortcuts():
    assert isinstance(shortcut(4, 4), nn.Identity)
    projection = shortcut(4, 8, stride=2)
    assert projection.weight.shape == (8, 4, 1, 1)
    x = torch.randn(2, 4, 7, 7)
    pooled = shortcut(4, 8, stride=2, kind="pooled")
    assert pooled(x).shape == projection(x).shape == conv_branch(4, 8, stride=2)(x).shape
    assert not list(pooled.parameters())
    torch.testing.assert_close(pooled(x)[:, 2:6, 0, 0], x[:, :, :2, :2].mean((2, 3)))
    assert not pooled(x)[:, :2].any()
    assert not pooled(x)[:, 6:].any()


@pytest.mark.parametrize(
    ("order", "names"),
    [
        ("preact", "BatchNorm2d ReLU Conv2d BatchNorm2d ReLU Conv2d"),
        ("literal", "Conv2d BatchNorm2d ReLU Conv2d BatchNorm2d ReLU"),
    ],
)
def test_the_two_orders(order, names):
    assert [type(layer).__name__ for layer in conv_branch(2, 3, order=order)] == names.split()


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: VANBlock(nn.Identity(), channels=2, formulation="convexx"), "did you mean 'convex'"),
        (lambda: VANBlock(nn.Identity(), channels=2, alpha="neurons"), "did you mean 'neuron'"),
        (lambda: VANBlock(nn.Identity(), channels=2, size=(3, 3)), "size belongs to alpha='neuron'"),
        (lambda: Gate(formulation="half"), "unknown formulation 'half'"),
        (lambda: conv_branch(2, 2, order="pre"), "did you mean 'preact'"),
        (lambda: shortcut(2, 3, kind="pool"), "did you mean 'pooled'"),
        (lambda: PooledShortcut(4, 2), "cannot narrow 4 channels to 2"),
    ],
)
def test_wrong_settings_are_named(make, says):
    with pytest.raises(AliveError, match=says):
        make()


@pytest.mark.parametrize("precision", [torch.float16, torch.bfloat16, torch.float64])
def test_a_gate_is_never_shorter_than_single_precision(precision):
    gate = Gate((3,))
    nn.init.constant_(gate.alpha, 1 / 3)
    exact = gate.alpha.detach().clone()
    gate.to(precision)
    wide = torch.promote_types(precision, torch.float32)
    assert {value.dtype for value in (gate.alpha, gate.multiplier, gate.velocity)} == {wide}
    assert torch.equal(gate.alpha.detach().float(), exact)
    f, s = torch.randn(2, 3, dtype=precision), torch.randn(2, 3, dtype=precision)
    assert gate(f, s).dtype == precision
    gate(f, s).sum().backward()
    assert gate.alpha.grad.dtype == wide
    assert gate.to("meta").alpha.is_meta
