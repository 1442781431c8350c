"""The scripts of examples/trainers run, each from its first line to its last."""

from __future__ import annotations

import importlib.util
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "examples" / "trainers"
NEEDS = {
    "huggingface_bert": "accelerate",
    "lightning_moons": "lightning",
    "accelerate_moons": "accelerate",
    "skorch_moons": "skorch",
    "keras_moons": "keras",
}


@pytest.mark.filterwarnings("ignore")  # of the libraries, as a user sees them
@pytest.mark.parametrize("name", sorted(path.stem for path in FOLDER.glob("*.py")))
def test_a_script_runs_and_tells_what_is_dead(name, tmp_path, monkeypatch, capsys):
    if importlib.util.find_spec(NEEDS[name]) is None:
        pytest.skip(f"{NEEDS[name]} is not installed; pip install '.[trainers]'")
    monkeypatch.chdir(tmp_path)
    if name == "keras_moons":  # chooses its backend before Keras is imported, as no process can do twice
        said = in_a_process_of_its_own(FOLDER / f"{name}.py")
    else:
        runpy.run_path(str(FOLDER / f"{name}.py"), run_name="__main__")
        said = capsys.readouterr().out
    assert re.search(r"^penalty \d", said, re.M)
    dead, units = map(int, re.search(r"^(\d+) of (\d+) units are dead", said, re.M).groups())
    assert 0 <= dead < units


def in_a_process_of_its_own(script: Path) -> str:
    env = {name: value for name, value in os.environ.items() if name != "KERAS_BACKEND"}
    env |= {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(FOLDER.parents[1] / "src")}
    done = subprocess.run([sys.executable, script], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout
