"""A new user's first seconds: `alive --help` at once, completion in real shells, and types an editor can trust."""

from __future__ import annotations

import importlib
import json
import os
import pty
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

import alive
import alive_papers
from alive.cli import values

PROGRAMS = Path(sys.executable).parent
ROOMS = [name for name in dir(alive) if hasattr(getattr(alive, name), "__path__")]
MORE = ("experiments", "fleet", "networks", "run")


@pytest.mark.parametrize(
    "words", ["import alive", "from alive.cli import main; sys.argv = ['alive', '--help']; main()"]
)
def test_the_first_answer_waits_for_no_heavy_package(words):
    """Which is what takes time: torch alone needs seconds. No test asserts a time."""
    code = f"import sys\ntry:\n    {words}\nexcept SystemExit: pass\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.splitlines()[-1].split())
    assert loaded.isdisjoint({"torch", "numpy", "numba", "scipy", "sklearn", "matplotlib", "pandas", "transformers"})


@pytest.fixture(params=["bash", "zsh", "fish"])
def shell(request) -> str:
    if shutil.which(request.param) is None:
        pytest.skip(f"there is no {request.param} on the path")
    return request.param


@pytest.fixture
def script(shell, tmp_path) -> Path:
    """What `alive --show-completion` prints in that shell."""
    quiet = {"bash": "--norc", "zsh": "-f", "fish": "--no-config"}[shell]
    said = subprocess.run(
        [shell, quiet, "-c", "alive --show-completion; true"],
        env=here(tmp_path),
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout, said.stderr
    (tmp_path / "script").write_text(said.stdout)
    return tmp_path / "script"


def here(home: Path) -> dict[str, str]:
    return {**os.environ, "PATH": f"{PROGRAMS}{os.pathsep}{os.environ['PATH']}", "HOME": str(home), "TERM": "dumb"}


def offered(shell: str, script: Path, line: str) -> str:
    if shell == "bash":
        asked = f"COMP_WORDS=({line}); COMP_CWORD={line.count(' ')}"
        words = f"{asked}; _alive_completion alive; echo ${{COMPREPLY[@]}}"
        command = ["bash", "--norc", "-c", f"source {script}; {words}"]
    elif shell == "fish":
        command = ["fish", "--no-config", "-c", f"source {script}; complete -C '{line}'"]
    else:
        return typed_in_zsh(script, line)
    done = subprocess.run(command, env=here(script.parent), capture_output=True, text=True, check=False)
    return done.stdout


def typed_in_zsh(script: Path, line: str) -> str:
    """An interactive zsh: the line and a tab are typed, and all that it shows is read."""
    process, terminal = pty.fork()
    if process == 0:
        os.execvpe("zsh", ["zsh", "-f", "-i"], here(script.parent))
    try:
        setup = f"autoload -Uz compinit; compinit -u -D; source {script}; PS1=; echo rea''dy\n"
        os.write(terminal, setup.encode())
        heard(terminal, "ready")
        os.write(terminal, f"{line}\t".encode())
        return heard(terminal, None)
    finally:
        os.kill(process, 9)
        os.waitpid(process, 0)
        os.close(terminal)


def heard(terminal: int, until: str | None, patience: float = 20.0) -> str:
    """What the shell shows until it says a word; or, with none, until it has said something and rests."""
    text, end = "", time.monotonic() + patience
    while time.monotonic() < end and (until is None or until not in text):
        if select.select([terminal], [], [], 4.0)[0]:
            text += os.read(terminal, 65536).decode(errors="replace")
        elif text and until is None:
            break
    return text


def test_shells_complete_commands(shell, script):
    assert "census" in offered(shell, script, "alive cen")


def test_shells_complete_values_of_options(shell, script):
    said = offered(shell, script, "alive census 5x4 --init mirr")
    assert "mirrored" in said
    assert "glorot" in values.INITS
    assert "glorot" not in said


@pytest.mark.parametrize("option", ["--show-completion", "--install-completion"])
def test_a_shell_without_completion_is_told_which_have_it(option, tmp_path):
    said = subprocess.run(
        ["sh", "-c", f"alive {option}; exit $?"], env=here(tmp_path), capture_output=True, text=True, check=False
    )
    assert said.returncode == 2
    assert said.stdout == ""
    assert len(said.stderr.splitlines()) == 1
    assert "bash, zsh, fish" in said.stderr


def test_types_are_known_to_a_strict_user(tmp_path):
    """pyright, strict, over a script that names everything public."""
    pyright = shutil.which("pyright", path=str(PROGRAMS))
    if pyright is None:
        pytest.skip("pyright is not installed; pip install '.[release]'")
    lines = ["import alive", *(f"print(alive.{name})" for name in alive.__all__)]
    for room in (*(f"alive.{each}" for each in ROOMS), *(f"alive_papers.{each}" for each in MORE)):
        short = room.replace(".", "_")
        lines.append(f"import {room} as {short}")
        lines += [f"print({short}.{name})" for name in importlib.import_module(room).__all__]
    (tmp_path / "user.py").write_text("\n".join(lines))
    sources = [str(Path(each.__file__).parents[1]) for each in (alive, alive_papers)]
    (tmp_path / "pyrightconfig.json").write_text(
        json.dumps({"typeCheckingMode": "strict", "extraPaths": sources, "include": ["user.py"]})
    )
    command = [pyright, "--pythonpath", sys.executable, "--outputjson", "-p", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if not done.stdout.strip().startswith("{"):
        pytest.skip(f"pyright could not be started: {done.stderr.strip()[-200:]}")
    found = json.loads(done.stdout)
    assert found["summary"]["filesAnalyzed"] == 1
    assert [each["message"] for each in found["generalDiagnostics"]] == []
