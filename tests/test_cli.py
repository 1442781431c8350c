"""The command line, as a user types it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

MODEL = """
import torch
from torch import nn

def make_model():
    model = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
    with torch.no_grad():
        model[0].weight.zero_()
        model[0].bias.copy_(torch.tensor([-1.0, 1.0, -1.0]))
    return model

def make_data():
    return torch.randn(40, 2), torch.arange(40) % 2

needs_more = nn.Linear
no_model = 7
"""


@pytest.fixture
def own(tmp_path, request):
    """A module of the user's own, under a name of its own; returns that name."""
    name = f"own_{abs(hash(request.node.nodeid))}"
    (tmp_path / f"{name}.py").write_text(MODEL)
    return name


def test_help_answers_without_torch():
    code = "import sys, alive.cli as c\ntry: c.main()\nexcept SystemExit: print(['torch'] * ('torch' in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code, "--help"], capture_output=True, text=True, check=True)
    assert done.stdout.strip().endswith("[]")
    assert "census" in done.stdout


def test_version_is_the_one_version(alive):
    import alive as package

    assert alive("--version") == (0, f"alive {package.__version__}\n", "")


def test_census_of_a_users_own_model_counts_what_was_planted(alive, own):
    code, out, _ = alive("census", f"{own}:make_model", "--data", f"{own}:make_data", "--json")
    found = json.loads(out)
    assert code == 0
    assert found["units"] == {"dead": 2, "linear": 1, "nonlinear": 0, "broken": 0}
    assert found["layers"][0]["dead_units"] == [0, 2]
    assert found["points"] == {"dead": 0, "linear": 0, "nonlinear": 40, "broken": 0}


def test_census_prints_a_table_and_writes_a_page(alive, own, tmp_path):
    code, out, _ = alive("census", f"{own}:make_model", "--html", "report.html")
    page = (tmp_path / "report.html").read_text()
    assert code == 0
    assert "What to do" in out
    assert page.startswith("<!doctype html>")
    assert f"{own}:make_model" in page
    assert "http" not in page, "a page must be readable without network"


@pytest.mark.parametrize(("limit", "code"), [("dead_units>0", 1), ("dead_units>2", 0), ("linear_units>=30%", 1)])
def test_fail_on_sets_the_exit_code(alive, own, limit, code):
    got, _, err = alive("census", f"{own}:make_model", "--fail-on", limit)
    assert got == code
    assert (limit in err) == (code == 1)


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["census", "50y4"], "expected depth x width"),
        (["census", "5x4", "--data", "mons"], "did you mean 'moons'"),
        (["census", "5x4", "--split", "trian"], "did you mean 'train'"),
        (["census", "5x4", "--init", "gloro"], "did you mean 'glorot'"),
        (["census", "5x4", "--fail-on", "dead_unit>0"], "did you mean 'dead_units'"),
        (["census", "5x4", "--fail-on", "many dead"], "cannot read the limit"),
        (["census", "5x4", "--html", "nowhere/report.html"], "cannot write nowhere/report.html"),
        (["census", "5x4", "--weights", "none.safetensors"], "none.safetensors"),
        (["census", "no_such_module:make"], "cannot import 'no_such_module'"),
        (["census", "OWN:make_modl"], "did you mean 'make_model'"),
        (["census", "OWN:needs_more"], "without arguments"),
        (["census", "OWN:no_model"], "not a torch.nn.Module"),
        (["census", "5x4", "--data", "OWN:no_model"], "not data"),
        (["train", "5x4", "--epochs", "0", "--lr", "-1"], "epochs must be"),
        (["train", "5x4", "--jumpstart", "UPP"], "did you mean 'UP'"),
        (["train", "5x4", "--jumpstart", "UP", "--aggregate", "sums"], "did you mean 'sum"),
        (["train", "5x4", "--jumpstart", "UP", "--schedule", "cosin"], "did you mean 'cosine'"),
        (["train", "5x4", "--checkpoint", "nowhere/run.safetensors"], "cannot write nowhere/run.safetensors"),
        (["train", "5x4", "--resume"], "nothing to resume from"),
        (["bench", "penlty"], "did you mean 'penalty'"),
        (["demo", "--seeds", "0"], "seeds must be at least 1"),
        (["demo", "--out", "/proc/nowhere"], "cannot write /proc/nowhere"),
    ],
)
def test_bad_input_gets_one_clear_line(alive, own, args, said):
    code, out, err = alive(*[arg.replace("OWN", own) for arg in args])
    assert code == 2
    assert said in err
    assert "Traceback" not in err
    assert len(err.strip().splitlines()) == 1
    assert out == ""


