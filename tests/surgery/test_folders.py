"""An OPT and a Llama as transformers writes them to a folder: read back, counted, shrunk, and the same function."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

import alive

SIZES = {"vocab_size": 120, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4}


@pytest.mark.skipif(find_spec("transformers") is None, reason="transformers is not installed")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("kind", ["OPT", "Llama"])
def test_dead_units_of_a_folder_are_counted_and_go(kind: str, tmp_path: Path) -> None:
    import transformers

    torch.manual_seed(0)
    own = {"OPT": {"ffn_dim": 40, "word_embed_proj_dim": 16, "pad_token_id": 1}, "Llama": {"intermediate_size": 40}}
    config = getattr(transformers, f"{kind}Config")(**SIZES, **own[kind], max_position_embeddings=32)
    model = getattr(transformers, f"{kind}ForCausalLM")(config)
    layers = model.model.decoder.layers if kind == "OPT" else model.model.layers
    for layer in layers:
        if kind == "OPT":
            layer.fc1.bias.data[:7] = -50.0  # dead
        else:
            layer.mlp.up_proj.weight.data[:7] = 0.0  # a gated unit that tells nothing, whatever its gate does
    model.save_pretrained(tmp_path)
    model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path).eval()
    x = torch.randint(3, 120, (16, 12))
    found = alive.census(model, x)
    assert [layer.units.dead for layer in found.layers] == ([7, 7] if kind == "OPT" else [0, 0])
    before = model(x).logits.detach()
    done = alive.shrink(model, x)
    gone = {layer.layer.split(".")[-1]: layer.units - layer.units_left for layer in done.report.layers}
    assert {name for name, count in gone.items() if count} == ({"fc1"} if kind == "OPT" else {"gate_proj", "up_proj"})
    assert set(gone.values()) == {0, 7}
    after = done.model(x)
    after = after.logits if hasattr(after, "logits") else after[0]
    torch.testing.assert_close(after, before, rtol=0, atol=1e-6 * float(before.abs().max()))
