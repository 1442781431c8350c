"""Shrinking in all its ways: kinds of activations, borders, groups, ranks, what is left alone, what is refused."""

from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from scipy.optimize import Bounds, LinearConstraint, milp
from shrink_models import copy, dense, forget, kill, lift, residual, seeded, still
from torch import Tensor, nn

from alive.errors import AliveError
from alive.surgery import load_shrunk, save_shrunk, shrink, to_onnx
from alive.surgery.shrink.bounds import Range, Variables


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return 2 * torch.rand(*shape, generator=torch.Generator().manual_seed(seed)).double() - 1


def apart(one: nn.Module, other: nn.Module, x: Tensor) -> float:
    with torch.no_grad():
        return float((one(x) - other(x)).abs().max() / one(x).abs().max())


def both(net: nn.Module, x: Tensor, **more):
    """Shrunk on the points, and over the box [-1, 1]; each says the same as the network there."""
    done = shrink(net, x), shrink(net, x, box=(-1.0, 1.0), time_limit=2, **more)
    assert apart(net, done[0].model, x) <= 1e-12
    for seed in (3, 4):
        other = drawn(300, *x.shape[1:], seed=seed)
        assert apart(net, done[1].model, other) <= 1e-12
        assert apart(net, done[1].model, other.sign()) <= 1e-12
    return done


def reasons(done, layer: str) -> dict[int, str]:
    return {g.unit: g.why for found in done.report.layers if found.layer == layer for g in found.gone}


@pytest.mark.parametrize("kind", ["leaky", "prelu", "prelu a unit"])
def test_on_either_side_of_a_leaky_unit_it_is_linear(kind):
    act = {"leaky": nn.LeakyReLU(0.2), "prelu": nn.PReLU(), "prelu a unit": nn.PReLU(12)}[kind]
    net = seeded(nn.Sequential(nn.Linear(3, 12), act, nn.Linear(12, 5)), 0, torch.float64)
    if isinstance(act, nn.PReLU):
        with torch.no_grad():
            act.weight.copy_(0.1 + 0.5 * torch.rand(act.weight.shape))
    for unit in range(4):
        lift(net[0], unit), lift(net[0], unit + 4, -50.0)
    x = drawn(200, 3)
    for done in both(net, x):
        gone = reasons(done, "0")
        assert list(gone.values()) == ["linear"] * 5  # eight units of three inputs
        assert set(gone) <= set(range(8))
        assert done.model[0].out_features == 7
        if kind == "prelu a unit":
            assert done.model[1].num_parameters == 7


def test_a_unit_at_its_ceiling_is_constant():
    net = seeded(nn.Sequential(nn.Linear(3, 6), nn.ReLU6(), nn.Linear(6, 2)), 0, torch.float64)
    lift(net[0], 2), kill(net[0], 4)
    for done in both(net, drawn(100, 3)):
        assert reasons(done, "0") == {2: "constant", 4: "dead"}


def test_below_its_floor_a_hardtanh_is_constant():
    net = seeded(nn.Sequential(nn.Linear(3, 6), nn.Hardtanh(-0.5, 2.0), nn.Linear(6, 2)), 0, torch.float64)
    kill(net[0], 4)
    for done in both(net, drawn(100, 3)):
        assert reasons(done, "0") == {4: "constant"}


@pytest.mark.parametrize("padding", [0, 1])
def test_a_constant_before_a_border_of_zeros_stays(padding):
    net = seeded(
        nn.Sequential(
            nn.Conv2d(1, 5, 3), nn.ReLU(), nn.Conv2d(5, 4, 3, padding=padding), nn.ReLU(), nn.Conv2d(4, 2, 1)
        ),
        0,
        torch.float64,
    )
    still(net[0], 1, 0.5), kill(net[0], 3)
    for done in both(net, drawn(50, 1, 8, 8)):
        assert reasons(done, "0") == ({3: "dead"} if padding else {1: "constant", 3: "dead"})