def test_train_writes_a_log_and_a_checkpoint_that_census_can_read(alive, tmp_path):
    run = ("train", "3x4", "--epochs", 5, "--jumpstart", "UP", "--checkpoint", "run.safetensors", "--csv", "log.csv")
    code, out, _ = alive(*run)
    assert code == 0
    assert "best  train accuracy" in out
    assert len((tmp_path / "log.csv").read_text().splitlines()) == 6
    trained = alive("census", "3x4", "--weights", "run.safetensors", "--json")[1]
    fresh = alive("census", "3x4", "--json", "--seed", 3)[1]
    assert json.loads(trained) != json.loads(fresh)
    code, _, err = alive("census", "4x4", "--weights", "run.safetensors")
    assert code == 2
    assert "another network" in err


def test_a_diverging_run_says_so_and_exits_with_one(alive):
    code, _, err = alive("train", "3x4", "--optimiser", "sgd", "--lr", "1e30", "--epochs", 50)
    assert code == 1
    assert "not finite" in err or "is nan" in err or "is inf" in err


def test_ctrl_c_leaves_a_checkpoint_that_resumes(tmp_path):
    command = [sys.executable, "-m", "alive", "train", "20x4", "--checkpoint", "run.safetensors", "--csv", "log.csv"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    begun = subprocess.Popen(
        [*command, "--epochs", "100000"], cwd=tmp_path, stderr=subprocess.PIPE, text=True, env=environment
    )
    log = tmp_path / "log.csv"
    for _ in range(600):
        if log.exists() and len(log.read_text().splitlines()) > 3:
            break
        time.sleep(0.1)
    begun.send_signal(signal.SIGINT)
    _, err = begun.communicate(timeout=60)
    assert begun.returncode == 130
    assert "saved in run.safetensors" in err
    done = len(log.read_text().splitlines()) - 1
    resumed = [*command, "--epochs", "100000", "--resume"]
    again = subprocess.Popen(resumed, cwd=tmp_path, stderr=subprocess.PIPE, text=True, env=environment)
    for _ in range(600):
        if len(log.read_text().splitlines()) > done + 3:
            break
        time.sleep(0.1)
    again.send_signal(signal.SIGINT)
    again.communicate(timeout=60)
    epochs = [int(line.split(",")[0]) for line in log.read_text().splitlines()[1:]]
    assert epochs == list(range(len(epochs)))
    assert len(epochs) > done


def test_demo_trains_draws_and_tabulates(alive, tmp_path):
    code, out, _ = alive("demo", "--epochs", 2, "--workers", 2, "--out", "made")
    assert code == 0
    for method in ("ReLU", "ReLU+BN", "Sep-U", "Sep-P", "Sep-UP", "mirrored"):
        assert method in out
    for picture in ("decision-maps.png", "alive-over-time.png"):
        assert (tmp_path / "made" / picture).read_bytes().startswith(b"\x89PNG")
    numbers = json.loads((tmp_path / "made" / "results.json").read_text())
    assert len(numbers["outcomes"]) == 6
    assert sorted(Path("made").iterdir()) == sorted(Path("made") / Path(line).name for line in out.splitlines()[-3:])
