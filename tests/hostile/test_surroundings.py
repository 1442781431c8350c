"""Surroundings that lack something: each command says one line, or works; never a traceback."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

READ_ONLY = Path("/proc")  # a folder in which nobody can make a file, whoever runs the tests


def alive(
    *words: object, cwd: Path, env: dict[str, str] | None = None, before: Callable[[], object] | None = None, **options
) -> subprocess.CompletedProcess[str]:
    """Run alive as a program, at most a minute long."""
    given = {name: value for name, value in os.environ.items() if name not in ("HOME", "LANG", "LC_ALL")}
    return subprocess.run(
        [sys.executable, "-m", "alive", *map(str, words)],
        cwd=cwd,
        env={**given, **(env or {"HOME": str(cwd)})},
        preexec_fn=before,
        timeout=300,
        **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "check": False, **options},
    )


def expect_a_line(done: subprocess.CompletedProcess[str]) -> None:
    """One line that begins with alive:, and exit code 2."""
    lines = [line for line in done.stderr.splitlines() if not line.startswith("note: ")]
    assert done.returncode == 2, done.stderr
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("alive: "), done.stderr
    assert "itself failed" not in lines[0]
    assert len(lines[0]) <= 600


@pytest.fixture
def points(tmp_path: Path) -> Path:
    chance = np.random.default_rng(0)
    np.savez(tmp_path / "rows.npz", x=chance.normal(size=(40, 3)), y=np.arange(40) % 2)
    return tmp_path / "rows.npz"


@pytest.mark.hostile
def test_in_a_folder_that_cannot_be_written(points: Path) -> None:
    done = alive("census", "3x4", "--data", points, "--json", cwd=READ_ONLY)
    assert done.returncode == 0, done.stderr
    json.loads(done.stdout)
    raced = alive("cure", "2x3", "--data", points, "--steps", 4, "--seeds", 1, "--cure", "mirrored", cwd=READ_ONLY)
    assert raced.returncode == 0, raced.stderr
    assert "finished runs are not kept" in raced.stderr
    for option in ("--html", "--out"):
        expect_a_line(alive("census", "3x4", "--data", points, option, "x.json", cwd=READ_ONLY))
    expect_a_line(alive("train", "3x4", "--data", points, "--checkpoint", "x.safetensors", cwd=READ_ONLY))
    expect_a_line(alive("cure", "2x3", "--data", points, "--store", "mine.x", cwd=READ_ONLY))


@pytest.mark.hostile
def test_where_no_byte_can_be_written(points: Path, tmp_path: Path) -> None:
    def full() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))

    expect_a_line(alive("census", "3x4", "--data", points, "--html", "x.html", cwd=tmp_path, before=full))
    words = ("train", "3x4", "--data", points, "--epochs", 2, "--checkpoint", "x.safetensors")
    expect_a_line(alive(*words, cwd=tmp_path, before=full))
    with Path("/dev/full").open("w") as nowhere:
        expect_a_line(alive("census", "3x4", "--data", points, cwd=tmp_path, stdout=nowhere))


@pytest.mark.hostile
def test_without_a_home_a_locale_or_a_screen(points: Path, tmp_path: Path) -> None:
    for env in (
        {"HOME": "/nowhere"},
        {"LANG": "C", "LC_ALL": "C"},
        {"LANG": "xx_XX.bad"},
        {"HOME": ""},
        {"COLUMNS": "1"},
    ):
        done = alive("census", "3x4", "--data", points, cwd=tmp_path, env=env)
        assert (done.returncode, done.stderr) == (0, ""), env
    for closed in (">&-", "2>&-", "<&- >&- 2>&-"):
        line = f"{sys.executable} -m alive census 3x4 --data {points} {closed}"
        done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=False, cwd=tmp_path)
        assert (done.returncode, done.stderr) == (0, ""), closed


@pytest.mark.hostile
@pytest.mark.parametrize("megabytes", [900, 1400, 2000, 3000])
def test_with_little_room_for_addresses(points: Path, tmp_path: Path, megabytes: int) -> None:
    def small() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (megabytes * 2**20, resource.RLIM_INFINITY))

    done = alive("census", "3x4", "--data", points, cwd=tmp_path, before=small)
    assert done.returncode == 0 or done.returncode == 2, (done.returncode, done.stderr)
    assert "Traceback" not in done.stderr
    if done.returncode:
        expect_a_line(done)


@pytest.mark.hostile
def test_a_model_that_is_larger_than_the_room_there_is(points: Path, tmp_path: Path) -> None:
    def some() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (4 * 10**9, resource.RLIM_INFINITY))

    expect_a_line(alive("census", "3x40000", "--data", points, cwd=tmp_path, before=some))
