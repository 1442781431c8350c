"""To Farkas and back to plain: dead networks live again, learned rows stay, and the guarantee outlives training."""

from __future__ import annotations

import copy

import pytest
import torch
from farkas_models import HandMade, holds, layers, reasons
from torch import nn

from alive import census
from alive.errors import AliveError
from alive.functional.farkas import BIAS_MODES
from alive.nn import AnnealedDropout, Rectangular, RectangularConv
from alive.nn.farkas import Farkas, FarkasConv2d, FarkasLinear, guarantees
from alive.surgery.farkas import to_farkas, to_plain
from alive_papers.networks import FarkasNet, ResNet


@pytest.mark.parametrize("mode", BIAS_MODES)
@pytest.mark.parametrize("aggregation", ["sum", "mean", "learned"])
def test_a_dead_rectangle_lives_after_conversion(aggregation, mode):
    net = Rectangular(2, 1, depth=12, width=4, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        net.hidden[5].linear.bias.fill_(-50)
    x = torch.randn(64, 2)
    assert census(net, x).points.dead == 64
    done = to_farkas(net, x, aggregation=aggregation, bias_mode=mode)
    assert layers(done) == [f"hidden.{i}.linear" for i in range(12)]
    assert reasons(done) == {"output": "no activation follows: it is the output of the model"}
    assert census(done.model, x).points.dead == 0
    assert census(net, x).points.dead == 64, "the given model is untouched"
    torch.testing.assert_close(to_plain(done.model)(x), done.model(x))


@pytest.mark.parametrize("head", ["pool", "flatten"])
def test_a_dead_convolutional_rectangle_lives_after_conversion(head):
    net = RectangularConv(1, 3, depth=6, width=4, head=head, size=(6, 6))
    with torch.no_grad():
        net.hidden[2].linear.bias.fill_(-9)
    x = torch.randn(10, 1, 6, 6)
    assert census(net, x).points.dead == 10
    done = to_farkas(net, x)
    assert len(done.converted) == 6
    holds(done.model, x)
    torch.testing.assert_close(to_plain(done.model)(x), done.model(x))


@pytest.mark.parametrize("kind", [Rectangular, RectangularConv])
def test_norms_are_converted_behind_the_layer(kind):
    sizes = (4, 1) if kind is Rectangular else (2, 1)
    net = kind(*sizes, depth=5, width=6, batch_norm=True)
    shape = (32, 4) if kind is Rectangular else (8, 2, 5, 5)
    x = torch.randn(shape)
    net(x)  # running statistics
    with torch.no_grad():
        net.hidden[3].norm.bias.fill_(-9)
    assert census(net, x).points.dead == len(x)
    done = to_farkas(net, x)
    assert [c.norm for c in done.converted] == [f"hidden.{i}.norm" for i in range(5)]
    holds(done.model, x)
    done.model.train()(x)
    holds(done.model, x * 100)
    done.model.eval()
    torch.testing.assert_close(to_plain(done.model)(x), done.model(x))


def test_a_bias_free_convolution_before_a_norm_is_guaranteed_by_the_norms_place():
    net = nn.Sequential(nn.Conv2d(3, 5, 3, bias=False), nn.BatchNorm2d(5), nn.ReLU(), nn.Conv2d(5, 2, 1))
    x = torch.randn(4, 3, 6, 6)
    net(x)
    done = to_farkas(net, x, give_up="last")
    assert layers(done) == ["0"]
    assert done.model[0].bias is None
    holds(done.model, x)
    before, after = (model.eval()[:2](x) for model in (net, done.model))
    torch.testing.assert_close(after[:, :4], before[:, :4])


def test_learned_rows_stay_and_only_the_given_up_unit_changes():
    net = nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Conv1d(1, 4, 2, bias=False), nn.ReLU())
    net[2] = nn.Linear(5, 4, bias=False)
    x = torch.randn(20, 3)
    done = to_farkas(net, x)
    for index in (0, 2):
        unit = next(c.unit for c in done.converted if c.layer == str(index))
        plain = to_plain(done.model)[index]
        others = [j for j in range(len(plain.weight)) if j != unit]
        torch.testing.assert_close(plain.weight[others], net[index].weight[others])
        bias = torch.zeros(4) if net[index].bias is None else net[index].bias
        torch.testing.assert_close(plain.bias[others], bias[others])
        torch.testing.assert_close(plain.weight[unit], -plain.weight[others].mean(0))


