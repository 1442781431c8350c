"""Gating a finished model: it computes what it did, keeps its names and its precision, trains, copies and pickles."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from residual_models import Basic, Net, gates
from torch import nn
from torch.nn import functional as F

from alive.penalties.van import VANController
from alive.surgery.phase_out import phase_out
from alive_papers.networks.skips import COMPARED


def test_a_resnet_with_in_place_relu_and_projections_is_gated_to_the_bit():
    net = Net()
    x = torch.randn(3, 1, 8, 8)
    gated = phase_out(net, x)
    assert {path: tuple(gate.alpha.shape) for path, gate in gates(gated).items()} == {
        "layer1.0.gate": (4,),
        "layer1.1.gate": (4,),
        "layer2.0.gate": (8,),
        "layer2.1.gate": (8,),
    }
    assert torch.equal(net.eval()(x), gated.eval()(x))
    assert type(gated) is Net
    assert list(VANController(gated, 0.1).gates) == list(gates(gated))
    assert not gates(net)


def test_the_state_dict_keeps_its_names():
    net = Net()
    added = set(phase_out(net).state_dict()) - set(net.state_dict())
    assert set(net.state_dict()) <= set(phase_out(net).state_dict())
    assert {name.rpartition(".")[0] for name in added} == set(gates(phase_out(net)))


def test_without_an_example_the_widths_come_from_the_layers():
    with_one = phase_out(Net(), torch.randn(2, 1, 8, 8))
    assert [g.alpha.shape for g in gates(phase_out(Net())).values()] == [
        g.alpha.shape for g in gates(with_one).values()
    ]


@pytest.mark.twin
def test_a_gated_block_computes_equation_4_and_its_gradients():
    block = Basic(2, 4, 2).eval()
    gated = phase_out(nn.Sequential(block)).eval()
    gate = gates(gated)["0.gate"]
    nn.init.uniform_(gate.alpha)
    x = torch.randn(3, 2, 6, 6)
    f = block.bn2(block.conv2(F.relu(block.bn1(block.conv1(x)))))
    expected = F.relu(f + (1 - gate.alpha)[:, None, None] * block.downsample(x))
    torch.testing.assert_close(gated(x), expected)
    gated(x).square().sum().backward()
    (by_hand,) = torch.autograd.grad(expected.square().sum(), gate.alpha)
    torch.testing.assert_close(gate.alpha.grad, by_hand)


@pytest.mark.twin
@pytest.mark.parametrize("rule", ["eq9", "eq10"])
def test_equations_9_and_10_on_a_block_of_someone_elses(rule):
    block = Basic(2, 4, 2).eval()
    x = torch.randn(3, 2, 6, 6)
    gated = phase_out(nn.Sequential(block), x, rule=rule).eval()
    alpha: object = 0.5
    for gate in gates(gated).values():
        alpha = nn.init.uniform_(gate.alpha)[:, None, None]
    assert len(gates(gated)) == (rule == "eq9")
    f = block.bn2(block.conv2(F.relu(block.bn1(block.conv1(x)))))
    torch.testing.assert_close(gated(x), F.relu(alpha * f + (1 - alpha) * block.downsample(x)))


def test_gated_models_train_copy_and_pickle():
    gated = phase_out(Net())
    x = torch.randn(4, 1, 8, 8)
    control = VANController(gated, phase_out_steps=3)
    for _ in range(4):
        gated(x).square().mean().backward()
        control.step()
    assert control.done
    for twin in (copy.deepcopy(gated), pickle.loads(pickle.dumps(gated))):
        assert torch.equal(twin.eval()(x), gated.eval()(x))
        assert VANController(twin, 0.1).done


def test_the_librarys_own_resnet():
    net = COMPARED["resnet"].conv(1, 3, n=2, base=2)
    assert len(gates(phase_out(net, torch.randn(2, 1, 8, 8)))) == 8


def test_precision_follows_the_model():
    net = Net().double()
    gated = phase_out(net, torch.randn(2, 1, 8, 8, dtype=torch.float64))
    assert all(gate.alpha.dtype == torch.float64 for gate in gates(gated).values())


@pytest.mark.parametrize("precision", [torch.float16, torch.bfloat16])
def test_a_phase_out_ends_in_half_precision_too(precision):
    """Steps of 1/1000 are below the rounding of α in half precision, where it would stand still half way."""
    gated = phase_out(Net().to(precision), torch.randn(2, 1, 8, 8, dtype=precision))
    assert gated(torch.randn(2, 1, 8, 8, dtype=precision)).dtype == precision
    control = VANController(gated.to(precision), phase_out_steps=1000)
    for _ in range(1001):
        control.step()
    assert control.done
