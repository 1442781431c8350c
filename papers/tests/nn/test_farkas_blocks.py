"""Residual Farkas blocks: widths, the bound in every variant, signed inputs, batch norm and where it may stand."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from torch import Tensor, nn

from alive.errors import AliveError
from alive.functional.farkas import AGGREGATIONS, BIAS_MODES, aggregated, joined
from alive.nn.farkas import FarkasConv2d, FarkasLinear, guarantees, materialised
from alive.taps import Call, Taps, Watcher
from alive_papers.networks import FarkasResidual, FarkasStep

BLOCKS = ("dense", "basic", "bottleneck")
VARIANTS = ("full", "replace", "grow")
NORMS = ("none", "after", "before")


class Kept(Watcher):
    """Keeps every pre-activation by name."""

    def __init__(self, model: nn.Module) -> None:
        self.z: dict[str, Tensor] = {}
        self.taps = Taps(model, self)

    def begin(self) -> None:
        self.z = {}

    def watch(self, call: Call) -> object:
        self.z[call.tap.name] = call.z.detach().clone()
        return call.activate()


def images(block: str, width: int, count: int = 16) -> Tensor:
    return (
        torch.randn(count, width, dtype=torch.float64)
        if block == "dense"
        else torch.randn(count, width, 5, 5, dtype=torch.float64)
    )


def shaken(block: nn.Module) -> nn.Module:
    """Parameters far from their start."""
    with torch.no_grad():
        for parameter in block.parameters():
            parameter.add_(torch.randn_like(parameter))
    return block.double()


@pytest.mark.law
@pytest.mark.parametrize("mode", BIAS_MODES)
@pytest.mark.parametrize("aggregation", AGGREGATIONS)
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("block", BLOCKS)
def test_every_relu_of_a_block_has_an_active_unit(block, variant, aggregation, mode):
    net = shaken(FarkasResidual(8, block=block, variant=variant, aggregation=aggregation, bias_mode=mode))
    kept = Kept(net)
    x = images(block, 8)
    for scale in (0.0, 1e-30, 1.0, 1e6):
        out = net(x.abs() * scale if variant == "full" else x * scale)
        assert out.shape[1] == (9 if variant == "grow" else 8)
        bounds = {"relu": net.guarantee()}
        bounds |= {f"hidden.{i}.relu": step.guarantee() for i, step in enumerate(net.hidden)}
        assert kept.z.keys() == bounds.keys()
        for name, z in kept.z.items():
            noise = 1e-10 * max(1.0, float(z.abs().max()))
            assert (z.amax(1) >= bounds[name] - noise).all(), name
            assert bounds[name] >= net.hidden[0].get_submodule("farkas").rule.floor - 1e-9


@pytest.mark.law
@pytest.mark.parametrize("aggregation", AGGREGATIONS)
@pytest.mark.parametrize("variant", VARIANTS)
def test_the_worst_input_attains_the_guarantee_of_a_block(variant, aggregation):
    """With a silent branch z is the skip plus the biases; equal z's at u = g/κ - b, for `full` at x = 0 and b = 0."""
    net = FarkasResidual(6, block="dense", variant=variant, aggregation=aggregation, zero_last=True).double()
    last, place = net.speaks_for(), net.out_width - 1
    with torch.no_grad():
        if variant == "full":
            floor = torch.tensor(net.guarantee(), dtype=torch.float64)
            last.bias[:-1] = floor
            x = torch.zeros(1, 6, dtype=torch.float64)
        else:
            last.bias.normal_()
            x = torch.zeros(1, 6, dtype=torch.float64)
            x[0, :place] = net.guarantee() - last.bias[:-1]
        out = net(x)
    torch.testing.assert_close(out, torch.full_like(out, max(net.guarantee(), 0)))


@pytest.mark.twin
@pytest.mark.parametrize("aggregation", AGGREGATIONS)
@pytest.mark.parametrize("variant", VARIANTS)
def test_a_block_is_its_line_in_the_table(variant, aggregation):
    """Written out: y has m-1 units; full x + cat(y, -Agg y) + b; replace and grow aggregate u = x + y."""
    net = shaken(FarkasResidual(6, block="dense", variant=variant, aggregation=aggregation))
    x = images("dense", 6).abs()
    last, place = net.speaks_for(), net.out_width - 1
    y = net.hidden(x) @ last.weight.T
    if variant == "full":
        z = x + aggregated(y, last.bias, last.mu, last.rule, place=place)
    else:
        z = aggregated(x[:, :place] + y, last.bias, last.mu, last.rule, place=place)
    torch.testing.assert_close(net(x), z.relu())


def test_full_with_signed_input_loses_points_and_is_refused():
    net = FarkasResidual(4, block="dense", bias_mode="paper", name="stages.0.1")
    x = torch.randn(20000, 4)
    with pytest.raises(AliveError, match=r"stages.0.1: variant 'full' needs inputs ≥ 0.*variant='replace'"):
        net(x)
    net.eval()
    assert (net(x).amax(1) == 0).any(), "the reason for the refusal"
    net.check = "always"
    with pytest.raises(AliveError, match="needs inputs"):
        net(x)
    net.train().check = "never"
    net(x)
    net.check = "train"
    net(x.abs())
    assert (FarkasResidual(4, block="dense", variant="replace")(x).amax(1) > 0).all()