def test_which_unit_is_given_up():
    net = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 1))
    with torch.no_grad():
        net[0].bias.copy_(torch.tensor([0.0, -50.0, 0.0, -7.0]))
    x = torch.randn(10, 2)
    assert to_farkas(net, x).converted[0].unit == 1
    assert to_farkas(net, x, give_up="last").converted[0].unit == 3
    with pytest.raises(AliveError, match="unknown give_up"):
        to_farkas(net, x, give_up="first")


@pytest.mark.parametrize("mode", BIAS_MODES)
def test_a_bias_above_the_least_is_kept(mode):
    net = nn.Sequential(nn.Linear(2, 4), nn.ReLU())
    with torch.no_grad():
        net[0].bias.copy_(torch.tensor([-1.0, -1.0, -1.0, 20.0]))
    done = to_farkas(net, torch.randn(3, 2), give_up="last", bias_mode=mode)
    assert to_plain(done.model)[0].bias[3].item() == pytest.approx(20, rel=1e-5)


def test_a_hand_made_resnet_with_relus_in_place():
    net = HandMade()
    x = torch.randn(4, 1, 6, 6)
    done = to_farkas(net, x)
    assert layers(done) == ["stem", *(f"blocks.{k}.conv{j}" for k in range(2) for j in (1, 2))]
    assert set(reasons(done)) == {"head"}
    torch.testing.assert_close(to_plain(done.model)(x), done.model(x))
    assert "stem: converted, unit" in str(done)
    assert "head: kept, no activation follows" in str(done)


def test_a_hand_made_resnet_with_norms():
    net = HandMade(norm=True)
    x = torch.randn(4, 1, 6, 6)
    net(x)
    done = to_farkas(net, x)
    assert [(c.layer, c.norm) for c in done.converted] == [
        ("stem", None),
        *((f"blocks.{k}.conv{j}", f"blocks.{k}.bn{j}") for k in range(2) for j in (1, 2)),
    ]
    done.model.eval()
    torch.testing.assert_close(to_plain(done.model)(x), done.model(x))
    done.model.train()(x).sum().backward()
    assert done.model.stem.weight.grad.any()


def test_our_plain_resnet():
    net = ResNet(1, 3, stages=(1, 1), base=4)
    x = torch.rand(4, 1, 8, 8)
    done = to_farkas(net, x)
    inner = ["stages.0.0.hidden.0.conv", "stages.0.0.last.conv", "stages.1.0.conv", "stages.1.1.hidden.0.conv"]
    assert layers(done) == ["stem.conv", *inner, "stages.1.1.last.conv"]


class Basic(nn.Module):
    """A block as in the ResNets of others: a projection where the shape changes, ReLU behind the sum or before it."""

    def __init__(self, inputs: int, width: int, stride: int = 1, *, first: bool = False) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(inputs, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = nn.Conv2d(width, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width)
        self.downsample, self.first = None, first
        if stride > 1 or inputs != width:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, width, 1, stride, bias=False), nn.BatchNorm2d(width))
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(self.relu(x.clone()) if self.first else x)))))
        out += x if self.downsample is None else self.downsample(x)
        return out if self.first else self.relu(out)


def resnet(*, first: bool = False) -> nn.Sequential:
    stem = (nn.Conv2d(3, 8, 3, 1, 1), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1))
    blocks = (Basic(8, 8, first=first), Basic(8, 12, 2, first=first), Basic(12, 12, first=first))
    return nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(12, 5))


