"""Packages that choose: vector-quantize-pytorch, transformers and SAELens, against what they say themselves."""

from __future__ import annotations

import warnings
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import alive

WIDTH, CODES = 8, 64


def selected(census: Any) -> list[Any]:
    return [layer for layer in census.layers if layer.noun != "unit"]


def chosen_units(layer: Any) -> set[int]:
    return {number for number, state in enumerate(layer.states.tolist()) if state != 1}


# Codebooks


class Quantised(nn.Module):
    """An encoder, a quantiser of the package, and a decoder; `ids` is what the quantiser says it chose."""

    def __init__(self, quantiser: nn.Module) -> None:
        super().__init__()
        self.encode, self.quantise, self.decode = nn.Linear(WIDTH, WIDTH), quantiser, nn.Linear(WIDTH, 3)
        self.ids = torch.empty(0)

    def forward(self, x: Tensor) -> Tensor:
        q, self.ids, *_ = self.quantise(self.encode(x))
        return self.decode(q)


def quantisers() -> dict[str, Any]:
    plain: dict[str, dict[str, Any]] = {
        "moving averages": {},
        "learned": {"learnable_codebook": True, "ema_update": False},
        "angles": {"use_cosine_sim": True},
        "k-means": {"kmeans_init": True},
        "two heads": {"heads": 2, "codebook_dim": 4},
        "two heads, two codebooks": {"heads": 2, "codebook_dim": 4, "separate_codebook_per_head": True},
        "two heads, two learned codebooks": {
            "heads": 2,
            "codebook_dim": 4,
            "separate_codebook_per_head": True,
            "learnable_codebook": True,
            "ema_update": False,
        },
    }
    return {name: ("VectorQuantize", {"codebook_size": CODES, **options}) for name, options in plain.items()} | {
        "a projected codebook": ("SimVQ", {"codebook_size": CODES}),
        "residual": ("ResidualVQ", {"codebook_size": CODES, "num_quantizers": 3}),
    }


@pytest.fixture(scope="module")
def package() -> Any:
    return pytest.importorskip("vector_quantize_pytorch")


@pytest.mark.parametrize("name", quantisers())
@pytest.mark.parametrize("shape", [(40,), (12, 5)], ids=["rows", "sequences"])
def test_codes_of_vector_quantize_pytorch(package, name: str, shape: tuple[int, ...]) -> None:
    kind, options = quantisers()[name]
    if len(shape) == 1:  # all of its quantisers take sequences
        shape = (*shape, 1)
    model, x = Quantised(getattr(package, kind)(dim=WIDTH, **options)), torch.randn(*shape, WIDTH)
    model.train()(x)
    model.eval()(x)
    several = options.get("separate_codebook_per_head") or kind == "ResidualVQ"
    used = [set(model.ids[..., k].flatten().tolist()) for k in range(model.ids.shape[-1])] if several else [set()]
    used = used if several else [set(model.ids.flatten().tolist())]
    layers = selected(alive.census(model, x))
    assert {layer.noun for layer in layers} == {"code"}
    if len(layers) == 1:  # one row of codes, a codebook after the other
        used = [{number + CODES * k for k, ids in enumerate(used) for number in ids}]
    assert [chosen_units(layer) for layer in layers] == used
    assert sum(layer.units.total for layer in layers) == CODES * (
        2 if "two codebooks" in name or "two learned" in name else len(layers)
    )
    assert sum(layer.units.dead for layer in layers) > 0 or name == "k-means"


def test_the_penalty_reaches_the_encoder_of_a_quantiser(package) -> None:
    model, x = Quantised(package.VectorQuantize(dim=WIDTH, codebook_size=CODES)), torch.randn(20, 1, WIDTH)
    with alive.Jumpstart(model, 1.0, mode="U", against="death") as keep:
        for _ in range(3):
            model.zero_grad()
            model(x)
            keep.penalty().backward()
            assert model.encode.weight.grad.abs().sum() > 0


# Experts


