"""Taps: every one-sided activation of any module is seen, named and left as it was."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import _len_torch_function_stack

from alive.errors import AliveError
from alive.functional import Activation
from alive.taps import Call, Tap, Taps, bare, watchers
from alive.taps.kinds import READERS


class Spy:
    """A watcher that keeps what it is shown."""

    def __init__(self) -> None:
        self.taps: list[Tap] = []
        self.z: list[Tensor] = []
        self.inplace: list[bool] = []
        self.outputs: list[Any] = []
        self.begun = 0

    def begin(self) -> None:
        self.begun += 1

    def watch(self, call: Call) -> Any:
        self.taps.append(call.tap)
        self.z.append(call.z.detach().clone())
        self.inplace.append(call.inplace)
        return call.activate()

    def end(self, output: Any) -> None:
        self.outputs.append(output)

    @property
    def names(self) -> list[str]:
        return [tap.name for tap in self.taps]

    @property
    def axes(self) -> list[int]:
        return [tap.unit_axis for tap in self.taps]


def seen(model: nn.Module, *inputs: Any, **options: Any) -> Spy:
    """What is seen in one pass; checks that output and hooks are untouched, and nothing is left on torch's stack."""
    before = hooks_of(model)
    torch.manual_seed(1)
    expected = model(*copy.deepcopy(inputs))
    spy = Spy()
    taps = Taps(model, spy, **options)
    torch.manual_seed(1)
    found = model(*copy.deepcopy(inputs))
    taps.remove()
    assert torch.equal(found, expected)
    assert hooks_of(model) == before
    assert _len_torch_function_stack() == 0
    assert (spy.begun, len(spy.outputs)) == (1, 1)
    return spy


def hooks_of(model: nn.Module) -> list[dict[str, Any]]:
    return [
        {key: dict(value) for key, value in vars(module).items() if "hook" in key and isinstance(value, dict)}
        for module in bare(model).modules()
    ]


class Calls(nn.Module):
    """A linear layer, then a function."""

    def __init__(self, function: Any, layer: nn.Module | None = None) -> None:
        super().__init__()
        self.function, self.layer = function, layer or nn.Linear(3, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.function(self.layer(x))


# Names, axes, flags.


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
    return (0.0, 6.0) if function in (F.hardtanh, F.hardtanh_) else ()


@pytest.mark.contract
@pytest.mark.parametrize("function", READERS, ids=lambda function: function.__name__)
def test_every_reader_sees_its_function(function: Any) -> None:
    spy = seen(Calls(lambda z: function(z, *more_of(function))), torch.randn(5, 3))
    assert len(spy.taps) == 1
    assert spy.inplace == [function.__name__.endswith("_")]
    assert spy.taps[0].activation.name in MODULES


@pytest.mark.contract
def test_every_kind_has_a_module_in_this_test() -> None:
    z = torch.zeros(2, 2)
    kinds = {read(z, *more_of(f)).activation.name for f, read in READERS.items()}
    assert kinds == set(MODULES)


def test_a_generator_does_not_trouble_the_reader() -> None:
    random = torch.Generator().manual_seed(3)
    model = Calls(lambda z: torch.rrelu(z, 0.1, 0.3, True, generator=random.manual_seed(3)))
    assert seen(model, torch.randn(5, 3)).names == ["rrelu"]


def test_a_ceiling_is_read_and_a_two_sided_hardtanh_is_not_seen() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU6(), nn.Hardtanh(0.0, 2.0), nn.Hardtanh(-1.0, 1.0))
    assert [tap.activation.ceiling for tap in seen(model, torch.randn(5, 3)).taps] == [6.0, 2.0]


def test_two_sided_activations_and_logits_are_not_seen() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Sigmoid(), nn.Hardtanh(), nn.Linear(4, 2), nn.Softmax(1))
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

    assert seen(Written(), torch.randn(5, 3, 6)).axes == [1, -1]


def test_the_unit_axis_can_be_said_by_name() -> None:
    model = Calls(lambda z: F.relu(z.transpose(1, 2)))
    assert seen(model, torch.randn(5, 6, 3)).axes == [-1]
    assert seen(model, torch.randn(5, 6, 3), unit_axes={"relu": 1}).axes == [1]


