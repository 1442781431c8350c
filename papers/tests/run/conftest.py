"""Real processes that bring cells into a store."""

from __future__ import annotations

import os

import pytest
from paths import with_tests
from warm import Warm


@pytest.fixture
def begin(tmp_path):
    """Begin a script in a process and a session of its own; none outlives the test, and no pipe stays open."""
    begun = []

    def begin(code, *args):
        script = tmp_path / f"go{len(begun)}.py"  # a file, for spawned workers import it again
        script.write_text(code)
        environment = os.environ | {"PYTHONPATH": with_tests(), "OMP_NUM_THREADS": "1"}
        begun.append(Warm(script, *args, environment=environment))
        return begun[-1]

    yield begin
    for process in begun:
        process.close()
