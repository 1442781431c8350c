"""Taps: every one-sided activation is seen, named, with its units where they are."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from spy import Calls, Spy, seen
from torch import Tensor, nn

from alive.errors import AliveError
from alive.functional import Activation
from alive.taps import Declared, Taps
from alive.taps.kinds import READERS


def test_sequential_layers_are_named_by_path() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Sequential(nn.Linear(4, 4), nn.ReLU(True)), nn.Linear(4, 2))
    x = torch.randn(5, 3)
    spy = seen(model, x)
    assert spy.names == ["1", "2.1"]
    assert spy.inplace == [False, True]
    assert torch.equal(spy.z[0], model[0](x))
    assert [tap.activation for tap in spy.taps] == [Activation("relu")] * 2


class Reuse(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.relu = nn.Linear(3, 3), nn.Linear(3, 3), nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.relu(self.b(self.relu(self.a(self.relu(x.clone())))))


def test_one_relu_used_three_times_is_three_taps_in_every_pass() -> None:
    model, spy = Reuse(), Spy()
    with_taps = Taps(model, spy)
    model(torch.randn(2, 3))
    model(torch.randn(2, 3))
    with_taps.remove()
    assert spy.names == ["relu", "relu#2", "relu#3"] * 2
    assert all(spy.inplace)


FUNCTIONS = [F.relu, torch.relu, Tensor.relu, torch.relu_, Tensor.relu_, lambda z: F.relu(z, inplace=True)]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_functions_called_in_forward_are_named_by_their_caller(function: Any) -> None:
    spy = seen(nn.Sequential(Calls(function)), torch.randn(5, 3))
    assert spy.names == ["0.relu"]
    assert seen(Calls(function), torch.randn(5, 3)).names == ["relu"]


MODULES = {
    "relu": nn.ReLU,
    "leaky_relu": nn.LeakyReLU,
    "rrelu": nn.RReLU,
    "prelu": nn.PReLU,
    "relu6": nn.ReLU6,
    "elu": nn.ELU,
    "celu": nn.CELU,
    "selu": nn.SELU,
    "gelu": nn.GELU,
    "silu": nn.SiLU,
    "hardswish": nn.Hardswish,
    "mish": nn.Mish,
    "softplus": nn.Softplus,
    "threshold": lambda **options: nn.Threshold(0.0, 0.0, **options),
}


@pytest.mark.contract
@pytest.mark.parametrize("name", MODULES)
@pytest.mark.parametrize("inplace", [False, True])
def test_every_kind_is_seen_in_its_module_and_leaves_the_output_alone(name: str, inplace: bool) -> None:
    kind = MODULES[name]
    if inplace and name in ("prelu", "gelu", "softplus"):
        return
    model = nn.Sequential(nn.Linear(3, 4), kind(inplace=True) if inplace else kind())
    spy = seen(model, torch.randn(5, 3))
    assert spy.names == ["1.prelu" if name == "prelu" else "1"]
    assert spy.taps[0].activation.name == name
    assert spy.inplace == [inplace]


def more_of(function: Any) -> tuple[Any, ...]:
    if function in (F.prelu, torch.prelu, Tensor.prelu):
        return (torch.tensor([0.1]),)
    if "clamp" in function.__name__ or "clip" in function.__name__:
        return (0.0,)
    if "max" in function.__name__:
        return (torch.zeros(()),)
    two = ("hardtanh", "hardtanh_", "threshold", "threshold_", "_threshold")  # F.threshold says _threshold
    return (0.0, 6.0) if function.__name__ in two else ()


@pytest.mark.contract
@pytest.mark.parametrize("function", READERS, ids=lambda function: function.__name__)
def test_every_reader_sees_its_function(function: Any) -> None:
    spy = seen(Calls(lambda z: function(z, *more_of(function))), torch.randn(5, 3))
    assert len(spy.taps) == 1
    assert spy.inplace == [function.__name__.endswith("_")]
    assert spy.taps[0].activation.name in {*MODULES, "clamp", "maximum"}


@pytest.mark.contract
def test_every_kind_has_a_module_in_this_test() -> None:
    z = torch.zeros(2, 2)
    kinds = {read(z, *more_of(f)).activation.name for f, read in READERS.items()}
    assert kinds == {*MODULES, "clamp", "maximum"}  # which are no module's


def test_a_generator_does_not_trouble_the_reader() -> None:
    random = torch.Generator().manual_seed(3)
    model = Calls(lambda z: torch.rrelu(z, 0.1, 0.3, True, generator=random.manual_seed(3)))
    assert seen(model, torch.randn(5, 3)).names == ["rrelu"]


def test_ceilings_and_cutoffs_are_read() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU6(), nn.Hardtanh(0.0, 2.0), nn.Hardtanh(-1.0, 1.5))
    found = [tap.activation for tap in seen(model, torch.randn(5, 3)).taps]
    assert [(a.cutoff, a.ceiling) for a in found] == [(0.0, 6.0), (0.0, 2.0), (-1.0, 1.5)]


INF = float("inf")


@pytest.mark.parametrize(
    ("clamp", "ceiling"),
    [
        (lambda z: z.clamp(min=0), INF),
        (lambda z: torch.clamp(input=z, min=0.0, max=None), INF),
        (lambda z: z.clamp(0, 6), 6.0),
        (lambda z: torch.clip(z, 0.0, INF), INF),
        (lambda z: torch.clamp(z, min=0, out=torch.empty(0)), INF),
        (lambda z: z.clamp(min=1e-6), None),
        (lambda z: z.clamp(min=torch.zeros(())), INF),
        (lambda z: z.clamp(min=torch.tensor([0.0, 0.0, 0.0, 1.0])), None),
        (lambda z: torch.clamp(z, torch.zeros(4), torch.full((1,), 2.0)), 2.0),
        (lambda z: torch.clamp(z, torch.zeros(4), torch.ones(4)), None),
    ],
    ids=range(10),
)
def test_a_clamp_at_zero_is_a_relu_and_no_other_is(clamp: Any, ceiling: float | None) -> None:
    with torch.no_grad():
        spy = seen(Calls(clamp), torch.randn(5, 3))
    assert [tap.activation for tap in spy.taps] == ([] if ceiling is None else [Activation("clamp", ceiling=ceiling)])


def test_other_clamps_are_what_they_do() -> None:
    def seen_by(clamp: Any) -> list[Activation]:
        with torch.no_grad():
            return [tap.activation for tap in seen(Calls(clamp), torch.randn(5, 3)).taps]

    assert seen_by(lambda z: z.clamp(-1, 1)) == [Activation("hardtanh", cutoff=-1.0, ceiling=1.0)]
    assert seen_by(lambda z: z.clamp(min=-1)) == [Activation("clamp", cutoff=-1.0)]
    assert seen_by(lambda z: z.clamp(max=0)) == [Activation("relu")]  # of -z
    assert seen_by(lambda z: z.clamp(max=2)) == seen_by(lambda z: z.clamp(min=0.5)) == []  # guards


def test_a_threshold_is_off_at_and_below_it() -> None:
    spy = seen(nn.Sequential(nn.Linear(3, 4), nn.Threshold(0.25, -7.0)), torch.randn(5, 3))
    assert [(tap.name, tap.activation) for tap in spy.taps] == [("1", Activation("threshold", cutoff=0.25))]


class Weighs(nn.Module):
    """Activations of what is no pre-activation: weights, and integers."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.scale = nn.Linear(3, 4), nn.Parameter(torch.zeros(4))

    def forward(self, x: Tensor) -> Tensor:
        weight = self.layer.weight.clamp(min=0) * F.relu(torch.arange(-1, 2))
        return F.relu(F.linear(x, weight)) * F.softplus(self.scale)


