"""The scripts of examples/trainers, each run as a user runs it."""

from __future__ import annotations

import importlib.util
import os
import re
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


@pytest.mark.parametrize("name", sorted(path.stem for path in FOLDER.glob("*.py")))
def test_a_script_runs_and_tells_what_is_dead(name, tmp_path):
    if importlib.util.find_spec(NEEDS[name]) is None:
        pytest.skip(f"{NEEDS[name]} is not installed; pip install '.[trainers]'")
    env = os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "PYTHONPATH": str(FOLDER.parents[1] / "src")}
    script = FOLDER / f"{name}.py"
    done = subprocess.run([sys.executable, script], cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert re.search(r"^penalty \d", done.stdout, re.M)
    dead, units = map(int, re.search(r"^(\d+) of (\d+) units are dead", done.stdout, re.M).groups())
    assert 0 <= dead < units