@pytest.mark.parametrize("pool", ["mean", "max"])
def test_linear_channels_merge_through_a_mean_and_not_through_a_maximum(pool):
    middle = nn.AvgPool2d(2) if pool == "mean" else nn.MaxPool2d(2)
    net = seeded(nn.Sequential(nn.Conv2d(1, 9, 2), nn.ReLU(), middle, nn.Flatten(), nn.Linear(81, 6)), 0, torch.float64)
    for unit in range(7):  # seven of kernels with four weights
        lift(net[0], unit)
    copy(net[0], 8, 7, 3.0)
    for done in both(net, drawn(60, 1, 7, 7)):
        gone = reasons(done, "0")
        assert gone.pop(8) == "multiple"
        assert list(gone.values()) == ["linear"] * (3 if pool == "mean" else 0)


def test_before_a_border_linear_channels_merge_only_with_their_biases():
    """A constant cannot be taken out there: of four weights and a bias, five units are independent."""
    net = seeded(nn.Sequential(nn.Conv2d(1, 8, 2), nn.ReLU(), nn.Conv2d(8, 40, 3, padding=1)), 0, torch.float64)
    for unit in range(8):
        lift(net[0], unit, 50.0 + unit)
    for done in both(net, drawn(40, 1, 6, 6)):
        assert list(reasons(done, "0").values()) == ["linear"] * 3


def test_a_layer_keeps_as_many_linear_units_as_the_next_can_tell_apart():
    net = seeded(nn.Sequential(nn.Linear(30, 20), nn.ReLU(), nn.Linear(20, 2)), 0, torch.float64)
    for unit in range(15):
        lift(net[0], unit)
    for done in both(net, drawn(100, 30)):
        assert list(reasons(done, "0").values()) == ["linear"] * 13
        assert done.model[0].out_features == 7


def test_units_mixed_once_can_be_mixed_again():
    """Mixtures are other units than those whose places they take: their range and their slope are their own."""
    net = seeded(
        nn.Sequential(nn.Linear(12, 10), nn.LeakyReLU(0.3), nn.Linear(10, 8), nn.LeakyReLU(0.3), nn.Linear(8, 2)),
        0,
        torch.float64,
    )
    for unit in range(8):
        lift(net[0], unit, 50.0 if unit % 2 else -50.0)
    for unit in range(6):
        lift(net[2], unit, 900.0 if unit % 2 else -900.0)
    for done in both(net, drawn(100, 12)):
        assert set(reasons(done, "0").values()) == {"linear"}
        assert "linear" in reasons(done, "2").values()
        assert not any("differ" in note for note in done.report.notes)  # nothing had to be taken back


def test_a_removal_that_is_taken_back_leaves_no_trace(monkeypatch):
    from alive.surgery.shrink.operate import Operation

    monkeypatch.setattr(Operation, "_fault", lambda self: "it would not do")
    expressed, mixed, fused = (
        seeded(nn.Sequential(nn.Linear(a, 9), nn.ReLU(), nn.Linear(9, b)), 0, torch.float64)
        for a, b in ((3, 12), (30, 2), (9, 9))
    )
    for net in (expressed, mixed, fused):
        for unit in range(8 + (net is fused)):
            lift(net[0], unit)
    for net, shape in ((dense(0).net, 4), (residual(0).net, 5), (expressed, 3), (mixed, 30), (fused, 9)):
        done = shrink(net, drawn(50, shape))
        assert done.report.gone == ()
        assert any("it would not do" in note for note in done.report.notes)
        kept = done.model.state_dict()
        assert all(torch.equal(value, kept[name]) for name, value in net.state_dict().items())