def test_weights_and_integers_are_no_pre_activations() -> None:
    assert seen(Weighs(), torch.randn(5, 3)).names == ["relu"]


def test_two_sided_activations_and_logits_are_not_seen() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Sigmoid(), nn.Linear(4, 2), nn.Softmax(1))
    assert seen(model, torch.randn(5, 3)).names == []


@pytest.mark.parametrize(
    ("layer", "shape", "axis"),
    [
        (nn.Linear(3, 4), (3,), -1),
        (nn.Linear(3, 4), (5, 3), -1),
        (nn.Linear(3, 4), (5, 6, 3), -1),
        (nn.Linear(3, 4), (5, 6, 7, 3), -1),
        (nn.Conv1d(3, 4, 1), (5, 3, 6), 1),
        (nn.Conv2d(3, 4, 1), (5, 3, 6, 6), 1),
        (nn.Conv3d(3, 4, 1), (5, 3, 2, 2, 2), 1),
        (nn.ConvTranspose1d(3, 4, 1), (5, 3, 6), 1),
        (nn.ConvTranspose2d(3, 4, 1), (5, 3, 6, 6), 1),
        (nn.ConvTranspose3d(3, 4, 1), (5, 3, 2, 2, 2), 1),
        (nn.Sequential(nn.Conv1d(3, 4, 1), nn.BatchNorm1d(4)), (5, 3, 6), 1),
    ],
)
def test_units_lie_where_the_last_weighted_sum_put_them(layer: nn.Module, shape: tuple[int, ...], axis: int) -> None:
    spy = seen(Calls(F.relu, layer), torch.randn(shape))
    assert spy.axes[0] % len(shape) == axis % len(shape)
    assert spy.z[0].shape[spy.axes[0]] == 4 or len(shape) == 1


