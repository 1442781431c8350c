"""A built wheel in an empty environment, used as a newcomer would: `python tests/used.py dist/alive-*.whl`."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
MINE = """
import torch
from torch import nn


def make_model():
    return nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 1))


def make_data():
    return torch.randn(50, 2), torch.arange(50) % 2
"""


def main() -> None:
    """Install it, then the README's ten lines, the demo, the lab and a census; the first failure ends it."""
    wheel = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        inside = folder / "venv" / "bin"
        step("an empty environment", [sys.executable, "-m", "venv", folder / "venv"], folder)
        pip = [inside / "pip", "install", "--quiet", "--disable-pip-version-check", "-c", ROOT / "constraints.txt"]
        step("pip install", [*pip, wheel], folder)
        lines = re.search(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.M | re.S)
        assert lines
        (folder / "ten.py").write_text(lines[1])
        (folder / "mine.py").write_text(MINE)
        where = step("where it is", [inside / "python", "-c", "import alive; print(alive.__file__)"], folder)
        assert str(folder) in where, where
        step("the README's ten lines", [inside / "python", "ten.py"], folder)
        step("alive --version", [inside / "alive", "--version"], folder)
        step("alive census", [inside / "alive", "census", "mine:make_model", "--gradient"], folder)
        step("alive lab", [inside / "alive", "lab", "--out", "lab.html"], folder)
        step("alive report --all", [inside / "alive", "report", "--all"], folder)
        step("alive demo", [inside / "alive", "demo"], folder)
        made = [
            "lab.html",
            "alive-demo/alive-over-time.png",
            "alive-demo/decision-maps.png",
            "alive-report/evidence.html",
        ]
        assert all((folder / each).stat().st_size > 10_000 for each in made)


def step(name: str, command: list[object], folder: Path) -> str:
    """Run it; one line that says how long it took."""
    began = time.monotonic()
    quiet = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL"))}
    words = [str(each) for each in command]
    done = subprocess.run(words, cwd=folder, env=quiet, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{name}: exit code {done.returncode}\n{done.stdout}\n{done.stderr}")
    print(f"{name}: ok, {time.monotonic() - began:.0f} s", flush=True)
    return done.stdout


if __name__ == "__main__":
    main()