def met_by_relus(model: nn.Module, x: torch.Tensor) -> list[torch.Tensor]:
    """All that comes to a ReLU, in order."""
    seen: list[torch.Tensor] = []
    hooks = [
        m.register_forward_pre_hook(lambda _, z: seen.append(z[0].clone()))
        for m in model.modules()
        if isinstance(m, nn.ReLU)
    ]
    model(x)
    for hook in hooks:
        hook.remove()
    return seen


@pytest.mark.law
@pytest.mark.parametrize("aggregation", ["mean", "sum"])
def test_the_sums_of_a_resnet_live_at_every_input_and_position(aggregation):
    net = resnet()
    x = torch.randn(6, 3, 12, 12)
    net(x)
    with torch.no_grad():
        for norm in (m for m in net.modules() if isinstance(m, nn.BatchNorm2d)):
            norm.bias.fill_(-9.0)  # everything is dead
    assert census(net.eval(), x).points.dead == 6
    done = to_farkas(net, x, aggregation=aggregation)
    assert set(layers(done)) == {"0", "5.downsample.0", *(f"{k}.conv{j}" for k in (4, 5, 6) for j in (1, 2))}
    units = {c.layer: (c.unit, c.beside) for c in done.converted}
    assert units["5.conv2"] == (units["5.downsample.0"][0], ("5.downsample.0",))
    assert units["5.downsample.0"][1] == ("5.conv2",)
    assert units["4.conv2"][1] == ()
    for mode in (True, False):
        done.model.train(mode)
        for scale in (0.0, 1.0, 100.0):
            for z in met_by_relus(done.model, scale * torch.randn(5, 3, 12, 12)):
                assert float(z.detach().amax(1).min()) >= 1e-3 - 2e-4 * scale
    torch.testing.assert_close(to_plain(done.model.eval())(x), done.model(x), atol=1e-4, rtol=1e-4)


def test_a_skip_that_may_be_negative_and_a_learned_mixture_of_two_are_refused():
    x = torch.randn(6, 3, 12, 12)
    before = to_farkas(resnet(first=True), x)
    assert "after the norm goes to add" in reasons(before)["4.conv2"]
    assert "4.conv1" in layers(before)
    learned = reasons(to_farkas(resnet(), x, aggregation="learned"))
    assert set(learned) == {"5.conv2", "5.downsample.0", "9"}
    assert "one mixture" in learned["5.conv2"]


def test_a_branch_whose_partner_stays_stays_too():
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.other = nn.Linear(3, 4), nn.Linear(3, 4)
            self.twin = self.other

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (self.one(x) + self.other(x)).relu()

    done = to_farkas(Two(), torch.randn(5, 3))
    assert not done.converted
    assert reasons(done)["one"] == "it is added to what other makes, which stays as it is"


@pytest.mark.parametrize("norm", [False, True])
def test_transposed_convolutions_get_their_unit_behind_them(norm):
    net = nn.Sequential(
        nn.ConvTranspose2d(2, 5, 3, stride=2, bias=not norm), nn.BatchNorm2d(5) if norm else nn.Identity(), nn.ReLU(),
        nn.ConvTranspose2d(5, 4, 2, groups=1), nn.ReLU(), nn.ConvTranspose1d(4, 4, 1, groups=2), nn.ReLU(),
    )  # fmt: skip
    net[5] = nn.Flatten(2)
    net.append(nn.ConvTranspose1d(4, 4, 3, groups=2))
    net.append(nn.ReLU())
    x = torch.randn(4, 2, 5, 5)
    net(x)
    with torch.no_grad():
        (net[1] if norm else net[0]).bias.fill_(-50.0)
    assert census(net.eval(), x).points.dead == 4
    done = to_farkas(net, x)
    assert layers(done) == ["0", "3"]
    assert "in groups" in reasons(done)["7"]
    for z in met_by_relus(done.model, 10 * x)[:2]:
        assert float(z.detach().amax(1).min()) > 9e-4
    torch.testing.assert_close(to_plain(done.model)(x), done.model(x))


