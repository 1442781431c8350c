"""alive under other Pythons and torches: `make matrix`, or `python tests/matrix.py --help`.

For each Python found and each torch asked for: an environment of its own, the built wheels, the README's ten lines, a
census by the command line, and the tests of the rooms that lean on torch. Prints one row of a table for each.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
TORCHES = ("2.6.0", "2.15.0")
ROOMS = ("functional", "provenance", "taps", "penalties", "diagnosis", "nn", "surgery", "theory", "data")
ALONE = ("test_torch_private.py", "test_public.py", "test_cli.py")
EXTRAS = ("fast", "programs", "sklearn", "data", "export")
TOOLS = ("pytest", "hypothesis", "pytest-xdist", "transformers", "cooper-optim")
ASK = "import platform, torch, numpy; print(platform.python_version(), torch.__version__, numpy.__version__)"


def main() -> None:
    """Try every pair, and say of each what came of it."""
    asked = _asked()
    print("| Python | torch | numpy | README | command line | tests |\n|---|---|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        wheels = asked.wheels or _built(Path(folder))
        for python in asked.python:
            for torch in ["own"] if asked.own else asked.torch:
                print(_row(python, torch, wheels, asked.rest), flush=True)


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", nargs="+", default=PYTHONS, help="versions, or paths of interpreters")
    parser.add_argument(
        "--torch", nargs="+", default=TORCHES, help="releases; on Linux each may bring gigabytes of CUDA"
    )
    parser.add_argument("--own", action="store_true", help="take the torch that each Python has already")
    parser.add_argument("--wheels", type=Path, nargs=2, help="of alive and alive-papers; by default they are built")
    parser.add_argument("rest", nargs="*", help="tests; by default those that lean on torch")
    return parser.parse_args()


def _built(folder: Path) -> list[Path]:
    for source in (ROOT, ROOT / "papers"):
        _run([sys.executable, "-m", "build", "--wheel", "--outdir", folder, source])
    return list(folder.glob("*.whl"))


def _row(name: str, torch: str, wheels: list[Path], tests: list[str]) -> str:
    python = _found(name)
    if python is None:
        return f"| {name} | {torch} | | not run: there is no such Python here | | |"
    with tempfile.TemporaryDirectory() as folder:
        try:
            inside = _environment(Path(folder), python, torch, wheels)
        except subprocess.CalledProcessError as error:
            said = (error.stderr or error.stdout or "").strip().splitlines() or ["?"]
            return f"| {name} | {torch} | | not run: {said[-1][:120]} | | |"
        versions = _run([inside / "python", "-W", "ignore", "-c", ASK]).stdout.split()
        return "| " + " | ".join([*versions, *_used(inside, Path(folder), tests)]) + " |"


def _found(name: str) -> str | None:
    """An interpreter that runs: a path, or a version that may be on the path or with pyenv."""
    homes = sorted(Path.home().glob(f".pyenv/versions/{name}.*/bin/python"))
    for each in (name, f"python{name}", *homes):
        path = shutil.which(each)
        if (
            path
            and subprocess.run([path, "-c", "import venv, ensurepip"], capture_output=True, check=False).returncode == 0
        ):
            return path
    return None


def _environment(folder: Path, python: str, torch: str, wheels: list[Path]) -> Path:
    """An environment with both packages, their needs and the tools of the tests; gives the folder of its programs."""
    own = torch == "own"
    _run([python, "-m", "venv", *["--system-site-packages"] * own, folder / "venv"])
    inside = folder / "venv" / "bin"
    pip = [inside / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    if not own:
        _run([*pip, f"torch=={torch}"])
    _run([*pip, *_needs(), *TOOLS])
    _run([*pip, "--no-deps", *wheels])
    return inside


def _needs() -> list[str]:
    """What both packages need, and the extras that the tests of the rooms ask for, but torch and alive itself."""
    library, laboratory = (
        tomllib.loads((ROOT / f"{part}pyproject.toml").read_text())["project"] for part in ("", "papers/")
    )
    extras = [need for extra in EXTRAS for need in library["optional-dependencies"][extra]]
    needs = [*library["dependencies"], *extras, *laboratory["dependencies"]]
    return [need for need in needs if not need.startswith(("torch", "alive"))]


def _used(inside: Path, folder: Path, tests: list[str]) -> list[str]:
    """What came of the README's ten lines, of a census by the command line, and of the tests."""
    lines = re.search(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.M | re.S)
    assert lines
    (folder / "ten.py").write_text(lines[1])
    ten = _came([inside / "python", "ten.py"], folder)
    census = _came([inside / "alive", "census", "50x4", "--gradient"], folder)
    where = tests or [f"tests/{each}" for each in (*ROOMS, *ALONE)]
    done = subprocess.run(
        [inside / "python", "-m", "pytest", "-o", "addopts=", "-m", "not slow", "-q", "--no-header", *where],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    (Path.cwd() / f"matrix-{len(list(Path.cwd().glob('matrix-*.log')))}.log").write_text(done.stdout + done.stderr)
    return [ten, census, (done.stdout.strip().splitlines() or ["no output"])[-1].strip("= ")]


def _came(command: list[object], folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return "ok" if done.returncode == 0 else ((done.stderr or done.stdout).strip().splitlines() or ["?"])[-1][:120]


def _run(command: list[object]) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(each) for each in command], capture_output=True, text=True, check=True)


if __name__ == "__main__":
    main()
