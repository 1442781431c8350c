"""Farkas layers: the bound at random, adversarial and extreme inputs; equal to their plain layers; like any module."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from torch import nn

from alive.errors import AliveError
from alive.functional.farkas import AGGREGATIONS, BIAS_MODES, aggregated
from alive.nn.farkas import FarkasAggregate, FarkasConv1d, FarkasConv2d, FarkasConv3d, FarkasLinear, guarantees

KINDS = {
    "linear": (lambda **o: FarkasLinear(6, 5, **o), (40, 6), 1),
    "conv1d": (lambda **o: FarkasConv1d(3, 4, 3, padding=1, **o), (8, 3, 9), 1),
    "conv2d": (lambda **o: FarkasConv2d(3, 4, 3, stride=2, padding=1, **o), (4, 3, 7, 7), 1),
    "conv3d": (lambda **o: FarkasConv3d(2, 3, 2, **o), (3, 2, 4, 4, 4), 1),
    "grouped": (lambda **o: FarkasConv2d(4, 6, 3, groups=2, **o), (4, 4, 6, 6), 1),
}
EXTREMES = [0.0, 1e-30, 1.0, -1.0, 1e6, -1e6]


def started(layer: nn.Module) -> nn.Module:
    """Not at the start alone: biases of both signs, and a mixture of its own."""
    with torch.no_grad():
        layer.bias.normal_(0, 2)
        if layer.theta is not None:
            layer.theta.normal_()
    return layer


@pytest.mark.law
@pytest.mark.parametrize("aggregation", AGGREGATIONS)
@pytest.mark.parametrize("mode", BIAS_MODES)
@pytest.mark.parametrize("kind", KINDS)
def test_one_unit_is_above_the_guarantee_at_every_input(kind, mode, aggregation):
    make, shape, axis = KINDS[kind]
    layer = started(make(aggregation=aggregation, bias_mode=mode))
    bound = layer.guarantee()
    assert bound >= layer.rule.floor - 1e-6
    inputs = [torch.randn(shape) * scale for scale in EXTREMES] + [torch.full(shape, scale) for scale in EXTREMES]
    for x in inputs:
        top = layer(x).amax(axis)
        assert (top >= bound - layer.tolerance(float(x.abs().max()))).all()


@pytest.mark.law
@pytest.mark.parametrize("aggregation", AGGREGATIONS)
@pytest.mark.parametrize("mode", BIAS_MODES)
def test_the_worst_input_attains_the_guarantee(mode, aggregation):
    """x from the pseudo-inverse such that all free units are equal: then the extra one is equal to them too."""
    layer = started(FarkasLinear(8, 5, aggregation=aggregation, bias_mode=mode, dtype=torch.float64))
    bound = layer.guarantee()
    with torch.no_grad():
        x = torch.linalg.pinv(layer.weight) @ (bound - layer.bias[:-1])
        z = layer(x)
    torch.testing.assert_close(z, torch.full_like(z, bound))


@pytest.mark.law
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_the_worst_patch_attains_the_guarantee_of_a_convolution(aggregation, groups):
    layer = started(FarkasConv2d(4, 5, 3, groups=groups, aggregation=aggregation, dtype=torch.float64))
    bound = layer.guarantee()
    rows = layer.to_plain().weight.detach()[:-1].flatten(1)
    with torch.no_grad():
        patch = (torch.linalg.pinv(rows) @ (bound - layer.bias[:-1])).view(1, 4, 3, 3)
        z = layer(patch)
    torch.testing.assert_close(z, torch.full_like(z, bound))


def test_in_paper_mode_the_worst_input_is_dead_and_random_ones_are_not():
    layer = FarkasLinear(8, 5, bias_mode="paper", dtype=torch.float64)
    with torch.no_grad():
        layer.bias[-1] = -10
        x = torch.linalg.pinv(layer.weight) @ -layer.bias[:-1]
        assert layer(x).amax().abs() < 1e-14
        assert (layer(torch.randn(100_000, 8, dtype=torch.float64)).amax(1) > 0).all()
        strict = FarkasLinear(8, 5, dtype=torch.float64)
        strict.load_state_dict(layer.state_dict())
        assert strict(x).amax() > 9e-4


def test_the_cutoff_of_an_activation_is_passed():
    for activation in (nn.ELU(), nn.Softplus(), nn.SELU()):
        layer = started(FarkasLinear(4, 6, cutoff=activation, dtype=torch.float64))
        assert layer.guarantee() >= layer.rule.cutoff + 1e-3 - 1e-12
        z = layer(torch.randn(5000, 4, dtype=torch.float64))
        slope = torch.func.vmap(torch.func.grad(activation))(z.detach().flatten()).view_as(z)
        assert (slope.amax(1) > 0.1).all(), "what the cutoff promises: a slope above the tolerance"


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_rounding_stays_below_the_stated_tolerance(aggregation):
    """Σ λ z / κ at m = 512 and |y| about 1000: a small noise, far below the worst case."""
    layer = FarkasLinear(256, 512, aggregation=aggregation)
    x = torch.randn(512, 256) * 1700
    with torch.no_grad():
        z = layer(x).double()
        lam = torch.cat([torch.ones(511) * layer.mu, torch.ones(1)]).double()
    assert 500 < z.abs().mean() < 2000
    noise = ((z @ lam) / lam.sum() - layer.guarantee()).abs().max()
    assert noise < 2e-4
    assert noise < layer.tolerance(float(x.abs().max()))


PLAIN_SHAPES = [
    (FarkasConv1d, (3, 5, 4), {"stride": 2, "padding": 3, "dilation": 2}, (2, 3, 20)),
    (FarkasConv1d, (3, 5, 3), {"padding": "same", "padding_mode": "circular", "dilation": 2}, (2, 3, 12)),
    (FarkasConv2d, (4, 7, (3, 2)), {"stride": (2, 1), "padding": (1, 0)}, (2, 4, 9, 8)),
    (FarkasConv2d, (4, 7, 3), {"padding": 2, "padding_mode": "reflect", "stride": 2}, (2, 4, 8, 8)),
    (FarkasConv2d, (4, 7, 4), {"padding": "same"}, (2, 4, 8, 8)),
    (FarkasConv2d, (4, 7, 4), {"padding": "same", "padding_mode": "replicate"}, (2, 4, 8, 8)),
    (FarkasConv2d, (4, 7, 3), {"padding": "valid", "padding_mode": "replicate"}, (2, 4, 8, 8)),
    (FarkasConv2d, (4, 7, 3), {"groups": 2, "padding": 1}, (2, 4, 8, 8)),
    (FarkasConv2d, (4, 8, 3), {"groups": 4, "stride": 2, "dilation": 2}, (2, 4, 9, 9)),
    (FarkasConv2d, (4, 8, 3), {"groups": 4, "place": 3}, (2, 4, 9, 9)),
    (FarkasConv2d, (4, 9, 3), {"groups": 4, "place": 3}, (2, 4, 9, 9)),
    (FarkasConv2d, (4, 5, 1), {"groups": 4}, (4, 6, 6)),
    (FarkasConv2d, (4, 7, 3), {"place": 0}, (2, 4, 8, 8)),
    (FarkasConv3d, (2, 3, 2), {"stride": (1, 2, 1), "padding": 1, "groups": 2}, (2, 2, 5, 5, 5)),
    (FarkasLinear, (5, 4), {"place": 1}, (3, 2, 5)),
]


@pytest.mark.twin
@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel")
@pytest.mark.parametrize("aggregation", AGGREGATIONS)
@pytest.mark.parametrize(("kind", "sizes", "options", "shape"), PLAIN_SHAPES)
def test_plain_layer_has_equal_outputs_after_training(kind, sizes, options, shape, aggregation):
    layer = kind(*sizes, aggregation=aggregation, dtype=torch.float64, **options)
    x = torch.randn(shape, dtype=torch.float64)
    optimiser = torch.optim.SGD(layer.parameters(), lr=0.01)
    for _ in range(3):
        optimiser.zero_grad()
        layer(x).relu().square().mean().backward()
        optimiser.step()
    plain = layer.to_plain()
    assert type(plain).__name__ in ("Linear", "Conv1d", "Conv2d", "Conv3d")
    torch.testing.assert_close(plain(x), layer(x))
    assert {name: p.shape for name, p in plain.named_parameters()}.keys() == {"weight", "bias"}


@pytest.mark.twin
@pytest.mark.parametrize("aggregation", AGGREGATIONS)
@pytest.mark.parametrize("groups", [1, 2])
def test_outputs_and_gradients_equal_the_aggregated_outputs(aggregation, groups):
    """The fast path sums rows; Algorithm 1 sums outputs."""
    layer = started(FarkasConv2d(4, 5, 3, groups=groups, stride=2, padding=1, aggregation=aggregation)).double()
    x = torch.randn(3, 4, 7, 7, dtype=torch.float64, requires_grad=True)
    y = nn.functional.conv2d(x, layer.weight, stride=2, padding=1, groups=groups)
    slow = aggregated(y, layer.bias, layer.mu, layer.rule, place=4)
    fast = layer(x)
    torch.testing.assert_close(fast, slow)
    over = [x, *layer.parameters()]
    pull = torch.randn_like(slow)
    for ours, theirs in zip(torch.autograd.grad(fast, over, pull), torch.autograd.grad(slow, over, pull), strict=True):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_all_parameters_get_gradients(kind, aggregation):
    make, shape, _ = KINDS[kind]
    layer = make(aggregation=aggregation, bias_mode="softplus")
    layer(torch.randn(shape)).square().sum().backward()
    for name, parameter in layer.named_parameters():
        assert parameter.grad.abs().min() > 0, name


@pytest.mark.parametrize("kind", KINDS)
def test_autocast_mixes_in_single_precision(kind):
    make, shape, axis = KINDS[kind]
    layer, x = make(aggregation="learned"), torch.randn(shape)
    seen = []
    with torch.autocast("cpu", torch.bfloat16):
        if kind != "grouped":
            seen = [t.dtype for t in layer.rows()]
        z = layer(x)
    assert z.dtype == torch.bfloat16
    assert set(seen) <= {torch.float32}
    tolerance = layer.tolerance(float(x.abs().max()), dtype=torch.bfloat16)
    assert (z.float().amax(axis) >= layer.guarantee() - tolerance).all()
    torch.testing.assert_close(z.float(), layer(x), atol=0.1, rtol=0.05)
    z.float().sum().backward()
    assert layer.weight.grad.dtype == torch.float32


def test_half_precision_parameters():
    layer = FarkasLinear(32, 16, dtype=torch.bfloat16, aggregation="mean")
    x = torch.randn(64, 32, dtype=torch.bfloat16)
    assert layer(x).dtype == torch.bfloat16
    assert (layer(x).float().amax(1) >= layer.guarantee() - layer.tolerance(float(x.abs().max()))).all()


@pytest.mark.contract
@pytest.mark.parametrize("kind", KINDS)
def test_copies_pickles_and_states_compute_the_same(kind):
    make, shape, _ = KINDS[kind]
    layer, x = started(make(aggregation="learned")), torch.randn(shape)
    fresh = make(aggregation="learned")
    fresh.load_state_dict(layer.state_dict())
    for twin in (fresh, copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert torch.equal(twin(x), layer(x))
        assert twin.guarantee() == layer.guarantee()
    assert layer.double()(x.double()).dtype == torch.float64


@pytest.mark.parametrize("kind", KINDS)
def test_the_start_is_torchs_and_comes_from_the_generator(kind):
    make, _, _ = KINDS[kind]
    state = torch.get_rng_state()
    a, b = (make(generator=torch.Generator().manual_seed(1)) for _ in range(2))
    assert torch.equal(a.weight, b.weight)
    assert torch.equal(a.bias, b.bias)
    assert torch.equal(torch.get_rng_state(), state)
    wide = FarkasLinear(100, 1000)
    for numbers in (wide.weight, wide.bias):
        assert 0.095 < numbers.abs().max() <= 0.1


def test_a_trained_layer_keeps_its_guarantee():
    layer, x = FarkasLinear(3, 4), torch.randn(64, 3)
    optimiser = torch.optim.SGD(layer.parameters(), lr=1.0)
    for _ in range(50):  # pushes every unit down, as hard as it can
        optimiser.zero_grad()
        layer(x).mean().backward()
        optimiser.step()
    assert (layer(x).amax(1) > 0).all()
    assert layer.guarantee() == pytest.approx(1e-3, abs=1e-4)


@pytest.mark.parametrize("mode", BIAS_MODES)
@pytest.mark.parametrize("dims", [0, 1, 2, 3])
def test_aggregate_alone_and_its_plain_layer(dims, mode):
    layer = started(FarkasAggregate(5, dims=dims, place=2, aggregation="learned", bias_mode=mode)).double()
    y = torch.randn(6, 4, *[3] * dims, dtype=torch.float64)
    z = layer(y)
    assert (z.amax(1) >= layer.guarantee() - 1e-12).all()
    torch.testing.assert_close(layer.to_plain()(y), z)


def test_sequences_have_units_on_the_last_axis():
    layer = FarkasLinear(6, 5)
    x = torch.randn(2, 7, 6)
    torch.testing.assert_close(layer(x)[1, 3], layer(x[1, 3]))


def test_guarantees_of_a_model_by_path():
    net = nn.Sequential(FarkasLinear(2, 3), nn.ReLU(), nn.Sequential(FarkasLinear(3, 3), nn.ReLU()), nn.Linear(3, 1))
    assert guarantees(net) == {"0": net[0].guarantee(), "2.0": net[2][0].guarantee()}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: FarkasLinear(3, 1), "at least 2 units, got 1.*no others to balance"),
        (lambda: FarkasConv2d(3, 4, 3, bias=False), "needs its bias"),
        (lambda: FarkasLinear(3, 4, cutoff=nn.Tanh()), "saturates on both sides"),
        (lambda: FarkasLinear(3, 4, margin=-0.1), "margin must be at least 0"),
        (lambda: FarkasLinear(3, 4, aggregation="avg"), "unknown aggregation 'avg'.*Known: sum, mean, learned"),
        (lambda: FarkasLinear(3, 4, bias_mode="soft"), "did you mean 'softplus'"),
        (lambda: FarkasLinear(3, 4, place=4), "place must be one of 4 units"),
        (lambda: FarkasLinear(0, 4), "in_features must be at least 1"),
        (lambda: FarkasConv2d(4, 8, 3, groups=3), "groups must divide the channels"),
        (
            lambda: FarkasConv2d(4, 6, 3, groups=4),
            "divide neither the 6 units nor the 5 that are free.*Take 5 units or 8",
        ),
        (lambda: FarkasConv2d(4, 3, 3, groups=4), "Take 5 units or 4"),
        (lambda: FarkasConv2d(4, 6, 3, padding="sam"), "did you mean 'same'"),
        (lambda: FarkasConv2d(4, 6, 3, padding="same", stride=2), "'same' needs stride 1"),
        (lambda: FarkasConv2d(4, 6, 3, padding_mode="mirror"), "unknown padding_mode"),
        (lambda: FarkasConv2d(4, 6, (3, 3, 3)), "kernel_size must be a whole number of at least 1, or 2 of them"),
        (lambda: FarkasAggregate(4, dims=4), "dims must be"),
    ],
)
def test_refusals_name_the_cause(make, message):
    with pytest.raises(AliveError, match=message):
        make()


def test_repr_shows_sizes_and_rule():
    assert "groups=2" in repr(FarkasConv2d(4, 6, 3, groups=2, padding=1))
    assert "aggregation='sum', bias_mode='strict', floor=0.001" in repr(FarkasLinear(2, 3))


@pytest.mark.parametrize("kind", ["dense", "conv", "groups"])
def test_any_fixed_mixture_and_a_learned_one_that_starts_at_the_mean(kind):
    def made(aggregation):
        chance = torch.Generator().manual_seed(0)
        if kind == "dense":
            return FarkasLinear(4, 5, aggregation=aggregation, generator=chance)
        return FarkasConv2d(4, 5, 3, groups=2 if kind == "groups" else 1, aggregation=aggregation, generator=chance)

    x = torch.randn(7, 4) if kind == "dense" else torch.randn(3, 4, 6, 6)
    for aggregation, same in ((1.0, "sum"), (0.25, "mean"), ((1.0,) * 4, "sum"), ("learned from mean", "mean")):
        torch.testing.assert_close(made(aggregation)(x), made(same)(x))
    layer = made((0.5, 2.0, 1.0, 0.1))
    z = layer(x).movedim(1, -1)
    total = z @ torch.tensor([0.5, 2.0, 1.0, 0.1, 1.0])
    torch.testing.assert_close(total, total.flatten()[0].expand_as(total), atol=1e-4, rtol=1e-4)  # no input moves it
    torch.testing.assert_close(layer.to_plain()(x), layer(x))
    assert made("learned from mean").theta.requires_grad
    for wrong in (0.0, -1.0, (1.0, 2.0), (1.0, 0.0, 1.0, 1.0), float("nan")):
        with pytest.raises(AliveError, match="mixture"):
            made(wrong)