@pytest.mark.parametrize("block", BLOCKS)
def test_zero_last_makes_the_identity(block):
    x = images(block, 8).abs().float()
    for norm in ("none", "before"):
        net = FarkasResidual(8, block=block, norm=norm, zero_last=True, bias_mode="paper")
        torch.testing.assert_close(net(x), x, atol=0, rtol=0)
    net = FarkasResidual(8, block=block, zero_last=True)
    assert not any(p.any() for p in net.last.parameters())
    assert any(p.any() for p in net.hidden.parameters())
    extra = (net(x) - x)[:, -1]
    torch.testing.assert_close(extra, torch.full_like(extra, 8e-3), atol=1e-6, rtol=0)  # δκ, and nothing else


def test_zero_last_in_grow_starts_with_a_sleeping_channel():
    net = FarkasResidual(4, block="dense", variant="grow", zero_last=True, bias_mode="paper")
    x = torch.rand(50, 4)
    out = net(x)
    assert torch.equal(out[:, :4], x)
    assert not out[:, 4].any()


def test_zero_last_branches_learn():
    net = FarkasResidual(8, block="bottleneck", zero_last=True)
    net(torch.rand(4, 8, 5, 5)).square().sum().backward()
    assert net.speaks_for().weight.grad.abs().max() > 0


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("block", BLOCKS)
def test_a_block_becomes_plain_layers_with_equal_outputs(block, variant, norm):
    net = shaken(FarkasResidual(8, block=block, variant=variant, norm=norm, aggregation="learned"))
    x = images(block, 8).abs()
    net(x)  # running statistics
    net.eval()
    expected = net(x)
    plain = net.to_plain()
    torch.testing.assert_close(plain(x), expected)
    torch.testing.assert_close(net(x), expected, msg="the block itself is left alone")
    assert not guarantees(plain)
    step = shaken(FarkasStep(8, 4, kernel=None if block == "dense" else 3, norm=norm)).eval()
    expected = step(x)
    torch.testing.assert_close(materialised(step)(x), expected)
    with pytest.raises(AliveError, match="has become a plain"):
        step.guarantee()


def test_copies_pickles_and_states():
    net = FarkasResidual(8, variant="replace", norm="after", aggregation="learned")
    x = torch.randn(4, 8, 5, 5)
    net(x)
    net.eval()
    fresh = FarkasResidual(8, variant="replace", norm="after", aggregation="learned").eval()
    fresh.load_state_dict(net.state_dict())
    for twin in (fresh, copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert torch.equal(twin(x), net(x))


@pytest.mark.law
@pytest.mark.parametrize("variant", ["replace", "grow"])
@pytest.mark.parametrize("norm", ["after", "before"])
def test_batch_norm_after_the_relu_or_on_free_units_keeps_the_guarantee(norm, variant):
    net = shaken(FarkasResidual(8, variant=variant, norm=norm))
    kept = Kept(net)
    for training in (True, True, False):
        net.train(training)(images("basic", 8) * 3)
        assert all((z.amax(1) > 9e-4).all() for z in kept.z.values())


def test_norm_after_the_relu_has_no_affine_numbers():
    assert FarkasStep(3, 4, norm="after").get_submodule("norm").weight is None


def test_batch_norm_over_all_units_before_the_relu_loses_the_margin():
    """Train mode, no affine: Σ λ_j σ_j z'_j = 0, the equality case; an affine after it leaves points dead."""
    conv = FarkasLinear(5, 4, dtype=torch.float64, margin=1.0)
    z = conv(torch.randn(20000, 5, dtype=torch.float64))
    assert (z.amax(1) >= 1 - 1e-12).all()
    normed = nn.BatchNorm1d(4, affine=False, eps=1e-15, dtype=torch.float64)(z)
    sigma = z.std(0, correction=0)
    assert (normed * sigma).sum(1).abs().max() < 1e-12
    shifted = normed * torch.rand(4, dtype=torch.float64) + torch.tensor([-1.0, -0.5, -1.0, -0.5])
    assert (shifted.amax(1) <= 0).float().mean() > 0.01
    assert (normed.amax(1) < 1).any(), "the margin of 1 is gone"


def test_average_pooling_of_a_step_keeps_a_live_channel():
    step = FarkasStep(6, 5, kernel=1, pool=True)
    assert (step(torch.randn(8, 6, 8, 8) * 10).amax(1) > 0).all()
    assert step.guarantee() == step.get_submodule("farkas").guarantee()


def test_joined_is_linear_in_its_input():
    x = torch.randn(3, 4, 2, dtype=torch.float64)
    whole = joined(x, 0.5, place=4, axis=1)
    torch.testing.assert_close(whole[:, 4], -0.5 * x.sum(1))


def test_guarantees_ask_the_block_and_not_its_last_layer():
    net = nn.Sequential(FarkasConv2d(3, 8, 3, padding=1), nn.ReLU(), FarkasResidual(8))
    assert list(guarantees(net)) == ["0", "2", "2.hidden.0.farkas"]


def test_all_faults_of_a_block_together():
    with pytest.raises(AliveError, match=r"width 2 or more.*'bottleneck'.*'full'.*unknown norm.*unknown check"):
        FarkasResidual(1, block="bottlenek", variant="ful", norm="x", check="y")
