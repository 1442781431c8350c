import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from alive.errors import AliveError
from alive.nn import INITIALISERS, Rectangular, RectangularConv, initialise_


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def same(a: Tensor, b: Tensor) -> None:
    """Equal in float64 but for the order of a sum."""
    torch.testing.assert_close(a, b, rtol=0, atol=1e-13)


def pre_activations(net: nn.Module, x: Tensor) -> list[Tensor]:
    """What each hidden ReLU is fed, computed layer by layer."""
    seen = []
    for layer in net.hidden:  # type: ignore[union-attr]
        seen.append(layer.linear(x))
        x = seen[-1].clamp(min=0)
    return seen


@pytest.mark.law
@settings(max_examples=40, deadline=None)
@given(st.integers(1, 6), st.integers(2, 9), st.integers(1, 60), st.integers(0, 2**31))
def test_mirrored_dense_networks_are_linear_at_any_depth(inputs: int, width: int, depth: int, seed: int) -> None:
    net = Rectangular(inputs, 3, depth=depth, width=width).double()
    initialise_(net, "mirrored", generator=seeded(seed), noise=0)
    x = torch.randn(11, inputs, dtype=torch.float64, generator=seeded(seed))
    half = width // 2
    ax = x @ net.hidden[0].linear.weight[:half].T
    seen = pre_activations(net, x)
    same(seen[0][:, : 2 * half], torch.cat([ax, -ax], dim=1))
    for z in seen[1:]:  # the identity adds nothing but zeros, so not one bit is lost from here on
        assert torch.equal(z[:, :half], -z[:, half : 2 * half])
        assert torch.equal(z[:, : 2 * half], seen[1][:, : 2 * half])
        same(z[:, :half], ax)
    linear = net(torch.eye(inputs, dtype=torch.float64))
    same(net(x), x @ linear)
    assert linear.abs().max() > 0.01
    # A is the identity where it can be, and orthonormal in its rows or its columns otherwise.
    a = net.hidden[0].linear.weight[:half]
    gram = a @ a.T if half <= inputs else a.T @ a
    same(gram, torch.eye(min(half, inputs), dtype=torch.float64))
    if half == inputs:
        assert torch.equal(a, torch.eye(half, dtype=torch.float64))


@pytest.mark.law
@settings(max_examples=20, deadline=None)
@given(st.integers(1, 3), st.integers(2, 7), st.integers(1, 12), st.sampled_from(["pool", "flatten"]))
def test_mirrored_conv_networks_carry_the_image(channels: int, width: int, depth: int, head: str) -> None:
    net = RectangularConv(channels, 2, depth=depth, width=width, head=head, size=(5, 4)).double()  # type: ignore[arg-type]
    initialise_(net, "mirrored", generator=seeded(), noise=0)
    x = torch.randn(3, channels, 5, 4, dtype=torch.float64, generator=seeded(1))
    half = width // 2
    first = torch.einsum("uc,nchw->nuhw", net.hidden[0].linear.weight[:half, :, 1, 1], x)
    seen = pre_activations(net, x)
    for z in seen:
        same(z[:, :half], first)
        same(z[:, half : 2 * half], -first)
    same(net(-x), -net(x))  # odd under both heads
    if head == "flatten":
        same(net(x[:1] + x[1:2]), net(x[:1]) + net(x[1:2]))


def test_mirrored_odd_units_are_alive_but_unheard() -> None:
    net = Rectangular(2, 1, depth=5, width=5)
    initialise_(net, "mirrored", generator=seeded(3), noise=0)
    z = pre_activations(net, torch.randn(200, 2, generator=seeded(4)))
    for layer, seen in zip(net.hidden, z, strict=True):
        assert seen[:, 4].amin() < 0 < seen[:, 4].amax(), "the spare unit separates the points"
        assert layer is net.hidden[0] or torch.equal(layer.linear.weight[:, 4], torch.zeros(5))
    assert net.output.weight[0, 4] == 0


@pytest.mark.parametrize("depth", [10, 300])
def test_mirrored_networks_keep_their_scale_with_the_default_noise(depth: int) -> None:
    net = Rectangular(16, 1, depth=depth, width=16, init="mirrored", generator=seeded())
    x = torch.randn(100, 16, generator=seeded(1))
    # Without noise this is 0.5 to 0.7; one Glorot deviation in every layer would end in infinity.
    assert 0.4 < net.hidden(x).pow(2).mean().sqrt() < 1.6


