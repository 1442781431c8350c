import copy

import pytest
import torch
from torch import nn

from alive.errors import AliveError
from alive.nn import AnnealedDropout, set_epoch


@pytest.mark.parametrize(("epoch", "rate"), [(0, 0.9), (1, 0.8991), (500, 0.45), (1000, 0.0), (5000, 0.0)])
def test_the_papers_rates(epoch: int, rate: float) -> None:
    drop = AnnealedDropout()
    drop.set_epoch(epoch)
    assert drop.p == pytest.approx(rate)


def test_first_epoch_can_differ() -> None:
    drop = AnnealedDropout(first_epoch_p=0.1)
    assert drop.p == 0.1
    drop.set_epoch(1)
    assert drop.p == pytest.approx(0.8991)


def test_inverted_dropout_keeps_the_mean_and_fades() -> None:
    torch.manual_seed(0)
    drop, x = AnnealedDropout(0.8, 10), torch.ones(200_000)
    y = drop(x)
    assert y.unique().tolist() == pytest.approx([0.0, 5.0])
    assert y.mean().item() == pytest.approx(1, abs=0.02)
    assert (y == 0).float().mean().item() == pytest.approx(0.8, abs=0.01)
    drop.set_epoch(10)
    assert torch.equal(drop(x), x)
    drop.set_epoch(0)
    assert torch.equal(drop.eval()(x), x)


def test_epoch_survives_state_dict_and_copies() -> None:
    model = nn.Sequential(AnnealedDropout(0.5, 10), nn.Linear(2, 2), AnnealedDropout(0.9, 10))
    set_epoch(model, 4)
    fresh = nn.Sequential(AnnealedDropout(0.5, 10), nn.Linear(2, 2), AnnealedDropout(0.9, 10))
    fresh.load_state_dict(model.state_dict())
    assert all(isinstance(value, torch.Tensor) for value in model.state_dict().values())
    assert [fresh[0].p, fresh[2].p] == [model[0].p, model[2].p] == [pytest.approx(0.3), pytest.approx(0.54)]
    assert copy.deepcopy(model)[0].epoch == 4


def test_faults_together() -> None:
    with pytest.raises(AliveError, match=r"p0 .*got 1; epochs .*got 0; first_epoch_p .*got -1"):
        AnnealedDropout(1, 0, first_epoch_p=-1)
    with pytest.raises(AliveError, match="counted from 0"):
        AnnealedDropout().set_epoch(-1)
