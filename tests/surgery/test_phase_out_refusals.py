"""What phase_out refuses, and in which words."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest
import torch
from residual_models import Net, Shapeless
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import prune

from alive.errors import AliveError
from alive.penalties import Jumpstart
from alive.surgery.phase_out import phase_out


class Unfollowed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.f = nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.f(x) if x.sum() > 0 else x


class Helped(Unfollowed):
    def forward(self, x: Tensor) -> Tensor:
        return self._of(x) if x.sum() > 0 else x

    def _of(self, x: Tensor) -> Tensor:
        return torch.add(x, self.f(x))


class Trained(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.f = nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        return x + F.dropout(self.f(x), 0.5, self.training)


class Broadcast(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.f = nn.Conv2d(3, 3, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        return self.f(x) + x.mean((2, 3), keepdim=True)


X, IMAGES = torch.randn(2, 3), torch.randn(2, 3, 4, 4)


@pytest.mark.parametrize(
    ("model", "settings", "says"),
    [
        (nn.Sequential(Unfollowed()), {}, r"forward of 0 \(Unfollowed\) cannot be followed.*blocks="),
        (nn.Sequential(Helped()), {}, r"forward of 0 \(Helped\) cannot be followed"),
        (nn.Sequential(Trained()), {}, "reads self.training, .*nn.Dropout"),
        (nn.Sequential(Broadcast()), {"example": IMAGES}, r"in 0 the skip has shape \[2, 3, 1, 1\] and the branch"),
        (nn.Sequential(Shapeless()), {}, "shape of the skip of 0 is unknown.*example"),
        (nn.Sequential(nn.TransformerEncoderLayer(4, 2)), {}, r"forward of 0 \(TransformerEncoderLayer\)"),
        (nn.Sequential(nn.Linear(3, 3)), {}, "no skip connection that could be found"),
        (Net(), {"blocks": ["layer3.0"]}, "no block 'layer3.0'.*did you mean"),
        (Net(), {"blocks": [("layer1.0", "shortcut")]}, "adds nothing that comes through 'shortcut'.*conv1"),
        (Net(), {"blocks": ["stem.0"]}, "stem.0 has no sum"),
        (Net(), {"order": "one", "alpha": "chanel"}, "unknown order.*did you mean 'channel'"),
        (Net(), {"alpha": "neuron"}, "needs an example"),
    ],
)
def test_what_cannot_be_done_is_named(model, settings, says):
    with pytest.raises(AliveError, match=says):
        phase_out(model, **settings)


class Counting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.f, self.calls = nn.Linear(3, 3), 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return x + self.f(x) * self.calls


class Asking(nn.Module):
    """Asks about the world, whose answer a graph takes for a constant."""

    def __init__(self) -> None:
        super().__init__()
        self.f = nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.f(x) * (2.0 if torch.is_grad_enabled() else 1.0)


def test_what_changes_from_call_to_call_is_refused():
    with pytest.raises(AliveError, match="changes from call to call"):
        phase_out(Counting(), X)
    with pytest.raises(AliveError, match="gated copy differs from the model by"):
        phase_out(Asking(), X)


def test_an_attached_model_is_refused():
    net = Net()
    with Jumpstart(net), pytest.raises(AliveError, match="attached"):
        phase_out(net)


class Skipped(nn.Module):
    """Stochastic depth by hand: the block is left out at random, in training."""

    def __init__(self, draw: Callable[[], float]) -> None:
        super().__init__()
        self.f, self.draw = nn.Linear(3, 3), draw

    def forward(self, x: Tensor) -> Tensor:
        if self.training and self.draw() < 0.1:
            return x
        return x + self.f(x)


@pytest.mark.parametrize(
    "draw",
    [lambda: torch.rand(()).item(), random.random, lambda: float(np.random.random())],  # noqa: NPY002
)
def test_chance_is_never_frozen(draw):
    """However the draw falls while the forward is followed; and the caller's random numbers are left alone."""
    model = nn.Sequential(Skipped(draw))
    for _ in range(5):
        draw()
        states = torch.get_rng_state(), random.getstate(), str(np.random.get_state())  # noqa: NPY002
        with pytest.raises(AliveError, match=r"draws random numbers"):
            phase_out(model)
        assert torch.equal(torch.get_rng_state(), states[0])
        assert (random.getstate(), str(np.random.get_state())) == states[1:]  # noqa: NPY002


class Masked(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.f, self.shortcut = nn.Linear(3, 3), nn.Identity()

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        y = self.f(x)
        if mask is not None:
            y = y * mask
        return self.shortcut(x) + y


def test_an_argument_that_may_be_absent_is_not_taken_for_given():
    with pytest.raises(AliveError, match=r"asks whether mask was given.*blocks="):
        phase_out(nn.Sequential(Masked()), X)
    gated = phase_out(nn.Sequential(Masked()), X, blocks=[("0", "shortcut")])
    assert gated[0](X, mask=torch.zeros(3)).shape == X.shape


class Weighted(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.f = nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        return torch.add(self.f(x), x, alpha=0.5)


@pytest.mark.parametrize("settings", [{}, {"blocks": [("0", "x")]}])
def test_a_sum_with_a_factor_is_no_plain_sum(settings):
    with pytest.raises(AliveError, match=r"takes one side alpha = 0.5 times"):
        phase_out(nn.Sequential(Weighted()), **settings)


def test_a_model_that_torch_cannot_copy_is_named():
    model = nn.Sequential(Trained())
    prune.random_unstructured(model[0].f, "weight", 0.5)
    model(X)
    with pytest.raises(AliveError, match=r"Sequential cannot be copied: .*prune.remove"):
        phase_out(model, X)
    with torch.inference_mode(), pytest.raises(AliveError, match="can never be trained"):
        phase_out(Net())