def test_mirrored_noise_is_relative_to_glorot_and_shared_by_the_layers() -> None:
    nets = [Rectangular(64, 2, depth=2, width=64) for _ in range(2)]
    for net, noise in zip(nets, (0.0, 0.5), strict=True):
        initialise_(net, "mirrored", generator=seeded(), noise=noise)
    difference = nets[1].hidden[0].linear.weight - nets[0].hidden[0].linear.weight
    assert difference.std().item() == pytest.approx(0.5 / math.sqrt(3) * math.sqrt(2 / 128), rel=0.05)


@pytest.mark.parametrize(
    "model",
    [
        nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(3, 1)),
        nn.Sequential(nn.Conv2d(2, 4, 3), nn.ReLU(), nn.Conv2d(4, 4, 3, groups=2), nn.Linear(4, 1)),
    ],
)
def test_mirrored_refuses_what_is_no_chain(model: nn.Module) -> None:
    with pytest.raises(AliveError, match="plain chain"):
        initialise_(model, "mirrored")


def test_mirrored_refuses_one_unit_and_says_why() -> None:
    with pytest.raises(AliveError, match="both u and -u"):
        Rectangular(2, 1, depth=3, width=1, init="mirrored")


@pytest.mark.parametrize(
    ("name", "law", "deviation"),
    [
        ("glorot", "uniform", lambda i, o: math.sqrt(2 / (i + o))),
        ("kaiming", "normal", lambda i, o: math.sqrt(2 / i)),
        ("torch", "uniform", lambda i, o: 1 / math.sqrt(3 * i)),
    ],
)
def test_spread_and_shape_of_the_draws(name, law, deviation) -> None:  # type: ignore[no-untyped-def]
    model = nn.Sequential(nn.Conv2d(32, 48, 3), nn.Linear(200, 100))
    initialise_(model, name, generator=seeded())
    for layer, fans in zip(model, [(32 * 9, 48 * 9), (200, 100)], strict=True):
        expected = deviation(*fans)
        assert layer.weight.std().item() == pytest.approx(expected, rel=0.03)
        reach = layer.weight.abs().max().item() / expected
        assert reach <= math.sqrt(3) + 1e-5 if law == "uniform" else reach > 3
        assert (layer.bias.abs().max() > 0) == (name == "torch")


def test_zeros_keeps_the_output_glorot() -> None:
    net = Rectangular(2, 1, depth=3, width=4, init="zeros", batch_norm=True)
    assert all(p.abs().max() == 0 for path, p in net.hidden.named_parameters() if "linear" in path)
    assert net.output.weight.abs().min() > 0
    named = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    initialise_(named, "zeros", output="0")
    assert named[0].weight.abs().min() > 0
    assert named[1].weight.abs().max() == 0


@pytest.mark.contract
@pytest.mark.parametrize("name", INITIALISERS)
def test_every_initialiser_writes_every_layer(name: str) -> None:
    model = nn.Sequential(
        nn.Conv1d(4, 4, 3), nn.BatchNorm1d(4), nn.Conv2d(4, 6, 3), nn.Conv3d(6, 6, 2), nn.Linear(6, 2, bias=False)
    )
    for tensor in model.state_dict().values():
        tensor.fill_(77)
    initialise_(model, name, generator=seeded())
    assert all((tensor != 77).all() for tensor in model.state_dict().values())
    assert torch.equal(model[1].weight, torch.ones(4))
    assert torch.equal(model[1].running_var, torch.ones(4))
    assert all(p.requires_grad for p in model.parameters())


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"name": "gloroth"}, "did you mean 'glorot'"),
        ({"name": "glorot", "output": "hidden"}, "no layer 'hidden'"),
        ({"name": "glorot", "noise": 0.1}, "belongs to the initialiser 'mirrored'"),
        ({"name": "mirrored", "noise": math.nan}, "noise must be finite"),
    ],
)
def test_wrong_requests(arguments: dict[str, object], says: str) -> None:
    with pytest.raises(AliveError, match=says):
        initialise_(nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1)), **arguments)  # type: ignore[arg-type]


def test_nothing_to_initialise() -> None:
    with pytest.raises(AliveError, match="no dense or convolutional layer"):
        initialise_(nn.ReLU(), "glorot")


@pytest.mark.parametrize("name", INITIALISERS)
def test_weights_that_are_computed_are_refused_and_not_silently_left(name):
    net = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1))
    nn.utils.parametrizations.weight_norm(net[2])
    with pytest.raises(AliveError, match="weight of 2 is computed from others"):
        initialise_(net, name)
