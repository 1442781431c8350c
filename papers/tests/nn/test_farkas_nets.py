"""FarkasNet and its plain twin: shapes, parameters counted by hand, the bound in every layer, gradients, refusals."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from torch import nn

from alive import census
from alive.errors import AliveError
from alive.nn.farkas import Weighted, guarantees
from alive.surgery.farkas import to_plain
from alive_papers.networks import FarkasNet, FarkasResidual, ResNet
from alive_papers.networks.design import PRESETS, Design


def count(net: nn.Module) -> int:
    return sum(p.numel() for p in net.parameters())


def by_hand(plan: Design, channels: int, classes: int, *, extra_row: bool) -> int:
    """Weights and biases of stem, steps and blocks, and of the head; a Farkas layer of m units has m-1 rows."""

    def conv(inputs: int, units: int, kernel: int) -> int:
        return inputs * kernel**2 * (units - (not extra_row)) + units

    large = plan.stem == "large"
    total, width = conv(channels, plan.stem_width, 7 if large else 3), plan.stem_width
    for stage, blocks in enumerate(plan.stages):
        target = plan.base * 2**stage
        if stage or target != width:
            total += conv(width, target, 1)
        width = target
        if plan.block == "basic":
            total += blocks * 2 * conv(width, width, 3)
        else:
            inner = width // 4
            total += blocks * (conv(width, inner, 1) + conv(inner, inner, 3) + conv(inner, width, 1))
    return total + width * classes + classes


@pytest.mark.parametrize("preset", PRESETS)
def test_parameters_counted_by_hand_and_one_row_a_layer_fewer(preset):
    with torch.device("meta"):
        farkas, plain = FarkasNet(3, 10, preset=preset), ResNet(3, 10, preset=preset)
    plan = PRESETS[preset]
    assert count(plain) == by_hand(plan, 3, 10, extra_row=True)
    assert count(farkas) == by_hand(plan, 3, 10, extra_row=False)
    assert count(plain) - count(farkas) == sum(m.fan_in for m in farkas.modules() if isinstance(m, Weighted))


def test_the_wide_preset_is_about_the_size_of_the_usual_network():
    """The usual ResNet-50 has 25.56 M; here the first block of a stage reads the wide input, and biases are added."""
    with torch.device("meta"):
        assert 25e6 < count(ResNet(3, 1000, preset="imagenet50")) < 28e6


def test_layers_of_the_presets():
    for preset, layers in {"18": 18, "34": 30, "50": 48, "101": 99}.items():
        plan = PRESETS[preset]
        assert sum(plan.stages) * (2 if plan.block == "basic" else 3) == layers


@pytest.mark.parametrize("preset", ["18", "authors18"])
@pytest.mark.parametrize("batch_norm", [False, True])
def test_networks_run_on_32x32(preset, batch_norm):
    x = torch.rand(2, 3, 32, 32)
    for kind in (FarkasNet, ResNet):
        net = kind(3, 10, preset=preset, batch_norm=batch_norm)
        assert net(x).shape == (2, 10)


def test_a_wide_network_runs_on_a_large_image():
    for kind in (FarkasNet, ResNet):
        net = kind(3, 7, preset="imagenet50", stages=(1, 1, 1, 1), base=8)
        assert net(torch.rand(1, 3, 64, 48)).shape == (1, 7)


@pytest.mark.law
@pytest.mark.parametrize("block", ["basic", "bottleneck"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"variant": "replace"},
        {"variant": "grow", "aggregation": "mean", "bias_mode": "paper"},
        {"batch_norm": True},
        {"batch_norm": True, "variant": "grow"},
        {"batch_norm": True, "norm": "before"},
        {"aggregation": "learned", "bias_mode": "softplus", "zero_last": True},
    ],
    ids=str,
)
def test_no_point_dies_in_a_farkas_net_and_gradients_reach_every_layer(block, options):
    net = FarkasNet(1, 3, stages=(2, 1, 1), base=8, block=block, **options)
    images = torch.randn(20, 1, 8, 8) * 5
    net(images).square().mean().backward()
    found = census(net, images)
    assert found.points.dead == 0
    bounds = guarantees(net)
    relus = sum(isinstance(m, nn.ReLU) for m in net.modules())
    assert len(bounds) == relus == len(found.layers)
    if options.get("bias_mode") != "paper":
        assert min(bounds.values()) > 9e-4
    for name, parameter in net.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
    assert net.stem.get_submodule("farkas" if options.get("norm") != "before" else "linear").weight.grad.any()


def test_variants_and_widths():
    assert FarkasNet(1, 2, stages=(1,), base=4).variant == "full"
    assert FarkasNet(1, 2, stages=(1,), base=4, batch_norm=True).variant == "replace"
    assert FarkasNet(1, 2, stages=(1,), base=4, batch_norm=True, norm="before").variant == "full"
    grown = FarkasNet(1, 2, stages=(3, 2), base=4, variant="grow")
    assert [m.width for m in grown.modules() if isinstance(m, FarkasResidual)] == [4, 5, 6, 8, 9]
    assert grown.output.in_features == 10


def test_blocks_know_their_path():
    net = FarkasNet(1, 2, stages=(1, 1), base=4)
    assert [m.name for m in net.modules() if isinstance(m, FarkasResidual)] == ["stages.0.0", "stages.1.1"]


@pytest.mark.parametrize("batch_norm", [False, True])
@pytest.mark.parametrize("kind", [FarkasNet, ResNet])
def test_one_generator_starts_all_and_nothing_else_moves(kind, batch_norm):
    state = torch.get_rng_state()
    a, b = (
        kind(1, 3, stages=(1, 1), base=4, batch_norm=batch_norm, generator=torch.Generator().manual_seed(5))
        for _ in range(2)
    )
    assert torch.equal(torch.get_rng_state(), state)
    for ours, theirs in zip(a.state_dict().values(), b.state_dict().values(), strict=True):
        assert torch.equal(ours, theirs)
    other = kind(1, 3, stages=(1, 1), base=4, generator=torch.Generator().manual_seed(6))
    assert not torch.equal(other.output.weight, a.output.weight)


@pytest.mark.contract
@pytest.mark.parametrize("kind", [FarkasNet, ResNet])
def test_copies_pickles_and_states(kind):
    net = kind(1, 3, stages=(1, 1), base=4, batch_norm=True, generator=torch.Generator().manual_seed(0)).eval()
    x = torch.rand(2, 1, 8, 8)
    fresh = kind(1, 3, stages=(1, 1), base=4, batch_norm=True).eval()
    fresh.load_state_dict(net.state_dict())
    for twin in (fresh, copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert torch.equal(twin(x), net(x))


@pytest.mark.twin
@pytest.mark.parametrize(
    "options", [{}, {"variant": "grow"}, {"batch_norm": True}, {"batch_norm": True, "norm": "before"}]
)
def test_a_trained_farkas_net_becomes_plain_with_equal_outputs(options):
    net = FarkasNet(1, 3, stages=(1, 1), base=8, block="bottleneck", **options).double()
    x, y = torch.rand(16, 1, 8, 8, dtype=torch.float64), torch.arange(16) % 3
    optimiser = torch.optim.SGD(net.parameters(), lr=0.05)
    for _ in range(3):
        optimiser.zero_grad()
        nn.functional.cross_entropy(net(x), y).backward()
        optimiser.step()
    net.eval()
    plain = to_plain(net)
    torch.testing.assert_close(plain(x), net(x))
    assert not guarantees(plain)
    assert guarantees(net)


def test_zero_last_starts_plain_blocks_at_the_identity():
    for batch_norm in (False, True):
        net = ResNet(1, 3, stages=(2,), base=4, zero_last=True, batch_norm=batch_norm).eval()
        x = torch.rand(2, 4, 8, 8)
        assert torch.equal(net.stages[0](x), x)


def test_authors_head_normalises_the_logits_with_batch_norm_alone():
    x = torch.rand(64, 1, 8, 8)
    logits = ResNet(1, 3, stages=(1,), base=4, batch_norm=True, authors_head=True)(x)
    torch.testing.assert_close(logits.mean(0), torch.zeros(3), atol=1e-5, rtol=0)
    torch.testing.assert_close(logits.std(0, correction=0), torch.ones(3), atol=0.05, rtol=0)
    assert isinstance(ResNet(1, 3, stages=(1,), base=4, authors_head=True).head_norm, nn.Identity)


def test_images_too_small_for_the_stages_are_refused():
    net = FarkasNet(1, 3, stages=(1, 1, 1, 1), base=4)
    assert net(torch.rand(2, 1, 8, 8)).shape == (2, 3)
    with pytest.raises(AliveError, match=r"images of 7x8 are too small for 4 stages.*at least 8x8"):
        net(torch.rand(2, 1, 7, 8))
    wide = FarkasNet(1, 3, preset="imagenet50", stages=(1, 1), base=8)
    assert wide(torch.rand(1, 1, 5, 5)).shape == (1, 3)
    with pytest.raises(AliveError, match=r"quarters them.*at least 5x5"):
        wide(torch.rand(1, 1, 4, 4))
    with pytest.raises(AliveError, match=r"expected images \[N, 1, H, W\], got \[2, 3, 8, 8\]"):
        net(torch.rand(2, 3, 8, 8))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: FarkasNet(3, 10, preset="19"), "unknown preset '19'"),
        (lambda: FarkasNet(3, 10, batch_norm=True, variant="full"), "both signs.*norm='before'"),
        (lambda: FarkasNet(3, 10, variant="fill"), "did you mean 'full'"),
        (lambda: FarkasNet(3, 10, batch_norm=True, norm="befor"), "did you mean 'before'"),
        (lambda: FarkasNet(0, 0), "channels must be at least 1.*classes must be at least 1"),
        (lambda: ResNet(3, 10, stages=(), base=1), "stages must be.*base must be"),
        (lambda: ResNet(3, 10, block="basik"), "did you mean 'basic'"),
    ],
)
def test_refusals(make, message):
    with pytest.raises(AliveError, match=message):
        make()


def test_a_deep_thin_farkas_net_learns_without_norm():
    """Thirty-two layers of width 4 on 8x8 images, told bright from dark."""
    net = FarkasNet(1, 2, stages=(8, 8), base=4, zero_last=True, generator=torch.Generator().manual_seed(0))
    x = torch.rand(32, 1, 8, 8, generator=torch.Generator().manual_seed(1)) / 2
    y = torch.arange(32) % 2
    x = x + y.view(-1, 1, 1, 1) / 2
    optimiser = torch.optim.Adam(net.parameters(), lr=3e-3)
    losses = []
    for _ in range(25):
        optimiser.zero_grad()
        loss = nn.functional.cross_entropy(net(x), y)
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]
    assert census(net, x).points.dead == 0
