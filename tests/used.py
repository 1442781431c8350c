"""Both built wheels in an empty environment, used as a newcomer would: `python tests/used.py dist/*.whl`."""

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

CERTIFY = """
import torch
from alive.theory import certify

certify(torch.nn.Linear(2, 3), box=(-torch.ones(2), torch.ones(2)))
"""


def main() -> None:
    """The library alone, then with the laboratory beside it; the first failure ends it."""
    library, laboratory = sorted(
        (Path(each).resolve() for each in sys.argv[1:3]), key=lambda wheel: "papers" in wheel.name
    )
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        inside = folder / "venv" / "bin"
        alive = inside / "alive"
        step("an empty environment", [sys.executable, "-m", "venv", folder / "venv"], folder)
        pip = [inside / "pip", "install", "--quiet", "--disable-pip-version-check", "-c", ROOT / "constraints.txt"]
        step("pip install alive", [*pip, library], folder)
        lines = re.search(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.M | re.S)
        assert lines
        (folder / "ten.py").write_text(lines[1])
        (folder / "mine.py").write_text(MINE)
        where = step("where it is", [inside / "python", "-c", "import alive; print(alive.__file__)"], folder)
        assert str(folder) in where, where
        slow = step("the README's ten lines", [inside / "python", "ten.py"], folder)
        assert slow.count('pip install "alive[fast]"') == 1, slow
        step("alive --version", [alive, "--version"], folder)
        step("alive census", [alive, "census", "mine:make_model", "--gradient"], folder)
        told = step("alive train", [alive, "train", "mine:make_model", "--jumpstart", "UP", "--epochs", "3"], folder)
        assert told.count('pip install "alive[fast]"') == 1, told
        step("alive cure --help", [alive, "cure", "--help"], folder)
        absent = step("alive demo is not there", [alive, "demo"], folder, code=2)
        assert "alive-papers, which is not installed" in absent, absent
        (folder / "certify.py").write_text(CERTIFY)
        refused = step("certify lacks scipy", [inside / "python", "certify.py"], folder, code=1)
        assert 'pip install "alive[programs]"' in refused, refused
        step('pip install "alive[programs]"', [*pip, "alive[programs]"], folder)
        step("certify", [inside / "python", "certify.py"], folder)
        step("alive shrink --box", [alive, "shrink", "mine:make_model", "--box=-1,1"], folder)
        step("pip install alive-papers", [*pip, laboratory], folder)
        step("alive lab", [alive, "lab", "--out", "lab.html"], folder)
        step("alive report --all", [alive, "report", "--all"], folder)
        step("alive demo", [alive, "demo"], folder)
        made = [
            "lab.html",
            "alive-demo/alive-over-time.png",
            "alive-demo/decision-maps.png",
            "alive-report/evidence.html",
        ]
        assert all((folder / each).stat().st_size > 10_000 for each in made)


def step(name: str, command: list[object], folder: Path, *, code: int = 0) -> str:
    """Run it; one line that says how long it took and how large the folder is by then. Gives all that was printed."""
    began = time.monotonic()
    quiet = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL"))}
    words = [str(each) for each in command]
    done = subprocess.run(words, cwd=folder, env=quiet, capture_output=True, text=True, check=False)
    said = f"{done.stdout}\n{done.stderr}"
    if done.returncode != code:
        sys.exit(f"{name}: exit code {done.returncode}\n{said}")
    took = time.monotonic() - began
    size = sum(file.lstat().st_size for file in folder.rglob("*")) / 1e6
    print(f"{name}: ok, {took:.0f} s; {size:,.0f} MB", flush=True)
    return said


if __name__ == "__main__":
    main()
