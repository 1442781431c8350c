"""Bombs, and a small share of the spoiled files; `make hostile` opens 20,000."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def run(*words: object) -> str:
    """The command that opens files, in a process of its own: its workers are forked from where all is loaded."""
    done = subprocess.run(
        [sys.executable, HERE / "run.py", *map(str, words)], capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-3000:]
    return done.stdout


def test_spoiled_files_and_bombs_say_one_line():
    assert ", 0 that did something else" in run("--each", 3, "--bombs")
