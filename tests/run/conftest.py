"""Real processes that bring cells into a store."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from paths import with_tests


@pytest.fixture
def begin(tmp_path):
    """Begin a script in a process and a session of its own; none outlives the test, and no pipe stays open."""
    begun = []

    def begin(code, *args):
        script = tmp_path / f"go{len(begun)}.py"  # a file, for spawned workers import it again
        script.write_text(code)
        environment = os.environ | {"PYTHONPATH": with_tests(), "OMP_NUM_THREADS": "1"}
        begun.append(
            subprocess.Popen(
                [sys.executable, script, *map(str, args)],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, start_new_session=True,
            )
        )  # fmt: skip
        return begun[-1]

    yield begin
    for process in begun:
        process.kill()
        process.wait()
        process.stdout.close()
        process.stderr.close()