@pytest.mark.law
@pytest.mark.parametrize("seed", range(6))
def test_whatever_is_planted_where_the_outputs_stay(seed):
    """Layers of random sizes and activations, in which units were killed, lifted, emptied and copied at random."""
    chance = np.random.default_rng(seed)
    kinds = [nn.ReLU, nn.LeakyReLU, nn.PReLU, nn.ReLU6, nn.Hardtanh, nn.Identity, nn.Tanh]
    sizes = [3, *chance.integers(3, 12, size=3), 2]
    layers: list[nn.Module] = []
    for a, b in pairwise(sizes):
        layers += [nn.Linear(int(a), int(b)), kinds[chance.integers(len(kinds))]()]
    net = seeded(nn.Sequential(*layers[:-1]), seed, torch.float64)
    for layer in (module for module in list(net)[:-1] if isinstance(module, nn.Linear)):
        for unit in range(1, len(layer.weight)):
            [kill, lift, lambda m, u: still(m, u, 0.3), lambda m, u: copy(m, u, u - 1, 2.0), lambda m, u: None][
                chance.choice(5, p=[0.1, 0.3, 0.1, 0.1, 0.4])
            ](layer, unit)
    done = both(net, drawn(80, 3))
    assert done[0].report.units_left <= done[1].report.units_left + 1


class Free(nn.Module):
    """Its activation is a function, and no module that could be taken out."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = nn.Linear(6, 4), nn.Linear(4, 5), nn.Linear(5, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.c(F.relu(self.b(F.relu(self.a(x)))))


def test_a_wholly_linear_layer_is_fused_where_its_activation_is_a_module():
    net = seeded(
        nn.Sequential(nn.Linear(6, 4), nn.ReLU(), nn.Dropout(), nn.Linear(4, 9), nn.ReLU(), nn.Linear(9, 7)),
        0,
        torch.float64,
    )
    for unit in range(9):
        lift(net[3], unit)
    x = drawn(100, 6)
    for done in both(net, x):
        assert set(reasons(done, "3").values()) == {"linear", "fused"}
        assert isinstance(done.model[3], nn.Identity)
        assert isinstance(done.model[4], nn.Identity)
        assert (done.model[5].in_features, done.model[5].out_features) == (4, 7)
    free = seeded(Free(), 0, torch.float64)
    for unit in range(5):
        lift(free.b, unit)
    for done in both(free, x):
        assert isinstance(done.model.b, nn.Linear)
        assert any("no module of its own" in note for note in done.report.notes)


def test_convolutions_without_a_bend_between_are_one():
    net = seeded(
        nn.Sequential(nn.Conv2d(2, 6, 3, padding=1, stride=2), nn.ReLU(), nn.Conv2d(6, 8, 1), nn.Conv2d(8, 3, 1)),
        0,
        torch.float64,
    )
    for unit in range(6):
        lift(net[0], unit)
    for done in both(net, drawn(40, 2, 7, 7)):
        assert isinstance(done.model[0], nn.Identity)
        assert done.model[3].kernel_size == (3, 3)
        assert done.report.connections_left == 3 * 2 * 9


def test_a_fused_layer_does_not_grow():
    net = seeded(nn.Sequential(nn.Linear(20, 2), nn.ReLU(), nn.Linear(2, 20)), 0, torch.float64)
    lift(net[0], 0), lift(net[0], 1)
    done = shrink(net, drawn(100, 20))
    assert done.report.connections_left == 80
    assert any("more weights" in note for note in done.report.notes)


def test_groups_stay_even():
    """Three dead channels in one group and one in the other: one of each goes."""
    net = seeded(
        nn.Sequential(nn.Conv1d(2, 8, 3), nn.ReLU(), nn.Conv1d(8, 4, 3, groups=2), nn.ReLU(), nn.Conv1d(4, 1, 1)),
        0,
        torch.float64,
    )
    for unit in (0, 1, 3, 6):
        kill(net[0], unit)
    for done in both(net, drawn(50, 2, 9)):
        assert sorted(reasons(done, "0")) == [0, 6]
        assert (done.model[2].in_channels, done.model[2].groups) == (6, 2)


def test_a_depthwise_kernel_with_several_outputs_a_channel_is_cut_with_it():
    net = seeded(
        nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Conv2d(4, 8, 3, groups=4), nn.ReLU(), nn.Conv2d(8, 2, 1)),
        0,
        torch.float64,
    )
    kill(net[0], 2), kill(net[2], 4), kill(net[2], 5)
    for done in both(net, drawn(50, 1, 8, 8)):
        assert (done.model[2].groups, done.model[2].out_channels, done.model[4].in_channels) == (3, 6, 6)


def test_what_nobody_reads_goes_for_every_input():
    net = seeded(nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2)), 0, torch.float64)
    forget(net[2], 3)
    for done in both(net, drawn(50, 3)):
        assert reasons(done, "0") == {3: "unread"}


class Written(nn.Module):
    """The width is written in the forward."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(3, 6), nn.Linear(6, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.b(F.relu(self.a(x)).view(-1, 6))


