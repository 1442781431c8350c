"""The rivals of the fleet's benchmark train the same networks, or their times would say nothing."""

from __future__ import annotations

import pytest
import torch

from alive import Jumpstart
from alive.data import moons
from alive.nn import Rectangular
from alive_papers.benchmarks import fleet


@pytest.mark.twin
def test_stacked_networks_are_the_networks_one_by_one() -> None:
    data = moons()
    nets = [Rectangular(2, 1, depth=3, width=4, generator=torch.Generator().manual_seed(n)) for n in range(3)]
    together = [torch.stack(parts) for parts in zip(*(net.parameters() for net in nets), strict=True)]
    logits, penalty = fleet.stacked(together, data.train_x.expand(3, -1, -1))
    alone = torch.tensor(0.0)
    for net, own in zip(nets, logits, strict=True):
        with Jumpstart(net, 1.0, aggregate="sumsq") as keep:
            torch.testing.assert_close(net(data.train_x)[:, 0], own)
            alone = alone + keep.penalty()
    torch.testing.assert_close(alone, penalty)
