"""Works where it lands: a read-only install, no home, no cache, no room, nobody who listens."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import alive
import alive_papers
from alive_papers.experiments import EXPERIMENTS, Row
from alive_papers.fleet import EpochHealth
from alive_papers.run import Run, Store

ROOT = hasattr(os, "geteuid") and os.geteuid() == 0
POWERS = "-dac_override,-dac_read_search,-fowner"
# Root may write everywhere, unless that power is taken from it.
MORTAL = ["setpriv", f"--bounding-set={POWERS}", f"--inh-caps={POWERS}"] if ROOT else []
pytestmark = pytest.mark.skipif(ROOT and shutil.which("setpriv") is None, reason="root cannot be kept from writing")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A copy of the packages that cannot be written, and the environment of a user who can write nowhere but here."""
    locked = tmp_path_factory.mktemp("locked")
    for package in (alive, alive_papers):
        source = Path(package.__file__).parent
        shutil.copytree(source, locked / source.name, ignore=shutil.ignore_patterns("__pycache__"))
    folders = [locked, *(path for path in locked.rglob("*") if path.is_dir())]
    for folder in folders:
        folder.chmod(0o555)
    kept = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
    nowhere = {name: str(locked / "none") for name in ("HOME", "XDG_CACHE_HOME", "TMPDIR", "MPLCONFIGDIR")}
    yield kept | nowhere | {"PYTHONPATH": str(locked), "OMP_NUM_THREADS": "1", "LC_ALL": "C.UTF-8"}
    for folder in folders:
        folder.chmod(0o755)


def run(place, folder, *command):
    return subprocess.run(
        [*MORTAL, sys.executable, *command],
        cwd=folder, env=place, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip


def test_the_place_is_as_hostile_as_it_is_said_to_be(place, tmp_path):
    code = "import alive, pathlib; print(alive.__file__); pathlib.Path(alive.__file__).with_name('x').touch()"
    done = run(place, tmp_path, "-c", code)
    assert done.stdout.startswith(place["PYTHONPATH"])
    assert "PermissionError" in done.stderr


def test_the_fleet_is_imported_and_its_kernels_compile(place, tmp_path):
    code = (
        "import torch\n"
        "import alive_papers.fleet\n"
        "from alive.functional import Separation, fused\n"
        "from alive.functional.sweep.rows import rows\n"
        "s = fused.slacks(torch.zeros(2, 3), Separation(mode='U'))\n"
        "print(s['U'].tolist(), type(rows._cache).__name__)\n"
    )
    done = run(place, tmp_path, "-c", code)
    assert (done.stdout, done.stderr) == ("[1.0, 1.0, 1.0] NullCache\n", "")


def test_commands_say_what_they_say_elsewhere(place, tmp_path):
    command = ["-m", "alive", "train", "5x4", "--epochs", "2"]  # of kernels the test above tells
    here = run(place, tmp_path, *command)
    said = [line for line in here.stderr.splitlines() if "%, loss" not in line]  # a line a minute, where it is slow
    assert (here.returncode, said) == (0, [])
    there = subprocess.run(
        [sys.executable, *command], cwd=tmp_path, env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True, text=True, timeout=300, check=True,
    )  # fmt: skip
    assert here.stdout == there.stdout


def test_pictures_are_drawn_without_a_word_of_the_cache(place, tmp_path):
    cells = EXPERIMENTS["004-Fig2"].cells("quick")
    last = EpochHealth(9, 0.1, 0.0, 1.0, 1.0, 0, 0, 0)
    with Store(tmp_path / "alive.sqlite") as store:
        store.ask(Run("004-Fig2", "quick", "dense", 1))
        store.write([Row(cell, 1.0, 1.0, last, None, {"epoch": [0.0]}) for cell in cells], seconds=1)
    done = run(place, tmp_path, "-m", "alive", "report")
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "alive-report" / "004-Fig2-quick-dense-heat.png").stat().st_size > 1000


NOBODY = """
import pwd
pwd.getpwuid = lambda number: {}[number]  # as in a container that runs under a number without a name
from alive.__main__ import main
main()
"""


