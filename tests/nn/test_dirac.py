"""Dirac layers against the formula, and their plain twins."""

from __future__ import annotations

import copy

import pytest
import torch

from alive.nn.dirac import DiracConv2d, DiracLinear


@pytest.mark.twin
def test_the_weight_is_the_formula_row_by_row():
    layer = DiracLinear(4, 3)
    torch.nn.init.uniform_(layer.a)
    torch.nn.init.uniform_(layer.b)
    for row in range(3):
        eye = torch.zeros(4)
        eye[row] = 1
        expected = layer.a[row] * eye + layer.b[row] * layer.weight[row] / layer.weight[row].square().sum().sqrt()
        torch.testing.assert_close(layer.dirac_weight()[row], expected)


@pytest.mark.twin
@pytest.mark.parametrize(("inputs", "outputs"), [(3, 3), (2, 5), (5, 2)])
def test_a_kernel_without_its_learned_part_passes_its_channels_on(inputs, outputs):
    layer = DiracConv2d(inputs, outputs, 3, padding=1, bias=False)
    torch.nn.init.zeros_(layer.b)
    x = torch.randn(2, inputs, 4, 4)
    common = min(inputs, outputs)
    torch.testing.assert_close(layer(x)[:, :common], x[:, :common])
    assert not layer(x)[:, common:].any()


def test_the_start():
    layer = DiracConv2d(4, 4, 3)
    assert layer.a.tolist() == [1] * 4
    torch.testing.assert_close(layer.b, torch.full((4,), 0.1))
    assert "delta" not in layer.state_dict()


@pytest.mark.twin
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_plain_layer_says_the_same(bias, dtype):
    for layer, x in (
        (DiracLinear(6, 4, bias=bias), torch.randn(3, 6)),
        (DiracConv2d(2, 4, 3, padding=1, bias=bias), torch.randn(3, 2, 5, 5)),
    ):
        layer, x = layer.to(dtype), x.to(dtype)
        plain = layer.to_plain()
        assert type(plain) in (torch.nn.Linear, torch.nn.Conv2d)
        torch.testing.assert_close(plain(x), layer(x))
        assert sum(p.numel() for p in plain.parameters()) == sum(p.numel() for p in layer.parameters()) - 8


def test_scaling_the_weights_changes_nothing():
    layer = DiracLinear(5, 5)
    x = torch.randn(2, 5)
    larger = copy.deepcopy(layer)
    with torch.no_grad():
        larger.weight.mul_(7)
    torch.testing.assert_close(layer(x), larger(x))


def test_a_frozen_layer_stays_frozen():
    layer = DiracConv2d(3, 4, 3)
    layer.weight.requires_grad_(False)
    plain = layer.to_plain()
    assert (plain.weight.requires_grad, plain.bias.requires_grad) == (False, True)