@pytest.mark.parametrize("product", [torch.matmul, lambda a, b: a @ b, lambda a, b: torch.einsum("ntc,cd->ntd", a, b)])
def test_a_product_written_out_puts_the_units_last(product: Any) -> None:
    class Written(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.weight = nn.Conv1d(3, 3, 1), nn.Parameter(torch.randn(6, 4))

        def forward(self, x: Tensor) -> Tensor:
            return F.relu(product(F.relu(self.conv(x)), self.weight))

    assert seen(Written(), torch.randn(5, 3, 6)).axes == [1, 2]


class Recurs(nn.Module):
    """Maps, then a sequence without a weighted sum of its own."""

    def __init__(self, then: str) -> None:
        super().__init__()
        self.conv, self.then = nn.Conv1d(3, 4, 1), then
        self.lstm, self.gru = nn.LSTM(4, 4, batch_first=True), nn.GRU(4, 4, batch_first=True)
        self.attend = nn.MultiheadAttention(4, 2, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        y = self.conv(x).transpose(1, 2)
        y = self.attend(y, y, y)[0] if self.then == "attend" else getattr(self, self.then)(y)[0]
        return F.relu(y)


@pytest.mark.parametrize("then", ["lstm", "gru", "attend"])
def test_after_a_recurrence_or_attention_the_units_are_last(then: str) -> None:
    assert seen(Recurs(then), torch.randn(5, 3, 6)).axes == [2]


def test_a_unit_axis_that_is_not_there_is_refused() -> None:
    taps = Taps(model := Calls(F.relu), Spy(), declared=Declared(unit_axes={"relu": 3}))
    with pytest.raises(AliveError, match=r"axis 3 for relu, whose pre-activations are of shape \[5, 4\].*from -2 to 1"):
        model(torch.randn(5, 3))
    taps.remove()


def test_the_unit_axis_can_be_said_by_name() -> None:
    model = Calls(lambda z: F.relu(z.transpose(1, 2)))
    assert seen(model, torch.randn(5, 6, 3)).axes == [1]
    with pytest.warns(
        UserWarning, match="unit_axes says axis 2 for relu; its units of layer lie on .1.: yours is taken"
    ):
        assert seen(model, torch.randn(5, 6, 3), declared=Declared(unit_axes={"relu": 2})).axes == [2]


def test_patterns_choose_layers_and_a_lone_string_is_one_pattern() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Sequential(nn.Linear(3, 3), nn.ReLU()))
    assert seen(model, torch.randn(5, 3), layers=["2.*"]).names == ["2.1"]
    assert seen(model, torch.randn(5, 3), layers="1").names == ["1"]
    assert seen(model, torch.randn(5, 3), layers=["nothing"]).names == []