def test_groups_keep_their_shape():
    net = nn.Sequential(nn.Conv2d(4, 8, 3, groups=2, padding=1), nn.ReLU(), nn.Conv2d(8, 2, 1))
    x = torch.randn(3, 4, 5, 5)
    for give_up in ("quietest", "last"):
        done = to_farkas(net, x, give_up=give_up)
        unit = done.converted[0].unit
        others = [j for j in range(8) if j != unit]
        torch.testing.assert_close(done.model[0](x)[:, others], net[0](x)[:, others])
        holds(done.model, x)
        torch.testing.assert_close(to_plain(done.model)(x), done.model(x))
    grouped_norm = nn.Sequential(nn.Conv2d(4, 8, 3, groups=2), nn.BatchNorm2d(8), nn.ReLU())
    assert "groups would be uneven" in reasons(to_farkas(grouped_norm, x))["0"]


def test_other_activations_and_their_cutoffs():
    net = nn.Sequential(nn.Linear(3, 4), nn.ELU(), nn.Linear(4, 4), nn.GELU(), nn.Linear(4, 4), nn.Softplus())
    done = to_farkas(net, torch.randn(5, 3))
    floors = [m.rule.floor for m in done.model.modules() if isinstance(m, Farkas)]
    assert floors == pytest.approx([-2.3016, 0.001, -2.1962], abs=1e-3)
    papers = to_farkas(net, torch.randn(5, 3), bias_mode="paper")
    assert layers(papers) == ["2"]
    assert "'paper' has cutoff 0" in reasons(papers)["0"]


def test_in_place_and_modes_and_types_are_kept():
    net = Rectangular(2, 1, depth=3, width=4, batch_norm=True, dropout=lambda: AnnealedDropout(0.5)).double()
    net.hidden[1].eval()
    net.hidden[0].linear.weight.requires_grad_(False)
    x = torch.randn(5, 2, dtype=torch.float64)
    done = to_farkas(net, x, inplace=True)
    assert done.model is net
    assert net.training
    assert not net.hidden[1].linear.training
    assert not net.hidden[0].linear.weight.requires_grad
    assert net.hidden[2].linear.weight.requires_grad
    assert all(p.dtype == torch.float64 for p in net.parameters())
    assert net(x).dtype == torch.float64
    assert to_plain(net, inplace=True) is net
    assert not guarantees(net)


def test_the_callers_random_state_is_left_alone():
    net, x = HandMade(norm=True), torch.randn(4, 1, 6, 6)
    state = torch.get_rng_state()
    to_plain(to_farkas(net, x).model)
    assert torch.equal(torch.get_rng_state(), state)


def test_a_converted_network_trains_on_and_keeps_its_guarantee():
    net = Rectangular(2, 1, depth=4, width=4)
    x = torch.randn(32, 2)
    model = to_farkas(net, x, aggregation="learned", bias_mode="softplus").model
    optimiser = torch.optim.Adam(model.parameters(), lr=0.05)
    for _ in range(20):
        optimiser.zero_grad()
        model(x).mean().backward()
        optimiser.step()
    holds(model, x * 10)
    torch.testing.assert_close(to_plain(model)(x), model(x), rtol=1e-4, atol=1e-4)


def test_to_plain_of_a_layer_a_shared_layer_and_a_network():
    assert type(to_plain(FarkasConv2d(2, 3, 1))) is nn.Conv2d
    layer = FarkasLinear(4, 4)
    twice = to_plain(nn.Sequential(layer, nn.ReLU(), layer))
    assert twice[0] is twice[2]
    net = FarkasNet(1, 2, stages=(1, 1), base=4)
    before = copy.deepcopy(net.state_dict())
    x = torch.rand(2, 1, 4, 4)
    torch.testing.assert_close(to_plain(net)(x), net(x))
    assert all(torch.equal(before[name], value) for name, value in net.state_dict().items())
