"""What all tests share: one thread a process, and a fixed start for torch's generator."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest
import torch

from alive import cli

torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _seeded() -> Iterator[None]:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield


@pytest.fixture
def alive(monkeypatch, capsys, tmp_path):
    """Run the command line in an empty folder: (exit code, stdout, stderr)."""
    monkeypatch.chdir(tmp_path)

    def run(*args: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["alive", *map(str, args)])
        try:
            cli.main()
            code = 0
        except SystemExit as stop:
            code = int(stop.code or 0)
        return code, *capsys.readouterr()

    return run


@pytest.fixture(scope="session")
def two_ranks(tmp_path_factory):
    """Run a script as two real processes, told their rank and a folder; returns the JSON each left there."""

    def run(script):
        folder = tmp_path_factory.mktemp("ranks")
        env = os.environ | {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
        commands = [[sys.executable, script, str(rank), str(folder)] for rank in range(2)]
        started = [subprocess.Popen(command, env=env, stderr=subprocess.PIPE, text=True) for command in commands]
        try:
            said = [process.communicate(timeout=120)[1] for process in started]
        finally:
            for process in started:
                process.kill()
        assert [process.returncode for process in started] == [0, 0], "\n".join(said)
        return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(2)]

    return run
