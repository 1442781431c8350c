"""Highway blocks against their equation."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from alive_papers.networks.highway import Highway
from alive_papers.networks.skips import COMPARED


@pytest.mark.twin
def test_forward_is_equation_2():
    block = Highway(nn.Linear(5, 5), nn.Linear(5, 5))
    x = torch.randn(3, 5)
    t = 1 / (1 + torch.exp(-(x @ block.transform.weight.T + block.transform.bias)))
    torch.testing.assert_close(block(x), block.branch(x) * t + x * (1 - t))


def test_a_new_block_carries():
    """With b = -1 and H = 0 the gate is sigmoid(-1): 27 parts of the branch to 73 of the input."""
    block = Highway(nn.Linear(4, 4), nn.Linear(4, 4))
    nn.init.zeros_(block.transform.weight)
    x = torch.randn(6, 4)
    torch.testing.assert_close(block(x), 0.26894142 * block.branch(x) + 0.73105858 * x)


def test_the_networks_start_with_that_bias_whatever_draws_the_weights():
    for net in (COMPARED["highway"].dense(4, 2, depth=3, width=6), COMPARED["highway"].conv(1, 2, n=1, base=2)):
        biases = [m.transform.bias for m in net.modules() if isinstance(m, Highway)]
        assert biases
        assert all(bool((bias == -1).all()) for bias in biases)


def test_a_narrow_gate_carries_through_a_projection():
    block = Highway(nn.Conv2d(2, 4, 3, 2, 1), nn.Conv2d(2, 4, 3, 2, 1), nn.Conv2d(2, 4, 1, 2))
    nn.init.constant_(block.transform.bias, -200.0)
    x = torch.randn(2, 2, 6, 6)
    torch.testing.assert_close(block(x), block.skip(x))
