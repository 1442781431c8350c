"""Standardise and with_batch_norm: against sklearn, and against torch's own batch norm by hand."""

from __future__ import annotations

import pytest
import torch
from sklearn.preprocessing import StandardScaler
from torch import nn

from alive.errors import AliveError
from alive.nn import Standardise, with_batch_norm


def test_standardise_is_sklearns_scaler_also_on_points_it_has_not_seen() -> None:
    x = torch.randn(50, 3, dtype=torch.float64) * torch.tensor([1e-3, 1.0, 1e4]) + torch.tensor([5.0, 0.0, -1e4])
    new = torch.randn(7, 3, dtype=torch.float64)
    scaler = StandardScaler().fit(x.numpy())
    torch.testing.assert_close(Standardise(x)(new), torch.from_numpy(scaler.transform(new.numpy())))


def test_a_feature_that_never_varies_is_centred_and_not_blown_up() -> None:
    x = torch.full((100, 1), 0.1)  # 0.1 is no float: a mean of a hundred of them may be off by a rounding
    assert Standardise(x)(x).abs().max() < 1e-6
    assert Standardise(x)(torch.tensor([[1.1]])).item() == pytest.approx(1.0)


@pytest.mark.parametrize("x", [torch.arange(6).view(2, 3), torch.zeros(0, 2), torch.zeros(3), [1.0, 2.0]])
def test_what_has_no_scale_is_refused(x: object) -> None:
    with pytest.raises(AliveError, match="real points"):
        Standardise(x)


def test_batch_norm_stands_behind_each_hidden_layer_and_the_model_is_left_alone() -> None:
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 8), nn.ReLU(), nn.Linear(8, 2))
    x, before = torch.randn(5, 1, 8, 8), [p.clone() for p in model.parameters()]
    twin = with_batch_norm(model)
    z = nn.BatchNorm2d(4)(model[0](x)).relu().flatten(1)
    by_hand = model[5](nn.BatchNorm1d(8)(model[3](z)).relu())
    torch.testing.assert_close(twin(x), by_hand)
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))
    assert not any(isinstance(part, nn.BatchNorm1d) for part in model.modules())


def test_tokens_are_normed_by_feature() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))
    tokens = torch.randn(6, 5, 3)
    z = model[0](tokens)
    normed = (z - z.mean((0, 1))) / (z.var((0, 1), correction=0) + 1e-5).sqrt()
    torch.testing.assert_close(with_batch_norm(model)(tokens), model[2](normed.relu()))


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (nn.Sequential(nn.Linear(2, 2), nn.LayerNorm(2), nn.Linear(2, 1)), "norms already, such as 1"),
        (nn.Sequential(nn.Linear(2, 1)), "no hidden layer"),
        (nn.ReLU(), "no dense or convolutional layer"),
    ],
)
def test_models_that_cannot_have_it_are_refused(model: nn.Module, said: str) -> None:
    with pytest.raises(AliveError, match=said):
        with_batch_norm(model)
