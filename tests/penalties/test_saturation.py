"""A ceiling on pre-activations, and both saturations of tanh and sigmoid: against the formula written out."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch import Tensor, nn

from alive.errors import AliveError
from alive.penalties import Jumpstart


def by_hand(z: Tensor, low: float, high: float, ceiling: float, share: float) -> Tensor:
    """Units and points of [N, C] or, over positions too, of [N, C, H, W]."""
    total = torch.zeros(())
    for over in ((0, *range(2, z.dim())), tuple(range(1, z.dim()))):
        top, bottom = z.amax(over), z.amin(over)
        s = (top - ceiling).relu() + share * (1 + low - top).relu() + (1 - share) * (1 - high + bottom).relu()
        total = total + s.square().mean()
    return total


@pytest.mark.law
@pytest.mark.parametrize("kind", ["dense", "conv"])
@pytest.mark.parametrize(("activation", "end"), [(nn.Tanh, 1.8184464592320668), (nn.Sigmoid, 3.636892918464134)])
def test_both_saturations_are_measured_from_their_own_end(activation, end, kind):
    torch.manual_seed(0)
    layer = nn.Linear(3, 6) if kind == "dense" else nn.Conv2d(3, 6, 2)
    model = nn.Sequential(layer, activation(), nn.Flatten(), nn.Linear(6 if kind == "dense" else 54, 1))
    x = torch.randn(9, 3) if kind == "dense" else torch.randn(9, 3, 4, 4)
    with torch.no_grad():
        layer.bias[:3] = torch.tensor([12.0, -12.0, 5.0])
    with Jumpstart(model, 1.0, two_sided=True, ceiling=4.0, balance=0.3) as keep, warnings.catch_warnings():
        warnings.simplefilter("error")
        model(x)
        told = keep.penalty()
        model(x)
        again = keep.penalty()
    torch.testing.assert_close(told, by_hand(layer(x), -end, end, 4.0, 0.3))
    torch.testing.assert_close(again, told)
    told.backward()
    assert layer.bias.grad[0] > 0 > layer.bias.grad[1]  # down from the top, up from the bottom
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())


def test_a_ceiling_is_added_to_the_separation():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 6), nn.ReLU(), nn.Linear(6, 4), nn.ReLU(), nn.Linear(4, 1))
    x = 5 * torch.randn(20, 3)

    def told(**options):
        with Jumpstart(model, 1.0, **options) as keep:
            model(x)
            return keep.penalty().detach()

    with torch.no_grad():
        seen = [model[0](x), model[:3](x)]
        over = [torch.stack([(z.amax(d) - 0.5).relu().square().mean() for z in seen]).mean() for d in (0, 1)]
    torch.testing.assert_close(told(ceiling=0.5), told() + sum(over))
    assert torch.equal(told(ceiling=1e9), told())
    assert torch.equal(told(two_sided=True), told())  # nothing two-sided here


@pytest.mark.parametrize(
    ("options", "says"),
    [({"ceiling": 0.0}, "above 0"), ({"ceiling": 1.0, "aggregate": "sumsq", "weight": 1e-4}, "go with 'meansq'")],
)
def test_what_does_not_fit_is_refused(options, says):
    with pytest.raises(AliveError, match=says):
        Jumpstart(nn.Sequential(nn.Linear(2, 2), nn.ReLU()), **options)


def test_without_two_sided_a_tanh_alone_is_refused():
    model = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1))
    with Jumpstart(model) as keep:
        model(torch.randn(4, 2))
        with pytest.raises(AliveError, match="one-sided"):
            keep.penalty()


def test_a_network_of_tanh_alone_trains_and_leaves_its_ends():
    from alive.data import moons
    from alive.train import Settings, train

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 1))
    with torch.no_grad():
        model[2].bias.copy_(torch.tensor([20.0, -20.0] * 4))  # every unit is at one end
    with Jumpstart(model, two_sided=True) as keep:
        train(model, moons(), Settings(epochs=300, lr=0.05), keep=keep)
    z = model[:3](moons().train_x).detach()
    assert float(z.amin(0).max()) < 1.8184464592320668
    assert float(z.amax(0).min()) > -1.8184464592320668
