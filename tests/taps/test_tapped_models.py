"""Taps in whole models: transformers, shared and nested modules, activations of one's own."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hooks import hooks_of
from spy import Calls, Spy, seen
from torch import Tensor, nn

import alive
from alive.errors import AliveError
from alive.functional import Activation
from alive.taps import Call, Declared, Taps, Watcher


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
    assert spy.axes == [2]
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


class Names(Watcher):
    """A watcher that a compiler can follow."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def watch(self, call: Call) -> Any:
        self.names.append(call.tap.name)
        return call.activate()


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
    spy = seen(
        nn.Sequential(nn.Linear(3, 4), Squared()), torch.randn(5, 3), declared=Declared(activations={Squared: mine})
    )
    assert [(tap.name, tap.activation) for tap in spy.taps] == [("1", mine)]


def test_a_declared_activation_called_by_keyword_is_seen_and_a_copy_of_its_model_is_free() -> None:
    class Named(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer, self.act = nn.Linear(3, 4), Squared()

        def forward(self, x: Tensor) -> Tensor:
            return self.act(x=self.layer(x))

    model, x = Named(), torch.randn(5, 3)
    assert seen(model, x, declared=Declared(activations={Squared: Activation("mine")})).names == ["act"]
    taps = Taps(model, Spy(), declared=Declared(activations={Squared: Activation("mine")}))
    twin = copy.deepcopy(model)
    taps.remove()
    assert torch.equal(twin(x), model(x))
    Taps(twin, Spy(), declared=Declared(activations={Squared: Activation("mine")})).remove()
    assert hooks_of(twin) == hooks_of(model)


def test_whatever_watches_a_model_takes_what_is_declared() -> None:
    model, x = nn.Sequential(nn.Linear(3, 4), Outer(), nn.Linear(4, 1)), torch.randn(20, 3)
    never = Declared(activations={Outer: Activation("never", cutoff=1e6)})  # so that every unit is dead
    assert alive.census(model, x, declared=never).units.dead == 4
    assert [layer.name for layer in alive.dormancy(model, x, declared=never).layers] == ["1.never"]
    assert alive.preflight(model, x, declared=never).dead_units.value == 1
    assert seen(model, x, declared=never).names == ["1.never"]
    with alive.Jumpstart(model, 1.0, declared=never) as keep:
        model(x)
        assert keep.penalty() > 1e6


@pytest.mark.parametrize(
    "declared", [{Squared: "relu"}, {Squared(): Activation("mine")}], ids=["no record", "no class"]
)
def test_a_declaration_that_is_not_one_is_refused_with_the_way_to_write_it(declared: Any) -> None:
    model = nn.Sequential(nn.Linear(3, 4), Squared())
    with pytest.raises(AliveError, match=r"classes of modules to Activation records.*Write activations=\{MyActivation"):
        Taps(model, Spy(), declared=Declared(activations=declared))
    assert not any(module._forward_pre_hooks for module in model.modules())


@pytest.mark.parametrize("whole", [False, True])
def test_a_part_that_is_compiled_keeps_its_names(whole: bool) -> None:
    torch._dynamo.reset()
    model = nn.Sequential(nn.Sequential(nn.Linear(3, 4), nn.ReLU()), nn.Linear(4, 4), nn.ReLU())
    model[0] = torch.compile(model[0], backend="eager")
    spy, run = Names(), torch.compile(model, backend="eager") if whole else model
    taps = Taps(model, spy)
    run(torch.randn(5, 3))
    taps.remove()
    assert spy.names == ["0.1", "2"]
    torch._dynamo.reset()


def test_a_declared_activation_inside_another_is_part_of_it() -> None:
    outer, inner = Activation("outer"), Activation("inner")
    spy = seen(
        nn.Sequential(Outer(), Squared()),
        torch.randn(5, 3),
        declared=Declared(activations={Outer: outer, Squared: inner}),
    )
    assert [tap.activation for tap in spy.taps] == [outer, inner]
    assert spy.names == ["0.outer", "1"]
