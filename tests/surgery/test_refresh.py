"""Batch norms that gather their statistics anew, and keep the old ones if they cannot."""

from __future__ import annotations

import pytest
import torch
from residual_models import lived, opened
from torch import Tensor, nn

from alive.errors import AliveError
from alive.nn.skips import COMPARED
from alive.surgery.fold import fold, refresh_batch_norm_


@pytest.mark.twin
def test_refreshed_statistics_are_those_of_the_plain_network():
    """One batch: each norm holds the mean of what reaches it, which is computed here layer by layer."""
    x = torch.randn(64, 8)
    net = lived(opened(COMPARED["van"].dense(8, 3, depth=3, width=5)), x)
    stale, fresh = fold(net).model, fold(net, refresh=x).model
    z = fresh.stem(x)
    for block in fresh.blocks:
        norm, relu, linear = block
        torch.testing.assert_close(norm.running_mean, z.mean(0))
        torch.testing.assert_close(norm.running_var, z.var(0))
        z = linear(relu((z - z.mean(0)) / (z.var(0, unbiased=False) + norm.eps).sqrt() * norm.weight + norm.bias))
    assert not torch.equal(stale(x), fresh(x))
    assert [m.momentum for m in fresh.modules() if isinstance(m, nn.BatchNorm1d)] == [0.1] * 3


def test_refreshing_averages_over_batches_and_leaves_the_rest():
    norm = nn.Sequential(nn.Dropout(0.9), nn.BatchNorm1d(2)).train()
    first, second = torch.randn(8, 2), torch.randn(8, 2) + 3
    refresh_batch_norm_(norm, [(first, None), (second, None)])
    torch.testing.assert_close(norm[1].running_mean, (first.mean(0) + second.mean(0)) / 2)
    assert norm.training
    assert norm[0].training


class Two(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(2)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return self.norm(x * y)


def test_batches_may_hold_several_arguments():
    x, y, labels = torch.randn(8, 2), torch.randn(8, 2), torch.zeros(8)
    for batches in ([(x, y, labels)], [{"x": x, "y": y}]):
        model = Two()
        refresh_batch_norm_(model, batches, arguments=2)
        torch.testing.assert_close(model.norm.running_mean, (x * y).mean(0))


@pytest.mark.parametrize(
    ("batches", "error"), [([], AliveError), ([torch.randn(4, 3), torch.randn(4, 5)], RuntimeError)]
)
def test_a_refresh_that_fails_changes_nothing(batches, error):
    model = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    model(torch.randn(9, 3))
    before = {name: value.clone() for name, value in model.state_dict().items()}
    with pytest.raises(error):
        refresh_batch_norm_(model, batches)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert model[1].momentum == 0.1
    assert model[1].training