def ids() -> Tensor:
    return torch.randint(0, 50, (2, 3))


@pytest.mark.parametrize("experts", ["eager", "grouped_mm", "batched_mm"])
def test_experts_of_mixtral(experts: str) -> None:
    transformers = pytest.importorskip("transformers")
    sizes = {"hidden_size": 16, "intermediate_size": 8, "num_attention_heads": 2, "num_key_value_heads": 1}
    config = transformers.MixtralConfig(
        vocab_size=50, num_hidden_layers=2, num_local_experts=12, num_experts_per_tok=2, **sizes
    )
    config._experts_implementation = experts
    model, data, hit = transformers.MixtralForCausalLM(config).eval(), ids(), []
    hooks = [
        layer.mlp.gate.register_forward_hook(lambda module, args, out: hit.append(set(out[2].flatten().tolist())))
        for layer in model.model.layers
    ]
    model(data)
    for hook in hooks:
        hook.remove()
    layers = selected(alive.census(model, data))
    assert [layer.noun for layer in layers] == ["expert", "expert"]
    assert [chosen_units(layer) for layer in layers] == hit
    assert all(layer.units.total == 12 and layer.units.dead for layer in layers)


def test_experts_of_switch() -> None:
    transformers = pytest.importorskip("transformers")
    sizes = {"d_model": 16, "d_kv": 8, "d_ff": 16, "num_layers": 2, "num_heads": 2, "num_decoder_layers": 2}
    config = transformers.SwitchTransformersConfig(
        vocab_size=50, num_sparse_encoder_layers=1, num_experts=8, expert_capacity=3, **sizes
    )
    model, data, hit = transformers.SwitchTransformersEncoderModel(config).eval(), ids(), set()
    experts = model.encoder.block[1].layer[1].mlp.experts
    hooks = [
        expert.register_forward_hook(lambda module, args, out, name=name: hit.add(int(name.split("_")[1])))
        for name, expert in experts.items()
    ]
    hooks and model(data)
    for hook in hooks:
        hook.remove()
    (layer,) = selected(alive.census(model, data))
    assert (layer.noun, layer.units.total) == ("expert", 8)
    assert chosen_units(layer) == hit
    assert 0 < len(hit) < 8


# SAELens

D, LATENTS = 10, 64
ENCODERS: dict[str, dict[str, Any]] = {
    "StandardSAE": {},
    "StandardTrainingSAE": {},
    "TopKSAE": {"k": 4},
    "TopKTrainingSAE": {"k": 4},
    "AbsTopKSAE": {"k": 4},
    "BatchTopKTrainingSAE": {"k": 4},
    "MatryoshkaBatchTopKTrainingSAE": {"k": 4, "matryoshka_widths": [16, 32, 64]},
    "JumpReLUSAE": {},
    "JumpReLUTrainingSAE": {},
    "GatedSAE": {},
    "GatedTrainingSAE": {},
}


def lens(name: str) -> nn.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of its own imports
        package = import_module("sae_lens")
    config = getattr(package, f"{name}Config")(d_in=D, d_sae=LATENTS, **ENCODERS[name])
    model: nn.Module = getattr(package, name)(config)
    for parameter in model.parameters():
        parameter.data = torch.randn_like(parameter) / 2
    return model


@pytest.mark.skipif(find_spec("sae_lens") is None, reason='SAELens is not installed: pip install ".[sae]"')
@pytest.mark.parametrize("name", ENCODERS)
def test_latents_of_saelens(name: str) -> None:
    model, x = lens(name).eval(), torch.randn(40, D) + torch.randn(D)
    on = model.encode(x) != 0
    found = alive.census(model, x)
    assert not found.unseen
    layer = found.layers[-1]
    assert layer.noun == ("unit" if name.startswith("Standard") else "latent")
    assert chosen_units(layer) == set(on.any(0).nonzero().flatten().tolist())
    assert (layer.units.total, layer.points.dead) == (LATENTS, int((~on.any(1)).sum()))
