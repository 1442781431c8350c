"""Models that nobody here wrote: small random ones from `transformers`, built without a download."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
from torch import nn

os.environ["HF_HUB_OFFLINE"] = "1"
transformers = pytest.importorskip("transformers")

from alive.diagnosis import census  # noqa: E402
from alive.penalties import Jumpstart  # noqa: E402
from alive.taps import Taps, Watcher  # noqa: E402

pytestmark = [pytest.mark.contract, pytest.mark.filterwarnings("ignore:.*:DeprecationWarning")]
IDS = {"input_ids": torch.arange(24).view(4, 6) % 20}
SMALL = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}


class Case(NamedTuple):
    """How to build a model, what to feed it, and what must be found in it."""

    build: Callable[[], nn.Module]
    batch: dict[str, torch.Tensor]
    taps: list[str]
    kind: str
    units: int
    unit_axis: int


def images() -> dict[str, torch.Tensor]:
    return {"pixel_values": torch.randn(4, 3, 32, 32, generator=torch.Generator().manual_seed(0))}


def bert() -> nn.Module:
    return transformers.BertModel(transformers.BertConfig(vocab_size=20, **SMALL))


def gpt2() -> nn.Module:
    return transformers.GPT2Model(transformers.GPT2Config(vocab_size=20, n_embd=16, n_layer=2, n_head=2, n_positions=8))


def t5() -> nn.Module:
    config = transformers.T5Config(vocab_size=20, d_model=16, d_kv=8, d_ff=24, num_layers=2, num_heads=2)
    return transformers.T5EncoderModel(config)


def vit() -> nn.Module:
    return transformers.ViTModel(transformers.ViTConfig(image_size=32, patch_size=8, **SMALL))


def llama() -> nn.Module:
    return transformers.LlamaModel(transformers.LlamaConfig(vocab_size=20, num_key_value_heads=2, **SMALL))


def resnet() -> nn.Module:
    config = transformers.ResNetConfig(embedding_size=8, hidden_sizes=[8, 8], depths=[1, 1], layer_type="basic")
    return transformers.ResNetModel(config)


def mobilenet() -> nn.Module:
    return transformers.MobileNetV2Model(transformers.MobileNetV2Config(depth_multiplier=0.25, image_size=32))


CASES = {
    "bert": Case(bert, IDS, [f"encoder.layer.{i}.intermediate.intermediate_act_fn" for i in (0, 1)], "gelu", 24, -1),
    "gpt2": Case(gpt2, IDS, [f"h.{i}.mlp.act" for i in (0, 1)], "gelu", 64, -1),
    "t5": Case(t5, IDS, [f"encoder.block.{i}.layer.1.DenseReluDense.act" for i in (0, 1)], "relu", 24, -1),
    "vit": Case(vit, images(), [], "gelu", 24, -1),
    "llama": Case(llama, IDS, [f"layers.{i}.mlp.act_fn" for i in (0, 1)], "silu", 24, -1),
    "resnet": Case(resnet, images(), [], "relu", 8, 1),
    "mobilenet": Case(mobilenet, images(), [], "relu6", 8, 1),
}


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest) -> Case:
    return CASES[request.param]


def output_of(model: nn.Module, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    return model(**batch).last_hidden_state


def hooks_of(model: nn.Module) -> list[dict[str, Any]]:
    return [
        {key: dict(value) for key, value in vars(m).items() if "hook" in key and isinstance(value, dict)}
        for m in model.modules()
    ]


class Names(Watcher):
    """A watcher that notes what it saw: tap and units."""

    def __init__(self) -> None:
        self.seen: dict[str, tuple[str, int, int]] = {}

    def watch(self, call: Any) -> Any:
        tap = call.tap
        (axis,) = tap.layout.place.units
        self.seen[tap.name] = (tap.activation.name, axis if axis == 1 else axis - call.z.ndim, call.z.shape[axis])
        return call.activate()


def test_taps_have_sensible_names_kinds_and_axes(case: Case) -> None:
    model, names = case.build().eval(), Names()
    expected, before = output_of(model, case.batch), hooks_of(model)
    taps = Taps(model, names)
    assert torch.equal(output_of(model, case.batch), expected)
    taps.remove()
    assert hooks_of(model) == before
    assert torch.equal(output_of(model, case.batch), expected)
    assert len(names.seen) >= 2
    assert not case.taps or list(names.seen) == case.taps
    paths = dict(model.named_modules())
    assert all(name.split("#")[0] in paths for name in names.seen)
    assert {kind for kind, _, _ in names.seen.values()} == {case.kind}
    assert {axis for _, axis, _ in names.seen.values()} == {case.unit_axis}
    assert next(iter(names.seen.values()))[2] == case.units


def test_a_census_counts_every_unit_and_point(case: Case) -> None:
    model = case.build().train()
    before = hooks_of(model)
    found = census(model, [case.batch, case.batch])
    assert found.points.total == 8
    assert found.layers[0].units.total == case.units
    assert found.units.total == sum(layer.units.total for layer in found.layers)
    assert all(layer.points.total == 8 for layer in found.layers)
    assert found.units.broken == found.points.broken == 0
    assert hooks_of(model) == before
    assert all(module.training for module in model.modules())


def test_the_penalty_has_finite_gradients_and_lets_go(case: Case) -> None:
    model = case.build().eval()
    expected, before = output_of(model, case.batch), hooks_of(model)
    state = {key: value.clone() for key, value in model.state_dict().items()}
    with Jumpstart(model.train(), 1.0, pos_margin=9.0, neg_margin=9.0) as keep:
        output_of(model, case.batch)
        penalty = keep.penalty()
        penalty.backward()
    assert penalty.isfinite()
    assert penalty > 0
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    assert any(g.abs().max() > 0 for g in gradients)
    assert all(g.isfinite().all() for g in gradients)
    assert hooks_of(model) == before
    model.load_state_dict(state)  # batch norms have moved
    assert torch.equal(output_of(model.eval(), case.batch), expected)


ONE_SIDED = ["gelu", "gelu_10", "gelu_fast", "gelu_new", "gelu_python", "gelu_pytorch_tanh", "gelu_python_tanh"]
ONE_SIDED += [
    "gelu_accurate",
    "hardswish",
    "leaky_relu",
    "mish",
    "quick_gelu",
    "relu",
    "relu2",
    "relu6",
    "silu",
    "swish",
]


@pytest.mark.parametrize("name", ONE_SIDED)
def test_every_one_sided_activation_of_transformers_is_one_tap(name: str) -> None:
    activation = transformers.activations.ACT2FN[name]
    model, names = nn.Sequential(nn.Linear(3, 4), activation), Names()
    taps = Taps(model, names)
    model(torch.randn(5, 3))
    taps.remove()
    assert list(names.seen) == ["1"] or next(iter(names.seen)).startswith("1.")
    assert len(names.seen) == 1


@pytest.mark.parametrize("name", ["tanh", "sigmoid", "linear"])
def test_two_sided_activations_of_transformers_are_not_seen(name: str) -> None:
    model, names = nn.Sequential(nn.Linear(3, 4), transformers.activations.ACT2FN[name]), Names()
    taps = Taps(model, names)
    model(torch.randn(5, 3))
    taps.remove()
    assert not names.seen
