"""What to_farkas leaves as it is, and why; which layers it is asked for; what it refuses."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from farkas_models import layers, reasons
from torch import Tensor, nn

from alive.errors import AliveError
from alive.nn import Rectangular
from alive.nn.farkas import FarkasLinear
from alive.surgery.farkas import to_farkas


class Odd(nn.Module):
    """One of each kind that is not converted."""

    def __init__(self) -> None:
        super().__init__()

        class Own(nn.Linear):
            pass

        self.own = Own(4, 4)
        self.shared = nn.Linear(4, 4)
        self.tied_a, self.tied_b = nn.Linear(4, 4), nn.Linear(4, 4)
        self.tied_b.weight = self.tied_a.weight
        self.one = nn.Linear(4, 1)
        self.wide = nn.Linear(1, 4)
        self.six = nn.Linear(4, 4)
        self.normed = nn.Linear(4, 4)
        self.norm = nn.LayerNorm(4)
        self.dropped = nn.Linear(4, 4)
        self.unused = nn.Linear(4, 4)
        self.weighted = nn.utils.parametrizations.weight_norm(nn.Linear(4, 4))
        self.farkas = FarkasLinear(4, 4)
        self.depth = nn.Conv1d(4, 4, 1, groups=4)

    def forward(self, x: Tensor) -> Tensor:
        x = self.own(x).relu()
        x = self.shared(self.shared(x).relu()).relu()
        x = self.tied_b(self.tied_a(x).relu()).relu()
        x = self.wide(self.one(x).relu()).tanh()
        x = F.relu6(self.six(x))
        x = self.norm(self.normed(x)).relu()
        x = F.dropout(self.dropped(x), training=self.training).relu()
        x = self.weighted(x).relu()
        x = self.farkas(x).relu()
        return self.depth(x[..., None]).relu()[..., 0]


def test_what_is_kept_and_why():
    net = Odd()
    state = {name: value.clone() for name, value in net.state_dict().items()}
    done = to_farkas(net, torch.randn(5, 4))
    why = reasons(done)
    assert done.converted == ()
    expected = {
        "own": "Own is a layer of its own kind",
        "shared": "shared",
        "tied_a": "shared",
        "tied_b": "shared",
        "one": "one unit",
        "wide": "goes to tanh",
        "six": "saturates on both sides",
        "normed": "goes to layer_norm",
        "dropped": "goes to dropout, which may silence any unit",
        "unused": "the example did not run through it",
        "weighted": "layer of its own kind",
        "farkas": "it has its guarantee already",
        "depth": "would give up its channel",
    }
    assert set(why) == set(expected)
    for layer, words in expected.items():
        assert words in why[layer], layer
    for name, value in net.state_dict().items():
        assert torch.equal(value, state[name])


def test_a_norm_whose_input_is_read_elsewhere_too():
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear, self.norm = nn.Linear(3, 4), nn.BatchNorm1d(4)

        def forward(self, x: Tensor) -> Tensor:
            y = self.linear(x)
            return self.norm(y).relu() + y.sum(1, keepdim=True)

    done = to_farkas(Twice(), torch.randn(5, 3))
    # `read elsewhere` happens after the activation, so that the whole pass must be known before it is decided
    assert "more than the norm reads its output" in reasons(done)["linear"]


def test_an_encoder_layer_that_reads_weights_past_the_forward_is_left_alone():
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dropout=0.0)
    net = nn.Sequential(layer, nn.Linear(8, 4), nn.ReLU())
    x = torch.randn(3, 5, 8)
    done = to_farkas(net, x)
    assert layers(done) == ["1"]
    assert "reads its weight past its forward" in reasons(done)["0.linear1"]
    with torch.no_grad():  # torch takes its fast path here
        assert torch.equal(done.model.eval()[0](x), net.eval()[0](x))


def test_only_the_layers_asked_for():
    net = Rectangular(2, 1, depth=3, width=4)
    done = to_farkas(net, torch.randn(5, 2), layers=["hidden.1.*"])
    assert layers(done) == ["hidden.1.linear"]
    assert "that was asked for" in reasons(done)["hidden.0.linear"]
    with pytest.raises(AliveError, match="no tap matches"):
        to_farkas(net, torch.randn(5, 2), layers=["hiden*"])


def test_batches_of_other_forms_and_models_without_activations():
    class Named(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(3, 4)

        def forward(self, *, features: Tensor) -> Tensor:
            return self.linear(features).relu()

    assert layers(to_farkas(Named(), {"features": torch.randn(2, 3)})) == ["linear"]
    sequence = nn.Sequential(nn.Linear(3, 4), nn.ReLU())
    done = to_farkas(sequence, torch.randn(2, 7, 3))
    assert (done.model[0](torch.randn(2, 7, 3)).amax(-1) > 9e-4).all()
    with pytest.raises(AliveError, match="no one-sided activation ran"):
        to_farkas(nn.Sequential(nn.Linear(3, 4), nn.Tanh()), torch.randn(2, 3))
    with pytest.raises(AliveError, match="could not run"):
        to_farkas(sequence, torch.randn(2, 5))
    with pytest.raises(AliveError, match="unknown aggregation"):
        to_farkas(sequence, torch.randn(2, 3), aggregation="median")


class TwoCalls(nn.Module):
    """Two layers before one norm."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.norm = nn.Linear(3, 4), nn.Linear(4, 4), nn.BatchNorm1d(4)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(self.b(self.norm(self.a(x)).relu())).relu()


class TwoNames(TwoCalls):
    """One norm under two names."""

    def __init__(self) -> None:
        super().__init__()
        self.alias = self.norm

    def forward(self, x: Tensor) -> Tensor:
        return self.b(self.alias(self.a(x)).relu())


@pytest.mark.parametrize("kind", [TwoCalls, TwoNames])
def test_a_shared_norm_keeps_its_layers(kind):
    x = torch.randn(5, 3)
    done = to_farkas(kind(), x)
    assert "norm behind it is shared" in reasons(done)["a"]
    assert done.converted == ()
    assert done.model(x).shape == (5, 4)


def test_layers_with_one_bias_stay_tied():
    net = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4), nn.ReLU())
    net[2].bias = net[0].bias
    assert {
        "its bias is used more than once" in reason for reason in reasons(to_farkas(net, torch.ones(2, 4))).values()
    }


@pytest.mark.filterwarnings("ignore:.*weight_norm.*:FutureWarning")
@torch.no_grad()
def test_weights_that_hooks_compute_are_kept():
    """Such weights are new tensors at every call, which may come to lie where others were: in some nets of many."""
    for _ in range(40):
        net = nn.Sequential(*(part for _ in range(6) for part in (nn.utils.weight_norm(nn.Linear(4, 4)), nn.ReLU())))
        done = to_farkas(net, torch.randn(5, 4), inplace=True)
        assert layers(done) == []
        assert set(reasons(done).values()) == {
            "the example did not run through it, or its weight is computed on the way"
        }
