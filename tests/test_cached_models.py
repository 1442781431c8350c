"""`hf:name` from the offline cache of Hugging Face, as its own tools lay it out; nothing is downloaded."""

from __future__ import annotations

import json

import numpy as np
import pytest


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """A cache that holds one small model, as a download would have left it."""
    import huggingface_hub.constants
    from transformers import BertConfig, BertForSequenceClassification

    folder = tmp_path / "hub" / "models--someone--tiny"
    snapshot = folder / "snapshots" / "0123abc"
    config = BertConfig(vocab_size=30, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16)
    model = BertForSequenceClassification(config)
    model.save_pretrained(snapshot)
    (folder / "refs").mkdir()
    (folder / "refs" / "main").write_text("0123abc")
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    np.savez(tmp_path / "tokens.npz", input_ids=np.random.default_rng(0).integers(30, size=(12, 6)))
    return snapshot


def test_a_name_is_its_folder(alive, cache):
    code, out, err = alive("census", "hf:someone/tiny", "--data", "tokens.npz", "--json")
    assert code == 0, err
    same = json.loads(alive("census", f"hf:{cache}", "--data", "tokens.npz", "--json")[1])
    assert json.loads(out)["layers"] == same["layers"]
    assert alive("census", "hf:someone/tiny@main", "--data", "tokens.npz", "--json")[0] == 0


def test_a_name_that_is_not_there_is_refused(alive, cache, capsys):
    capsys.readouterr()  # a bar of transformers
    for name in ("someone/other", "someone/tiny@v2", "a/b/c/d"):
        code, _, err = alive("census", f"hf:{name}", "--data", "tokens.npz")
        assert code == 2
        assert "nothing is downloaded" in err
        assert err.count("\n") == 1