class Shared(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.twice, self.last = nn.Linear(3, 4), nn.Linear(4, 4), nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.first(x))
        return self.last(F.relu(self.twice(F.relu(self.twice(x)))))


class Mixed(nn.Module):
    """A softmax over channels is not followed; the layer behind it is."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = nn.Linear(3, 6), nn.Linear(6, 6), nn.Linear(6, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.c(F.relu(self.b(torch.softmax(F.relu(self.a(x)), 1))))


def test_what_cannot_be_followed_is_named_and_left_alone():
    x = drawn(50, 3)
    written, shared, mixed = (seeded(kind(), 0, torch.float64) for kind in (Written, Shared, Mixed))
    kill(written.a, 1), kill(shared.twice, 1), kill(mixed.a, 1), kill(mixed.b, 2)
    for done in both(written, x):
        assert done.model.a.out_features == 6
        assert any("written in the forward" in note for note in done.report.notes)
    for done in both(shared, x):
        assert done.report.gone == ()
        assert "twice: the graph shows no plain call of it, or it is shared" in done.report.notes
        assert "twice is shared" in next(layer.kept for layer in done.report.layers if layer.layer == "first")
    for done in both(mixed, x):
        assert "softmax" in done.report.layers[0].kept
        assert {g.layer for g in done.report.gone} == {"b"}
        assert reasons(done, "b")[2] == "dead"


class Asks(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(3, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.a(x) if self.a(x).sum() > 0 else -self.a(x)


def norm_in_training() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 1))


@pytest.mark.parametrize(
    ("make", "data", "more", "said"),
    [
        (norm_in_training, torch.rand(9, 3), {}, "training mode"),
        (Asks, torch.rand(9, 3), {}, "cannot be traced"),
        (lambda: nn.Linear(3, 1), torch.rand(9, 3), {"box": (1.0, 0.0)}, "the box is empty"),
        (lambda: nn.Linear(3, 1), torch.rand(9, 3), {"box": (torch.zeros(4), torch.ones(4))}, "shape of a point"),
        (lambda: nn.Linear(3, 1), None, {"box": (0.0, 1.0)}, "no known shape"),
        (lambda: nn.Linear(3, 1), None, {}, "give one of them"),
        (lambda: nn.Linear(3, 1), None, {"box": "data"}, "there are none"),
        (lambda: nn.Linear(3, 1), torch.rand(9, 4), {}, "shapes cannot be multiplied"),
        (lambda: nn.Linear(3, 1), torch.rand(9, 3), {"held_out": torch.rand(9, 4)}, "could not run on inputs"),
        (lambda: nn.Linear(3, 1), [torch.rand(2, 3), torch.rand(2, 5, 3)], {}, "points of shape"),
        (lambda: nn.Embedding(3, 1), torch.arange(3), {"box": (0.0, 1.0)}, "one input of real numbers"),
        (lambda: nn.Linear(3, 1), torch.full((2, 3), torch.nan), {}, "NaN"),
    ],
)
def test_one_sentence_where_it_cannot_be_done(make, data, more, said, capfd):
    net = make()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    with pytest.raises(AliveError, match=said):
        shrink(net, data, **more)
    assert tuple(capfd.readouterr()) == ("", ""), "nothing but the error: no graphs, no log lines of torch"
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())


def test_the_small_network_lives_in_a_file(tmp_path):
    planted = dense(0, torch.float32)
    x = drawn(60, 4).float()
    small = shrink(planted.net, x).model
    save_shrunk(small, tmp_path / "small.safetensors")
    again = load_shrunk(planted.net, tmp_path / "small.safetensors")
    with torch.no_grad():
        assert torch.equal(small(x), again(x))
    assert planted.net[0].out_features == 16
    to_onnx(small, tmp_path / "small.onnx", x)
    runtime = pytest.importorskip("onnxruntime")
    said = runtime.InferenceSession(tmp_path / "small.onnx").run(None, {"input": x.numpy()})[0]
    with torch.no_grad():
        assert (planted.net(x).argmax(1).numpy() == said.argmax(1)).all()
        assert np.abs(planted.net(x).numpy() - said).max() <= 1e-5 * np.abs(said).max()


@pytest.mark.parametrize(
    ("layer", "said"),
    [
        ([{}, {}], "a layer '{}' that alive shrink does not write"),
        ([["Linear"], {}], r"a layer \"\['Linear'\]\" that"),
        (["Dropout", {"p": 0.5}], "a layer 'Dropout' that"),
        (["Linear", {"in_features": 2}], "a layer 'Linear' that"),
        (["Linear", {"in_features": {}, "out_features": 3, "bias": True}], "a layer that is none: Linear with"),
        (["Linear", {"in_features": 10**9, "out_features": 3, "bias": True}], "not of the size that is said"),
        (["Linear", 3], "cannot be read"),
        (["Linear"], "cannot be read"),
        (None, "cannot be read"),
    ],
)
def test_a_file_that_says_something_else_of_a_layer_is_refused_in_one_line(tmp_path, layer, said):
    net, header = nn.Sequential(nn.Linear(2, 3)), json.dumps({"0": layer})
    save_file(net.state_dict(), tmp_path / "small.safetensors", {"shrunk": header})
    with pytest.raises(AliveError, match=said) as told:
        load_shrunk(net, tmp_path / "small.safetensors")
    assert "\n" not in str(told.value)


# The difference of two networks over a box, as large as it can be: an integer program that shares no code with alive.


def largest_gap(one: nn.Sequential, other: nn.Sequential, inputs: int) -> float:
    """The largest |one(x) - other(x)| over x in [-1, 1]^n."""
    rows, limits, lo, hi, whole = [], [], [-1.0] * inputs, [1.0] * inputs, [0] * inputs

    def add(low: float, high: float, integer: int = 0) -> int:
        lo.append(low), hi.append(high), whole.append(integer)
        return len(lo) - 1

    def encode(net: nn.Sequential) -> list[tuple[dict[int, float], float]]:
        values = [({i: 1.0}, 0.0) for i in range(inputs)]
        for module in net:
            if isinstance(module, nn.Linear):
                weight, bias = module.weight.detach().double().numpy(), module.bias.detach().double().numpy()
                values = [mixed(w, b, values) for w, b in zip(weight, bias, strict=True)]
            elif isinstance(module, nn.ReLU):
                values = [bent(form) for form in values]
        return values

    def mixed(w, b, values):
        factors: dict[int, float] = {}
        for k, (form, shift) in zip(w, values, strict=True):
            b += k * shift
            for i, f in form.items():
                factors[i] = factors.get(i, 0.0) + k * f
        return factors, float(b)

    def bent(form):
        factors, shift = form
        high = shift + sum(max(f * lo[i], f * hi[i]) for i, f in factors.items())
        low = shift + sum(min(f * lo[i], f * hi[i]) for i, f in factors.items())
        r, d = add(0.0, max(high, 0.0)), add(0.0, 1.0, 1)
        for row, limit in (
            ({**factors, r: -1.0}, -shift),
            ({**{i: -f for i, f in factors.items()}, r: 1.0, d: -min(low, 0.0)}, shift - min(low, 0.0)),
            ({r: 1.0, d: -max(high, 0.0)}, 0.0),
        ):
            rows.append(row), limits.append(limit)
        return {r: 1.0}, 0.0

    pairs = list(zip(encode(one), encode(other), strict=True))
    table = np.zeros((len(rows), len(lo)))
    for number, row in enumerate(rows):
        for i, f in row.items():
            table[number, i] = f
    gaps = []
    for (a, s), (b, t) in pairs:
        for sign in (1, -1):
            cost = np.zeros(len(lo))
            for form, k in ((a, sign), (b, -sign)):
                for i, f in form.items():
                    cost[i] -= k * f
            constraint = [LinearConstraint(table, -np.inf, limits)] if rows else []
            done = milp(cost, integrality=whole, bounds=Bounds(lo, hi), constraints=constraint)
            assert done.success, done.message
            gaps.append(-done.fun + sign * (s - t))
    return max(gaps)


def small_net(seed: int) -> nn.Sequential:
    net = seeded(
        nn.Sequential(nn.Linear(3, 7), nn.ReLU(), nn.Linear(7, 6), nn.ReLU(), nn.Linear(6, 2)), seed, torch.float64
    )
    kill(net[0], 0), copy(net[0], 2, 1, 1.5), lift(net[0], 3, 4.0), lift(net[0], 4, 4.0), lift(net[0], 5, 4.0)
    lift(net[0], 6, 4.0), still(net[2], 1, 0.3)
    with torch.no_grad():
        net[2].bias[2] = -net[2].weight[2].clamp(min=0).sum() * 9  # dead whatever comes
        net[2].weight[3] = -net[2].weight[3].abs()
        net[2].bias[3] = 0.0  # dead, with nothing to spare
    return net


@pytest.mark.law
@pytest.mark.parametrize("seed", range(3))
def test_no_input_of_the_box_tells_the_certified_network_from_the_first(seed):
    net = small_net(seed)
    done = shrink(net, box=(-torch.ones(3), torch.ones(3)), time_limit=20)
    assert {"dead", "constant", "multiple", "linear"} <= set(done.report.reasons)
    plain = nn.Sequential(*(module for module in done.model if not isinstance(module, nn.Identity)))
    assert largest_gap(net, plain, 3) <= 1e-6  # the solver's own tolerance


def test_the_gap_sees_what_is_wrong():
    """The integer program above finds a unit that was removed and should not have been."""
    net = small_net(0)
    other = shrink(net, torch.zeros(2, 3).double()).model  # observed on a single point: almost all is constant
    plain = nn.Sequential(*(module for module in other if not isinstance(module, nn.Identity)))
    assert largest_gap(net, plain, 3) > 0.1


@pytest.mark.law
@pytest.mark.parametrize("seed", range(4))
def test_bounds_hold_everywhere_in_the_box(seed):
    """Two inputs, so that a fine grid with its corners is as good as everything."""
    chance = torch.Generator().manual_seed(seed)
    weights = [torch.randn(a, b, generator=chance).double() for a, b in ((5, 2), (5, 5), (3, 5))]
    variables = Variables(torch.tensor([-1.0, -1.0]).double(), torch.tensor([1.0, 0.5]).double())
    side = torch.linspace(0, 1, 81).double()
    x = torch.cartesian_prod(-1 + 2 * side, -1 + 1.5 * side)
    z, factors, shift = x @ weights[0].T, weights[0].T, torch.zeros(5).double()
    for weight in weights[1:]:
        bound = variables.range(torch.cat([factors, factors.new_zeros(len(variables) - len(factors), 5)]), shift)
        assert bool((bound.lo <= z.amin(0)).all())
        assert bool((bound.hi >= z.amax(0)).all())
        wide = torch.cat([factors, factors.new_zeros(len(variables) - len(factors), 5)])
        start = len(variables)
        lo, hi = bound.lo.clamp(max=-1e-3), bound.hi.clamp(min=1e-3)
        variables.add(torch.zeros(5).double(), hi, wide.T.contiguous(), shift, Range(lo, hi))
        z = z.relu() @ weight.T
        factors = torch.cat([torch.zeros(start, len(weight)).double(), weight.T])
        shift = torch.zeros(len(weight)).double()
    last = variables.range(factors, shift)
    assert bool((last.lo <= z.amin(0)).all() and (last.hi >= z.amax(0)).all())
