"""The softer measures against their formulas, written out by hand with hooks of torch."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import alive
from alive.diagnosis import dormancy
from alive.errors import AliveError


def by_hand(model, x, y, loss):
    """h [N, C, positions] of every ReLU, and the gradient there."""
    seen = []

    def hook(module, args, output):
        output.retain_grad()
        seen.append(output)

    handles = [m.register_forward_hook(hook) for m in model.modules() if isinstance(m, nn.ReLU)]
    loss(model(x), y).backward()
    for handle in handles:
        handle.remove()
    return [(h.detach().flatten(2) if h.ndim > 2 else h.detach()[..., None], h.grad) for h in seen]


@pytest.mark.twin
@pytest.mark.parametrize("kind", ["dense", "conv"])
def test_measures_are_their_formulas(kind):
    if kind == "dense":
        model = nn.Sequential(nn.Linear(5, 12), nn.ReLU(), nn.Linear(12, 9), nn.ReLU(), nn.Linear(9, 3))
        x = torch.randn(64, 5)
    else:
        model = nn.Sequential(nn.Conv2d(1, 6, 3), nn.ReLU(), nn.Flatten(), nn.Linear(216, 3))
        x = torch.randn(64, 1, 8, 8)
    model[0].bias.data[:2] = -9.0
    y, loss = torch.randint(3, (64,)), nn.functional.cross_entropy
    found = dormancy(model, (x, y), loss=loss)
    assert all(p.grad is None for p in model.parameters())
    hand = by_hand(model, x, y, loss)
    assert len(found.layers) == len(hand)
    for layer, (h, gradient) in zip(found.layers, hand, strict=True):
        size = h.abs().mean((0, 2))
        score = size / size.mean()
        torch.testing.assert_close(layer.scores.float(), score)
        assert layer.dormant(0.3).tolist() == (score <= 0.3).nonzero().flatten().tolist()
        arrived = gradient.reshape(h.shape).abs().mean((0, 2))
        torch.testing.assert_close(layer.gradient_scores.float(), arrived / arrived.mean(), rtol=1e-4, atol=1e-6)
        values = torch.linalg.svdvals(h.mean(2).double())
        values = values[values > 1e-5 * values[0]]
        share = values / values.sum()
        assert layer.effective_rank == pytest.approx(float((-(share * share.log()).sum()).exp()), rel=1e-4)
        assert layer.stable_rank == pytest.approx(float(values.square().sum() / values[0] ** 2), rel=1e-4)
    assert found.layers[0].weight_norm == pytest.approx(float(model[0].weight.detach().norm()))
    assert set(found.layers[0].dormant(0.0).tolist()) == {0, 1}


def test_parts_add_up_and_nothing_is_left_behind():
    model = nn.Sequential(nn.Linear(5, 12), nn.ReLU(), nn.Linear(12, 1)).train()
    x = torch.randn(100, 5)
    whole, parts = dormancy(model, x), dormancy(model, x[:30]) + dormancy(model, x[30:])
    torch.testing.assert_close(parts["1"].scores, whole["1"].scores)
    assert parts["1"].effective_rank == pytest.approx(whole["1"].effective_rank)
    assert whole.share(0.1, gradient=True) is None
    assert model.training
    assert not model._forward_hooks
    assert "effective rank" in str(whole)


def test_a_layer_that_is_silent_is_all_dormant():
    model = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
    model[0].bias.data.fill_(-99.0)
    found = dormancy(model, torch.rand(9, 2))
    assert (found.share(0.0), found["1"].effective_rank, found["1"].stable_rank) == (1.0, 0.0, 0.0)


def test_unknown_units_are_said_to_be():
    class Mixed(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(3, 4), nn.Linear(6, 5)

        def forward(self, x):
            return torch.relu(self.b(self.a(x).transpose(0, 1)))

    found = dormancy(Mixed(), torch.randn(6, 3))
    assert found.layers[0].scores is None
    assert found.layers[0].why
    assert found.share() is None
    with pytest.raises(AliveError, match="no one-sided activation"):
        dormancy(nn.Linear(2, 2), torch.rand(3, 2))


@pytest.mark.parametrize("look", [alive.census, dormancy])
def test_looking_leaves_a_penalty_at_work(look):
    """What a census computes of its own is not taken for the model's, and no warning says that layers are lost."""
    model = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1))
    x = torch.randn(16, 5)
    with alive.Jumpstart(model, 0.1) as keep:
        model(x)
        wanted = keep.penalty()
        for size in (16, 64, 16, 64):
            look(model, torch.randn(64, 5))
            model(torch.randn(size, 5))
            keep.penalty()
        look(model, torch.randn(64, 5))
        model(x)
        assert torch.equal(keep.penalty(), wanted)