def test_patterns_choose_layers_and_a_lone_string_is_one_pattern() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Sequential(nn.Linear(3, 3), nn.ReLU()))
    assert seen(model, torch.randn(5, 3), layers=["2.*"]).names == ["2.1"]
    assert seen(model, torch.randn(5, 3), layers="1").names == ["1"]
    assert seen(model, torch.randn(5, 3), layers=["nothing"]).names == []


# Whole models.


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("grad", [True, False])
def test_the_fast_path_of_a_transformer_layer_does_not_hide_its_relu(training: bool, grad: bool) -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dropout=0.0).train(training)
    spy = Spy()
    with torch.set_grad_enabled(grad):
        x = torch.randn(3, 5, 8)
        expected = layer(x)
        taps = Taps(layer, spy)
        torch.testing.assert_close(layer(x), expected)
        taps.remove()
        assert torch.equal(layer(x), expected)
    assert spy.names == ["relu"]
    assert spy.axes == [-1]
    assert spy.z[0].shape == (3, 5, 16)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_a_padded_transformer_encoder_in_eval_mode_is_seen() -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dropout=0.0)
    model = nn.TransformerEncoder(layer, 2).eval()
    x, padding = torch.randn(3, 5, 8), torch.tensor([[False] * 3 + [True] * 2] * 3)
    spy = Spy()
    with torch.no_grad():
        expected = model(x, src_key_padding_mask=padding)
        taps = Taps(model, spy)
        found = model(x, src_key_padding_mask=padding)
        taps.remove()
    assert spy.names == ["layers.0.relu", "layers.1.relu"]
    torch.testing.assert_close(found[~padding], expected[:, :3].reshape(-1, 8))


def test_a_shared_module_is_named_once_and_numbered() -> None:
    block = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
    assert seen(nn.Sequential(block, block), torch.randn(5, 3)).names == ["0.1", "0.1#2"]


def test_a_submodule_called_directly_is_seen_under_its_full_name() -> None:
    model = nn.ModuleDict({"encoder": nn.Sequential(nn.Linear(3, 4), nn.ReLU())})
    spy = Spy()
    taps = Taps(model, spy)
    model["encoder"](torch.randn(5, 3))
    taps.remove()
    assert spy.names == ["encoder.1"]


def test_a_module_that_calls_itself_is_seen_at_every_level() -> None:
    class Tree(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(3, 3)

        def forward(self, x: Tensor, depth: int = 2) -> Tensor:
            x = F.relu(self.layer(x))
            return self(x, depth - 1) if depth else x

    assert seen(Tree(), torch.randn(5, 3)).names == ["relu", "relu#2", "relu#3"]


def test_lazy_modules_may_be_tapped_before_they_have_weights() -> None:
    model, spy = nn.Sequential(nn.LazyLinear(4), nn.ReLU()), Spy()
    taps = Taps(model, spy)
    model(torch.randn(5, 3))
    taps.remove()
    assert spy.names == ["1"]


def test_what_the_watcher_computes_is_not_the_models() -> None:
    class Busy(Spy):
        def watch(self, call: Call) -> Any:
            F.relu(call.z), torch.relu(call.z)
            return super().watch(call)

    model, spy = Calls(F.relu), Busy()
    taps = Taps(model, spy)
    model(torch.randn(5, 3))
    taps.remove()
    assert spy.names == ["relu"]


# Activations of one's own.


class Squared(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return F.relu(x).square() * (x > 0)


class Outer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = Squared()

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x)


def test_a_declared_activation_is_one_tap_whatever_it_is_made_of() -> None:
    mine = Activation("squared", cutoff=0.25)
    spy = seen(nn.Sequential(nn.Linear(3, 4), Squared()), torch.randn(5, 3), activations={Squared: mine})
    assert [(tap.name, tap.activation) for tap in spy.taps] == [("1", mine)]


def test_a_declared_activation_inside_another_is_part_of_it() -> None:
    outer, inner = Activation("outer"), Activation("inner")
    spy = seen(nn.Sequential(Outer(), Squared()), torch.randn(5, 3), activations={Outer: outer, Squared: inner})
    assert [tap.activation for tap in spy.taps] == [outer, inner]
    assert spy.names == ["0.outer", "1"]


# Failure.


class Fails(nn.Module):
    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error, self.fails = error, True

    def forward(self, x: Tensor) -> Tensor:
        if self.fails:
            raise self.error
        return x


def assert_works_again(model: nn.Module, fails: Fails, error: type[BaseException]) -> None:
    spy = Spy()
    taps = Taps(model, spy)
    with pytest.raises(error):
        model(torch.randn(5, 3))
    fails.fails = False
    model(torch.randn(5, 3))
    assert _len_torch_function_stack() == 0
    assert spy.names == ["1", "1", "3"]
    assert (spy.begun, len(spy.outputs)) == (2, 2)
    assert spy.outputs[0] is None
    taps.remove()


@pytest.mark.parametrize("error", [RuntimeError("no"), KeyboardInterrupt()], ids=str)
def test_a_failed_pass_leaves_nothing_behind(error: BaseException) -> None:
    fails = Fails(error)
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Sequential(fails), nn.ReLU())
    assert_works_again(model, fails, type(error))


