"""Finding the skips of models we did not write, and gating them without changing what they compute."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from alive.errors import AliveError
from alive.nn.skips import COMPARED
from alive.nn.van import Gate
from alive.penalties import Jumpstart
from alive.penalties.van import VANController
from alive.surgery.fold import fold
from alive.surgery.phase_out import GatedSkip, phase_out


class Basic(nn.Module):
    """A residual block as most people write it: in-place ReLU, `+=`, a projection where the size changes."""

    def __init__(self, inputs: int, outputs: int, stride: int = 1) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.downsample = None
        if stride > 1 or inputs != outputs:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x: Tensor) -> Tensor:
        identity = x
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        if self.downsample is not None:
            identity = self.downsample(x)
        out += identity
        return self.relu(out)


class Net(nn.Module):
    """Two stages of two blocks; its own forward asks for a shape, so that it must stay as it is."""

    def __init__(self, classes: int = 10, base: int = 4) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, base, 3, 1, 1, bias=False), nn.BatchNorm2d(base), nn.ReLU(inplace=True))
        self.layer1 = nn.Sequential(Basic(base, base), Basic(base, base))
        self.layer2 = nn.Sequential(Basic(base, 2 * base, 2), Basic(2 * base, 2 * base))
        self.fc = nn.Linear(2 * base, classes)

    def forward(self, x: Tensor) -> Tensor:
        if x.dim() != 4:
            raise ValueError("images, please")
        return self.fc(F.adaptive_avg_pool2d(self.layer2(self.layer1(self.stem(x))), 1).flatten(1))


class Written(nn.Module):
    """One block, its forward given as a function of (self, x)."""

    def __init__(self, forward, **children: nn.Module) -> None:
        super().__init__()
        self.said = forward
        for name, child in children.items():
            self.add_module(name, child)

    def forward(self, x: Tensor) -> Tensor:
        return self.said(self, x)


def gates(model: nn.Module) -> dict[str, Gate]:
    return {path: module for path, module in model.named_modules() if isinstance(module, Gate)}


def test_a_resnet_with_in_place_relu_and_projections_is_gated_to_the_bit():
    net = Net()
    x = torch.randn(3, 1, 8, 8)
    gated = phase_out(net, x)
    assert {path: tuple(gate.alpha.shape) for path, gate in gates(gated).items()} == {
        "layer1.0.gate": (4,),
        "layer1.1.gate": (4,),
        "layer2.0.gate": (8,),
        "layer2.1.gate": (8,),
    }
    assert torch.equal(net.eval()(x), gated.eval()(x))
    assert type(gated) is Net
    assert list(VANController(gated, 0.1).gates) == list(gates(gated))
    assert not gates(net)


def test_the_state_dict_keeps_its_names():
    net = Net()
    added = set(phase_out(net).state_dict()) - set(net.state_dict())
    assert set(net.state_dict()) <= set(phase_out(net).state_dict())
    assert {name.rpartition(".")[0] for name in added} == set(gates(phase_out(net)))


def test_without_an_example_the_widths_come_from_the_layers():
    with_one = phase_out(Net(), torch.randn(2, 1, 8, 8))
    assert [g.alpha.shape for g in gates(phase_out(Net())).values()] == [
        g.alpha.shape for g in gates(with_one).values()
    ]


@pytest.mark.twin
def test_a_gated_block_computes_equation_4_and_its_gradients():
    block = Basic(2, 4, 2).eval()
    gated = phase_out(nn.Sequential(block)).eval()
    gate = gates(gated)["0.gate"]
    nn.init.uniform_(gate.alpha)
    x = torch.randn(3, 2, 6, 6)
    f = block.bn2(block.conv2(F.relu(block.bn1(block.conv1(x)))))
    expected = F.relu(f + (1 - gate.alpha)[:, None, None] * block.downsample(x))
    torch.testing.assert_close(gated(x), expected)
    gated(x).square().sum().backward()
    (by_hand,) = torch.autograd.grad(expected.square().sum(), gate.alpha)
    torch.testing.assert_close(gate.alpha.grad, by_hand)


def test_gated_models_train_copy_and_pickle():
    gated = phase_out(Net())
    x = torch.randn(4, 1, 8, 8)
    control = VANController(gated, phase_out_steps=3)
    for _ in range(4):
        gated(x).square().mean().backward()
        control.step()
    assert control.done
    for twin in (copy.deepcopy(gated), pickle.loads(pickle.dumps(gated))):
        assert torch.equal(twin.eval()(x), gated.eval()(x))
        assert VANController(twin, 0.1).done


def branch() -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 3, 3, padding=1), nn.ReLU(), nn.Conv2d(3, 3, 3, padding=1))


def late(self, x):
    out = self.f(x)
    out += x
    return F.relu(out) + out.mean()


def plus_into_input(self, x):
    x = x * 1
    skip = x
    x = self.f(x)
    skip += x
    return skip


WAYS = {
    "plus": lambda self, x: x + self.f(x),
    "plus the other way": lambda self, x: self.f(x) + x,
    "torch.add": lambda self, x: torch.add(self.f(x), x),
    "method": lambda self, x: self.f(x).add(x),
    "method in place": lambda self, x: self.f(x).add_(x),
    "relu behind": lambda self, x: torch.relu_(self.f(x) + x),
    "in place and read again": late,
    "into the skip": plus_into_input,
    "a branch that first changes its input": lambda self, x: self.f(x.relu_()) + x,
    "a constant": lambda self, x: x + self.f(x) + 1.0,
}


@pytest.mark.parametrize("way", WAYS)
def test_every_way_of_writing_a_sum(way):
    model = Written(WAYS[way], f=branch())
    x = torch.randn(2, 3, 5, 5)
    gated = phase_out(model, x)
    assert len(gates(gated)) == 1
    gate = next(iter(gates(gated).values()))
    nn.init.ones_(gate.alpha)
    without = {"in place and read again": lambda f: F.relu(f) + f.mean(), "relu behind": torch.relu}
    f = without.get(way, lambda f: f)(model.f(x.relu() if "changes its input" in way else x))
    torch.testing.assert_close(gated(x), f + 1 if way == "a constant" else f)


def preact(self, x):
    out = F.relu(self.bn1(x))
    shortcut = self.shortcut(out) if hasattr(self, "shortcut") else x
    out = self.conv2(F.relu(self.bn2(self.conv1(out))))
    out += shortcut
    return out


def squeezed(self, x):
    f = self.f(x)
    return torch.relu(f * self.fc(f.mean((2, 3)))[:, :, None, None].sigmoid() + self.down(x))


def scaled(self, x):
    z = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
    z = self.gamma.weight.squeeze() * self.wide(z)
    return x + self.drop(z.permute(0, 3, 1, 2))


FAMILIES = {
    "pre-activation": lambda: Written(
        preact, bn1=nn.BatchNorm2d(3), conv1=nn.Conv2d(3, 3, 3, padding=1), bn2=nn.BatchNorm2d(3),
        conv2=nn.Conv2d(3, 3, 3, padding=1)),
    "pre-activation with a projection": lambda: Written(
        preact, bn1=nn.BatchNorm2d(3), conv1=nn.Conv2d(3, 6, 3, 2, 1), bn2=nn.BatchNorm2d(6),
        conv2=nn.Conv2d(6, 6, 3, padding=1), shortcut=nn.Conv2d(3, 6, 1, 2)),
    "bottleneck": lambda: Written(
        lambda self, x: torch.relu(self.f(x) + self.down(x)), down=nn.Conv2d(3, 8, 1, 2),
        f=nn.Sequential(nn.Conv2d(3, 2, 1), nn.ReLU(), nn.Conv2d(2, 2, 3, 2, 1), nn.ReLU(), nn.Conv2d(2, 8, 1))),
    "squeeze and excite": lambda: Written(
        squeezed, f=nn.Conv2d(3, 4, 3, padding=1), fc=nn.Linear(4, 4), down=nn.Conv2d(3, 4, 1)),
    "channels last inside": lambda: Written(
        scaled, depthwise=nn.Conv2d(3, 3, 7, padding=3, groups=3), norm=nn.LayerNorm(3), drop=nn.Identity(),
        wide=nn.Sequential(nn.Linear(3, 12), nn.GELU(), nn.Linear(12, 3)), gamma=nn.Linear(1, 3, bias=False)),
}  # fmt: skip


@pytest.mark.twin
@pytest.mark.parametrize("family", FAMILIES)
def test_the_families_people_write(family):
    """Gated to the bit at α = 0 with one gate a block; at α = 1 the fold says to the bit what the gated block says."""
    x = torch.randn(2, 3, 8, 8)
    model = nn.Sequential(FAMILIES[family]()).eval()
    gated = phase_out(model, x)
    assert torch.equal(gated(x), model(x))
    (gate,) = gates(gated).values()
    assert gate.alpha.shape == (model(x).shape[1],)
    assert gate.axis == 1
    nn.init.ones_(gate.alpha)
    folded = fold(gated, example=x)
    assert folded.difference == 0
    assert not torch.equal(folded.model(x), model(x))
    assert not any(name.split(".")[1] in ("shortcut", "down") for name in folded.model.state_dict())


def test_several_sums_in_one_forward():
    model = Written(
        lambda self, x: self.g(y := x + self.f(x)) + y, f=nn.Linear(4, 4), g=nn.Sequential(nn.ReLU(), nn.Linear(4, 4))
    )
    x = torch.randn(3, 4)
    gated = phase_out(model, x, order="one by one")
    assert {path: gate.rank for path, gate in gates(gated).items()} == {"gate": 0, "gate2": 1}
    back = gates(phase_out(model, x, order="last first"))
    assert {path: gate.rank for path, gate in back.items()} == {"gate": 1, "gate2": 0}
    with torch.no_grad():
        gates(gated)["gate2"].alpha.fill_(1)
    torch.testing.assert_close(gated(x), model.g(x + model.f(x)))


def test_a_name_that_is_taken_is_not_overwritten():
    model = Written(lambda self, x: x + self.gate(x), gate=nn.Linear(4, 4))
    assert list(gates(phase_out(model, torch.randn(2, 4)))) == ["gate2"]


def test_a_block_used_twice_is_gated_in_both_places():
    block = Written(lambda self, x: x + self.f(x), f=nn.Linear(4, 4))
    model = nn.Sequential(block, nn.ReLU(), block)
    gated = phase_out(model, torch.randn(2, 4))
    assert gated[0] is gated[2]
    assert len(gates(gated)) == 1


def test_sequences_have_their_units_last():
    model = Written(lambda self, x: x + self.f(x), f=nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 6)))
    x = torch.randn(2, 5, 6)
    for gated in (phase_out(model, x), phase_out(model)):
        assert gates(gated)["gate"].alpha.shape == (6,)
        assert gated(x).shape == x.shape
    assert gates(phase_out(model, x, unit_axis=1))["gate"].alpha.shape == (5,)
    assert gates(phase_out(model, x, alpha="neuron"))["gate"].alpha.shape == (5, 6)
    with pytest.raises(AliveError, match="shape of the skip of the model itself is unknown"):
        phase_out(model, unit_axis=1)


def test_moved_axes_are_not_trusted():
    """[N, T, C] mixed over T by a dense layer: the units of the sum are still the C behind, not the T of the layer."""
    model = Written(lambda self, x: x + self.drop(self.f(x.mT).transpose(1, 2)), f=nn.Linear(5, 5), drop=nn.Identity())
    assert gates(phase_out(model, torch.randn(2, 5, 6)))["gate"].alpha.shape == (6,)
    with pytest.raises(AliveError, match="unknown"):
        phase_out(model)


@pytest.mark.parametrize(("alpha", "shape"), [("scalar", ()), ("channel", (3,)), ("neuron", (3, 5, 5))])
def test_shapes_of_alpha(alpha, shape):
    model = Written(WAYS["plus"], f=branch())
    gated = phase_out(model, torch.randn(2, 3, 5, 5), alpha=alpha)
    assert gates(gated)["gate"].alpha.shape == shape


def test_the_librarys_own_resnet():
    net = COMPARED["resnet"].conv(1, 3, n=2, base=2)
    assert len(gates(phase_out(net, torch.randn(2, 1, 8, 8)))) == 8


def test_precision_follows_the_model():
    net = Net().double()
    gated = phase_out(net, torch.randn(2, 1, 8, 8, dtype=torch.float64))
    assert all(gate.alpha.dtype == torch.float64 for gate in gates(gated).values())


TWO = Written(lambda self, x: self.f(x) + self.g(x), f=nn.Conv2d(3, 3, 3, padding=1), g=nn.Conv2d(3, 3, 5, padding=2))


def test_a_sum_of_two_branches_is_not_guessed():
    with pytest.raises(AliveError, match=r"neither is clearly the skip.*blocks="):
        phase_out(TWO)
    gated = phase_out(TWO, blocks=[("", "g")])
    nn.init.ones_(gates(gated)["gate"].alpha)
    x = torch.randn(1, 3, 6, 6)
    assert torch.equal(gated(x), TWO.f(x))


def test_a_declared_argument_is_the_skip():
    model = Written(lambda self, x: x + self.f(x), f=nn.Linear(3, 3))
    gated = phase_out(model, blocks=[("", "x")])
    nn.init.ones_(gates(gated)["gate"].alpha)
    x = torch.randn(2, 3)
    assert torch.equal(gated(x), model.f(x))


def test_only_declared_blocks_are_gated():
    assert list(gates(phase_out(Net(), blocks=["layer2.0", ("layer1.1", "x")]))) == ["layer1.1.gate", "layer2.0.gate"]


def by_value(self, x):
    return self.f(x) + self.shortcut(x) if x.sum() > -1e9 else x


def test_a_forward_that_cannot_be_followed_is_gated_through_its_shortcut():
    model = nn.Sequential(Written(by_value, f=nn.Linear(3, 3), shortcut=nn.Identity()))
    x = torch.randn(4, 3)
    gated = phase_out(model, x, blocks=[("0", "shortcut")])
    assert isinstance(gated[0].shortcut, GatedSkip)
    assert torch.equal(gated(x), model(x))
    nn.init.ones_(gates(gated)["0.shortcut.gate"].alpha)
    assert torch.equal(gated(x), model[0].f(x))


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


class Shapeless(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3, 3))

    def forward(self, x: Tensor) -> Tensor:
        return x + x @ self.weight


X, IMAGES = torch.randn(2, 3), torch.randn(2, 3, 4, 4)


@pytest.mark.parametrize(
    ("model", "settings", "says"),
    [
        (nn.Sequential(Unfollowed()), {}, r"forward of 0 \(Unfollowed\) cannot be followed.*blocks="),
        (nn.Sequential(Helped()), {}, r"forward of 0 \(Helped\) cannot be followed"),
        (nn.Sequential(Trained()), {}, "reads self.training or .*nn.Dropout"),
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


def test_a_shape_that_only_an_example_tells():
    gated = phase_out(nn.Sequential(Shapeless()), X)
    assert gates(gated)["0.gate"].alpha.shape == (3,)


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
