"""SIGKILL twenty times at random moments: the store at the end is that of an undisturbed run, row for row."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time

import pytest
import test_nets
from paths import with_tests
from test_local_run import SECONDS, stored

from alive.processes import LOOK
from alive_papers.experiments import Cell
from alive_papers.fleet import Member
from alive_papers.run import Store, run

CODE = """
import sys
from pathlib import Path
from alive_papers.run import Store, run
from test_killed_often import KINDS
if __name__ == "__main__":
    with Store(Path(sys.argv[1])) as store:
        print("ready", flush=True)
        run(KINDS[sys.argv[2]], store, threads=1)
"""
KILLS = 10  # of each kind
AFTER = 0.3  # seconds at most between a new row and the kill
METHODS = ("ReLU", "ReLU+BN", "Sep-UP", "Sep-P")
KINDS = {  # small networks, enough to outlast the kills
    "fleets": [
        Cell(Member(8, 2 + seed % 3 * 2, method, seed, epochs=4800)) for method in METHODS for seed in range(54)
    ],
    "nets": test_nets.cells(60, epochs=24),
}


@pytest.mark.slow
def test_killed_twenty_times_the_store_is_that_of_an_undisturbed_run(tmp_path):
    path, plain, script = tmp_path / "s.sqlite", tmp_path / "plain.sqlite", tmp_path / "go.py"
    script.write_text(CODE)
    with Store(tmp_path / "warm.sqlite") as store:  # the engine is compiled and kept on disk before time is taken
        run(KINDS["fleets"][::54], store, threads=1)
    for number, (kind, cells) in enumerate(KINDS.items()):
        first = _undisturbed(script, plain, kind)
        chance, before, grown = random.Random(number), set(stored(path, "key, finished")) if number else set(), 0
        for kill in range(KILLS):
            early = kill % 2 == 0  # before a first row, mostly; else in the midst of the work
            moment = chance.uniform(0.0, first if early else AFTER)
            died = _killed(script, path, kind, rows=0 if early else len(before) + 1, seconds=moment)
            now = set(stored(path, "key, finished"))
            assert before <= now, "a finished row was lost or made again"
            assert died, f"all {kind} were done after {kill} kills, or it failed; the test needs more of them"
            before, grown = now, grown + (len(now) > len(before))
        print(f"\n{kind}: first row after {first:.1f} s; {grown} of {KILLS} kills came after new rows")
        assert grown >= 2, "no kill came in the midst of the work"
        with Store(path) as store:
            print(f"{len(store.finished(cell.key for cell in cells))} of {len(cells)} done by then")
            run(cells, store, threads=1)
            assert store.claimed() == set()
        assert before <= set(stored(path, "key, finished"))
    assert stored(path) == stored(plain)


def _undisturbed(script, path, kind):
    """Run to the end; the seconds until the first row was there."""
    with _started(script, path, kind) as process:
        begun = time.monotonic()
        _wait(path, process, len(stored(path)) + 1)
        first = time.monotonic() - begun
        assert process.wait(4 * SECONDS) == 0
    return first


def _killed(script, path, kind, *, rows, seconds):
    """Let a process work until there are so many rows, and so long after that; whether it died of the kill."""
    with _started(script, path, kind) as process:
        _wait(path, process, rows)
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
        code = process.wait(SECONDS)
    time.sleep(3 * LOOK)  # a worker whose parent was killed sees it, and ends
    return code == -signal.SIGKILL


def _wait(path, process, rows):
    while len(stored(path)) < rows and process.poll() is None:
        time.sleep(0.02)


def _started(script, path, kind):
    """A process that is about to bring all cells of a kind into the store."""
    environment = os.environ | {"PYTHONPATH": with_tests(), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, script, path, kind]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    assert process.stdout.readline() == "ready\n"
    return process