def test_an_ordinary_failure_clears_the_stack_at_once() -> None:
    model = nn.Sequential(nn.Sequential(Fails(ValueError("no"))))
    taps = Taps(model, Spy())
    with pytest.raises(ValueError, match="no"):
        model(torch.randn(5, 3))
    assert _len_torch_function_stack() == 0
    taps.remove()


def test_remove_clears_up_after_an_interrupt() -> None:
    model = nn.Sequential(nn.Sequential(Fails(KeyboardInterrupt())))
    taps = Taps(model, Spy())
    with pytest.raises(KeyboardInterrupt):
        model(torch.randn(5, 3))
    taps.remove()
    assert _len_torch_function_stack() == 0


def test_an_interrupted_part_does_not_hide_the_next_part() -> None:
    fails = Fails(KeyboardInterrupt())
    model = nn.ModuleDict({"a": nn.Sequential(fails), "b": nn.Sequential(nn.Linear(3, 3), nn.ReLU())})
    spy = Spy()
    taps = Taps(model, spy)
    with pytest.raises(KeyboardInterrupt):
        model["a"](torch.randn(5, 3))
    model["b"](torch.randn(5, 3))
    taps.remove()
    assert spy.names == ["b.1"]
    assert spy.begun == 2


def test_a_users_hook_that_fails_before_ours_does_not_confuse_the_stack() -> None:
    def refuse(module: nn.Module, args: Any) -> None:
        raise ValueError("refused")

    model = nn.Sequential(nn.Sequential(nn.Linear(3, 3), nn.ReLU()), nn.ReLU())
    handle = model[0][1].register_forward_pre_hook(refuse)
    spy = Spy()
    taps = Taps(model, spy)
    with pytest.raises(ValueError, match="refused"):
        model(torch.randn(5, 3))
    handle.remove()
    model(torch.randn(5, 3))
    taps.remove()
    assert spy.names == ["0.1", "1"]


# Attaching and letting go.


def test_removal_restores_hooks_state_and_output_and_keeps_the_users_hooks() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.BatchNorm1d(4)).eval()
    handle = model[1].register_forward_hook(lambda *_: None)
    before, state, x = hooks_of(model), copy.deepcopy(model.state_dict()), torch.randn(5, 3)
    expected = model(x)
    taps = Taps(model, Spy())
    model(x)
    assert hooks_of(model) != before
    taps.remove()
    taps.remove()
    assert hooks_of(model) == before
    assert all(torch.equal(state[key], value) for key, value in model.state_dict().items())
    assert torch.equal(model(x), expected)
    handle.remove()


def test_two_watchers_see_the_same_pass() -> None:
    model, first, second = Calls(F.relu), Spy(), Spy()
    one, two = Taps(model, first), Taps(model, second)
    assert set(watchers(model)) == {first, second}
    model(torch.randn(5, 3))
    assert _len_torch_function_stack() == 0
    one.remove()
    model(torch.randn(5, 3))
    two.remove()
    assert (first.names, second.names) == (["relu"], ["relu", "relu"])
    assert list(watchers(model)) == []


def test_wrappers_are_taken_off() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU())
    parallel = nn.DataParallel(model)
    compiled = torch.compile(model, backend="eager")
    assert bare(parallel) is bare(compiled) is bare(nn.DataParallel(compiled)) is model
    spy = Spy()
    taps = Taps(parallel, spy)
    parallel(torch.randn(5, 3))
    taps.remove()
    assert spy.names == ["1"]


@pytest.mark.parametrize("thing", [nn.ReLU, torch.zeros(2), None, F.relu])
def test_what_is_not_a_module_is_refused(thing: Any) -> None:
    with pytest.raises(AliveError, match=r"expected a torch.nn.Module.*Pass the model itself"):
        bare(thing)
