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

def noisy():
    print("a word of the user's own")
    return make_model()

def fails():
    raise RuntimeError("first line\\nsecond line")

def wrong_type():
    return 1 + "a"

def neighbour():
    import neighbour_of_own
    return make_model()

def wrong_shape():
    return nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))

no_relu = nn.Linear(2, 1)
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
    assert found["units"] == {"dead": 2, "linear": 1, "nonlinear": 0, "broken": 0, "unknown": 0}
    assert found["layers"][0]["dead_units"] == [0, 2]
    assert found["points"] == {"dead": 0, "linear": 0, "nonlinear": 40, "broken": 0, "unknown": 0}


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
        (["census", "OWN:needs_more"], "without arguments: it needs in_features, out_features. Add --arg in_features="),
        (["census", "OWN:fails"], "failed with RuntimeError: first line second line (OWN.py, line "),
        (["census", "OWN:wrong_type"], "failed with TypeError: unsupported operand"),
        (["census", "OWN:make_model", "--data", "OWN:fails"], "calling OWN:fails failed"),
        (["census", "OWN.py"], "Write OWN.py:make_model"),
        (["census", "./OWN"], "expected depth x width"),
        (["census", "a-b:make_model"], "is not a module name"),
        (["census", ":"], "names nothing in a module"),
        (["census", "OWN:make_model", "--init", "mirrored"], "--init and --batch-norm are for networks by depth"),
        (["preflight", "OWN:make_model", "--batch-norm"], "--init and --batch-norm are for networks by depth"),
        (["census", "5x4", "--seed", "-1"], "seed must be a whole number"),
        (["census", "5x4", "--seed", "9" * 30], "seed must be a whole number"),
        (["preflight", "5x4", "--seed", "9" * 30], "seed must be a whole number"),
        (["census"], "Missing argument 'MODEL'. See alive census --help."),
        (["census", "5x4", "more"], "unexpected extra argument"),
        (["census", "5x4", "--seed", "a"], "Invalid value for '--seed'"),
        (["cenus"], "Did you mean 'census'? See alive --help."),
        (["train", "5x4", "--lr", "fast"], "Invalid value for '--lr'"),
        (["train", "5x4", "--weight", "0.1"], "add --jumpstart UP"),
        (["train", "5x4", "--jumpstart", "UP", "--weight", "atuo"], "a number or auto, got 'atuo'"),
        (["train", "5x4", "--jumpstart", "UP", "--aggregate", "sumsq"], "add --weight 1e-4"),
        (["train", "5x4", "--jumpstart", "UP", "--weight", "auto", "--aggregate", "sumsq"], "not the aggregate"),
        (
            ["train", "5x4", "--jumpstart", "UP", "--weight", "auto", "--schedule", "linear", "--final-weight", "0"],
            "auto finds its own course",
        ),
        (["train", "5x4", "--jumpstart", ""], "unknown mode ''"),
        (["train", "5x4", "--jumpstart", "UP", "--schedule", "linear"], "add --final-weight"),
        (["train", "5x4", "--jumpstart", "UP", "--final-weight", "0"], "add --schedule linear"),
        (["train", "5x4", "--csv", "."], "cannot write .: it is a folder"),
        (["train", "5x4", "--checkpoint", ""], "cannot write .: it is a folder"),
        (["train", "5x4", "--tensorboard", "OWN.py"], "cannot write OWN.py"),
        (["train", "OWN:wrong_shape", "--data", "moons"], "could not run on points [85, 2]"),
        (["census", "OWN:wrong_shape", "--data", "moons"], "could not run on batch 0 with inputs [85, 2]"),
        (["census", "5x4", "--html", "."], "cannot write .: it is a folder"),
        (["bench", "penalty", "--rounds", "0"], "Invalid value for '--rounds'"),
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
    assert said.replace("OWN", own) in err
    assert "Traceback" not in err
    assert len(err.strip().splitlines()) == 1
    assert out == ""


@pytest.mark.parametrize("name", ["fails_at_import", "unreadable"])
def test_a_module_that_cannot_be_imported_gets_one_clear_line(alive, tmp_path, name):
    (tmp_path / f"{name}.py").write_text("import no_such_neighbour" if name == "fails_at_import" else "def (:")
    code, out, err = alive("census", f"{name}:make_model")
    assert (code, out) == (2, "")
    assert f"importing '{name}' failed with" in err
    assert f"{name}.py, line 1" in err


def test_a_function_may_import_its_neighbours(alive, own, tmp_path):
    (tmp_path / "neighbour_of_own.py").write_text("")
    assert alive("census", f"{own}:neighbour")[0] == 0


@pytest.mark.parametrize("command", [["census"], ["preflight", "--draws", 2]])
def test_json_is_alone_on_stdout_whatever_the_model_prints(alive, own, command):
    code, out, err = alive(command[0], f"{own}:noisy", *command[1:], "--json")
    assert code == 0
    assert isinstance(json.loads(out), dict)
    assert "a word of the user's own" in err


def test_a_network_without_one_sided_units_is_trained_all_the_same(alive, own):
    code, out, err = alive("train", f"{own}:no_relu", "--epochs", 2)
    assert code == 0
    assert "best  train accuracy" in out
    assert "no one-sided activation ran" in err


def run_in_shell(command: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """A real shell, in which `alive` is this package."""
    script = f'set -o pipefail; alive() {{ "{sys.executable}" -m alive "$@"; }}; {command}'
    there = os.environ | {"OMP_NUM_THREADS": "1"} | environment
    return subprocess.run(
        ["bash", "-c", script], cwd=folder, env=there, capture_output=True, text=True, errors="replace", check=False
    )


def test_a_reader_that_leaves_is_no_limit_that_holds(tmp_path):
    done = run_in_shell("alive census 5x4 --json | true", tmp_path)
    assert done.returncode == 141
    assert done.stderr == ""


def test_a_full_disk_behind_stdout_is_one_clear_line(tmp_path):
    done = run_in_shell("alive census 5x4 --json > /dev/full", tmp_path)
    assert (done.returncode, done.stderr) == (2, "alive: cannot write the output: No space left on device.\n")


def test_a_locale_without_our_signs_still_gets_its_table(tmp_path):
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = run_in_shell("alive census 5x4", tmp_path, **plain)
    assert done.returncode == 0
    assert "hidden.0" in done.stdout
    assert "What to do" in done.stdout


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
    code, out, _ = alive("demo", "--threads", 2, "--out", "made")
    assert code == 0
    for method in ("ReLU", "ReLU+BN", "Sep-U", "Sep-P", "Sep-UP", "mirrored"):
        assert method in out
    for picture in ("decision-maps.png", "alive-over-time.png"):
        assert (tmp_path / "made" / picture).read_bytes().startswith(b"\x89PNG")
    assert b"<svg" in (tmp_path / "made" / "in-short.svg").read_bytes()
    numbers = json.loads((tmp_path / "made" / "results.json").read_text())
    assert len(numbers["networks"]) == 6
    assert sorted(Path("made").iterdir()) == sorted(Path("made") / Path(line).name for line in out.splitlines()[-4:])
