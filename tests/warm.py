"""Processes that tests begin: real ones, forked from one that has imported torch and alive and does nothing else.

A fresh Python takes seconds to import torch, most of what such a test took. Where its start is what is tested, that is
what `subprocess` is for.
"""

from __future__ import annotations

import multiprocessing
import os
import runpy
import subprocess
import sys
import time
from multiprocessing.connection import Connection
from pathlib import Path

import torch

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["alive_papers.run", "alive.train", "torch.distributed"])


class Warm:
    """A script in a process and a session of its own: what these tests need of `subprocess.Popen`."""

    def __init__(self, script: str | Path, *args: object, environment: dict[str, str] | None = None) -> None:
        (out, its_out), (err, its_err) = (FORKS.Pipe(duplex=False) for _ in range(2))
        words = [str(script), *map(str, args)]
        self._process = FORKS.Process(target=_become, args=(words, dict(environment or os.environ), its_out, its_err))
        self._process.start()
        self.pid = self._process.pid
        self.stdout, self.stderr = (open(os.dup(end.fileno())) for end in (out, err))  # noqa: SIM115
        for end in (out, its_out, err, its_err):
            end.close()

    @property
    def returncode(self) -> int | None:
        """As of Popen: a signal that killed it is negative."""
        return self._process.exitcode

    poll = returncode.fget

    def wait(self, timeout: float | None = None) -> int:
        """Until it has ended."""
        self._process.join(timeout)
        if self.returncode is None:
            raise subprocess.TimeoutExpired(str(self._process), timeout or 0.0)
        return self.returncode

    def communicate(self, timeout: float) -> tuple[str, str]:
        """All that it says until its end; of errors not more than a pipe holds."""
        end = time.monotonic() + timeout
        said = self.stdout.read(), self.stderr.read()
        self.wait(max(1.0, end - time.monotonic()))
        return said

    def send_signal(self, number: int) -> None:
        """Such as SIGINT."""
        os.kill(self.pid, number)

    def kill(self) -> None:
        """At once, if it still lives."""
        self._process.kill()

    def close(self) -> None:
        """Kill it, and leave no pipe open."""
        self.kill()
        self.wait()
        self.stdout.close()
        self.stderr.close()
        self._process.close()


def _become(words: list[str], environment: dict[str, str], out: Connection, err: Connection) -> None:
    """Do what `python script words` does in a new session."""
    os.setsid()
    for number, end in ((1, out), (2, err)):
        os.dup2(end.fileno(), number)
        end.close()
    os.environ.clear()
    os.environ.update(environment)
    torch.set_num_threads(1)
    sys.argv = words
    sys.path[:0] = [str(Path(words[0]).parent), *filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))]
    runpy.run_path(words[0], run_name="__main__")