def test_data_are_looked_for_and_where_they_cannot_be_put_is_said(place, tmp_path):
    done = run(place, tmp_path, "-m", "alive", "data", "list")
    assert (done.returncode, done.stderr) == (0, "")
    for home in ({}, {"HOME": None, "XDG_CACHE_HOME": None}):
        env = {name: value for name, value in (place | home).items() if value is not None}
        done = run(env, tmp_path, "-c", NOBODY, "data", "get", "mnist", "--mirror", "http://127.0.0.1:9")
        assert done.returncode == 2
        said = "this user has no home folder to keep data in" if home else "cannot write to"
        assert done.stderr.startswith(f"alive: {said}")
        assert "Choose a folder with --into, or let ALIVE_DATA name one." in done.stderr


KEPT = """
from alive.functional.keeping import compiled

@compiled
def has(numbers, number):
    return number in numbers
"""
DAMAGED = """
import importlib, resource
from pathlib import Path
import numpy as np
import kept

def computed():
    importlib.reload(kept)  # as a new process, which knows nothing but what was kept
    return kept.has(np.arange(6.0), 4.0), sum(kept.has.stats.cache_hits.values())

assert computed() == (True, 0)
assert computed() == (True, 1), "it was kept"
for ending in ("nbi", "nbc"):
    for file in Path.cwd().rglob(f"*has-*.{ending}"):
        file.write_bytes(file.read_bytes()[:40])
    assert computed() == (True, 0)
    assert computed() == (True, 1), "and kept anew"
for file in Path.cwd().rglob("*.nb?"):
    file.unlink()
resource.setrlimit(resource.RLIMIT_FSIZE, (100, resource.RLIM_INFINITY))
assert computed() == computed() == (True, 0)
assert not [path for path in Path.cwd().rglob("*.nbc") if path.stat().st_size > 100]
print("all of it")
"""


def test_a_damaged_or_full_cache_only_costs_time(tmp_path):
    """What an earlier process kept is cut short, then no file may grow: each time it compiles and computes."""
    env = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    (tmp_path / "kept.py").write_text(KEPT)
    done = subprocess.run(
        [sys.executable, "-c", DAMAGED], cwd=tmp_path, env=env, capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("all of it\n", "")


@pytest.mark.parametrize("closed", [(1,), (0, 1, 2)])
def test_nobody_listens(closed, tmp_path):
    def close():
        for number in closed:
            os.close(number)

    command = [sys.executable, "-m", "alive", "census", "5x4", "--html", "page.html"]
    pipes = {0: subprocess.DEVNULL, 1: subprocess.PIPE, 2: subprocess.PIPE}
    done = subprocess.run(
        command, cwd=tmp_path, stdin=pipes[0], stdout=pipes[1], stderr=pipes[2], preexec_fn=close, check=False
    )
    assert done.returncode == 0
    assert b"Traceback" not in done.stderr
    assert (tmp_path / "page.html").read_text().rstrip().endswith("</html>")


def test_a_full_disk_is_said_in_one_line(tmp_path):
    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))

    (tmp_path / "page.html").write_text("an earlier page")
    done = subprocess.run(
        [sys.executable, "-m", "alive", "census", "5x4", "--html", "page.html"],
        cwd=tmp_path, capture_output=True, text=True, preexec_fn=limit, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr == "alive: cannot write page.html: File too large. Make room there, or choose another folder.\n"
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]
    assert (tmp_path / "page.html").read_text() == "an earlier page"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no device that is always full")
def test_an_output_that_takes_no_more_is_said(tmp_path):
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "alive", "--version"],
            env={name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"},
            stdout=full, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr == "alive: cannot write the output: No space left on device.\n"


@pytest.mark.parametrize("setting", [{"TERM": "dumb", "COLUMNS": "12"}, {"LC_ALL": "C", "PYTHONUTF8": "0"}])
def test_terminals_of_all_kinds(setting, tmp_path):
    env = os.environ | {"PYTHONCOERCECLOCALE": "0", "OMP_NUM_THREADS": "1"} | setting
    done = subprocess.run([sys.executable, "-m", "alive", "census", "5x4"], env=env, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"17 of 85 points die" in b" ".join(done.stdout.split())
