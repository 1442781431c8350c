"""alive shrink: what it prints and writes, and what it refuses."""

from __future__ import annotations

import json

import pytest
import torch
from safetensors.torch import save_file

MINE = """
import torch
from torch import nn

def make_model():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 6), nn.ReLU(), nn.Linear(6, 3))
    with torch.no_grad():
        net[0].bias[1] = -99.0
        net[0].weight[3], net[0].bias[3] = 2 * net[0].weight[2], 2 * net[0].bias[2]
    return net

def normed():
    return nn.Sequential(nn.Linear(2, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 3))

def make_data():
    return 2 * torch.rand(100, 2, generator=torch.Generator().manual_seed(0)) - 1
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(MINE)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_it_prints_json_and_writes_what_was_asked_for(alive, here):
    code, out, err = alive(
        "shrink", "mine:make_model", "--json", "--out", "s.safetensors", "--onnx", "s.onnx", "--html", "s.html"
    )
    assert code == 0, err
    told = json.loads(out)
    assert told["ground"] == "observed"
    assert told["points"] == 100  # all of them
    assert told["held_out"] is None
    assert (told["stirred"]["points"], told["stirred"]["held_out"]) == (10, False)
    gone = {(g["layer"], g["unit"]): g["why"] for layer in told["layers"] for g in layer["gone"]}
    assert (gone[("0", 1)], gone[("0", 3)]) == ("dead", "multiple")
    assert told["proofs"] is None
    page = (here / "s.html").read_text()
    assert "Observed: exact on the 100 points given" in page
    assert "proved" not in page
    assert "http" not in page
    code, out, err = alive("census", "mine:make_model", "--weights", "s.safetensors", "--json")
    assert code == 0, err
    assert json.loads(out)["units"]["dead"] == 0


def test_a_box_makes_it_certified(alive, here):
    code, out, err = alive("shrink", "mine:make_model", "--box=-1,1", "--html", "s.html")
    assert code == 0, err
    assert "certified: proved for every input with every entry between -1 and 1" in out
    assert "observed" not in out
    assert "Observed" not in (here / "s.html").read_text()


def test_weights_are_loaded_first_and_a_norm_is_no_fault(alive, here):
    from torch import nn

    net = nn.Sequential(nn.Linear(2, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 3))
    with torch.no_grad():
        net[1].bias.fill_(-99.0)
    save_file(net.state_dict(), here / "w.safetensors")
    code, out, err = alive("shrink", "mine:normed", "--weights", "w.safetensors", "--json")
    assert code == 0, err
    assert json.loads(out)["layers"][0]["units_left"] == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--box", "zero"], "cannot read --box 'zero'"),
        (["--box", "1,0"], "the box is empty"),
        (["--out", "nowhere/s.safetensors"], "cannot write nowhere/s.safetensors"),
        (["--data", "wide.npz"], "could not run on inputs"),
    ],
)
def test_one_line_where_it_cannot_be_done(alive, here, words, said):
    import numpy as np

    np.savez(here / "wide.npz", x=np.zeros((5, 7), dtype="float32"))
    code, out, err = alive("shrink", "mine:make_model", *words)
    assert (code, out) == (2, "")
    assert said in err
    assert "Traceback" not in err
