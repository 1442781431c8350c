"""Kills: TERM, KILL and INT at random moments over every command that writes, with two writers at once in half of them.

What was finished before a kill is there after it, unchanged; whoever was asked to stop says one line and ends with its
code; what is left can be worked on. `pytest -m hostile tests/hostile/test_kills.py -n 0 -s` prints the counts.
"""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
import torch

from alive.history import History
from alive.race.laps import Laps
from alive.train import checkpoint
from alive_papers.run import Store

pytestmark = pytest.mark.hostile
PATIENCE = 300.0  # seconds for a process to begin, or to end
KILLS = 7  # of each kind
AFTER = 2.5  # seconds at most between something finished and the kill
CODES = {signal.SIGKILL: {-9}, signal.SIGTERM: {143, -15}, signal.SIGINT: {130}}  # -15: before there is an answer
MINE = """
import torch
from torch import nn

def make_model():
    return nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1))

def make_data():
    x = torch.randn(120, 2, generator=torch.Generator().manual_seed(0))
    return x, (x[:, 0] * x[:, 1] > 0).long()
"""
HISTORY = """
import torch, alive
from mine import make_model, make_data
model, (x, y) = make_model(), make_data()
optimiser = torch.optim.Adam(model.parameters())
look = alive.watch(model, x, every=1, path="seen.json")
for step in range(len(look.history.moments), 100000):
    loss = (model(x)[:, 0] - y).square().mean()
    optimiser.zero_grad(); loss.backward(); optimiser.step()
    look(step, loss=loss)
"""


def rows(path: Path, query: str) -> set[tuple[object, ...]]:
    """What a store holds, read without our code."""
    if not path.exists():
        return set()
    db = sqlite3.connect(path, timeout=60)
    try:
        return set(db.execute(query))
    except sqlite3.OperationalError:  # it was made this moment
        return set()
    finally:
        db.close()


def steps(folder: Path) -> set[tuple[object, ...]]:
    """How far training has been saved."""
    path = folder / "run.safetensors"
    if not path.exists():
        return set()
    place = checkpoint.load(path).about["place"]
    return {(epoch,) for epoch in range(place["epoch"])}


def moments(folder: Path) -> set[tuple[object, ...]]:
    """The censuses of a history."""
    path = folder / "seen.json"
    return {(moment.step,) for moment in History.read(path).moments} if path.exists() else set()


Kind = tuple[list[str], Callable[[Path], set[tuple[object, ...]]], bool]
ALIVE = [sys.executable, "-m", "alive"]
CELLS, RECORDS = "SELECT key, result, finished FROM cells", "SELECT key, value, finished FROM records"
KINDS: dict[str, Kind] = {  # the command, what it has finished in a folder, and whether two may share the work
    "train": (
        [*ALIVE, "train", "4x6", "--epochs", "100000", "--batch-size", "20", "--checkpoint", "run.safetensors",
         "--resume", "--save-every", "0.5"],
        steps, False,
    ),
    "reproduce": (
        [*ALIVE, "reproduce", "001-T1", "--seeds", "400", "--threads", "1"],
        lambda folder: rows(folder / "alive.sqlite", CELLS), True,
    ),
    "reproduce nets": (
        [*ALIVE, "reproduce", "003-T2", "--seeds", "200", "--threads", "1"],
        lambda folder: rows(folder / "alive.sqlite", CELLS), True,
    ),
    "cure": (
        [*ALIVE, "cure", "mine:make_model", "--steps", "60", "--seeds", "60", "--jobs", "2"],
        lambda folder: rows(folder / "alive-cure.sqlite", RECORDS), True,
    ),
    "clinic": (
        [*ALIVE, "clinic", "zeros", "large-inputs", "fast-sgd", "--seeds", "60"],
        lambda folder: rows(folder / "alive-clinic.sqlite", RECORDS), True,
    ),
    "watch": ([sys.executable, "-c", HISTORY], moments, False),
}  # fmt: skip


def begin(words: list[str], folder: Path) -> subprocess.Popen[str]:
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        words, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def ended(running: subprocess.Popen[str]) -> tuple[int, str]:
    _, err = running.communicate(timeout=PATIENCE)
    return running.returncode, err


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_finished_is_lost(kind: str, tmp_path: Path) -> None:
    words, finished, shared = KINDS[kind]
    (tmp_path / "mine.py").write_text(MINE)
    chance, counts, slowest = random.Random(kind), Counter[str](), 0.0
    for number in range(KILLS):
        how = [signal.SIGTERM, signal.SIGKILL, signal.SIGINT][number % 3]
        first, second = begin(words, tmp_path), begin(words, tmp_path) if shared and number % 4 else None
        try:
            known, end = len(finished(tmp_path)), time.monotonic() + PATIENCE
            early = number == KILLS - 1  # once while it still loads
            while not early and len(finished(tmp_path)) <= known and first.poll() is None:
                assert time.monotonic() < end, "nothing was finished"
                time.sleep(0.05)
            time.sleep(chance.uniform(0, AFTER))
            if kind == "train" and number in (1, 2):  # which only one may write
                code, err = ended(begin(words, tmp_path))
                assert (code, "another process is training with run.safetensors" in err) == (2, True), err
                counts["two at once"] += 1
            before = finished(tmp_path)
            began = time.monotonic()
            first.send_signal(how)
            code, err = ended(first)
            slowest = max(slowest, (time.monotonic() - began) * (how != signal.SIGKILL))
            if second is not None:
                time.sleep(chance.uniform(0, AFTER))
                before |= finished(tmp_path)
                second.kill()
                ended(second)
        finally:
            for each in filter(None, (first, second)):
                with suppress(ProcessLookupError):
                    each.kill()
        after = finished(tmp_path)
        assert before <= after, f"kill {number}: {len(before - after)} of {len(before)} were lost"
        own = kind == "watch" and how != signal.SIGKILL  # a script of one's own answers as Python does
        assert own or code in CODES[how] or code == 0, (code, err)
        said = [line for line in err.split("\n") if line.startswith("alive: ")]
        assert own or "Traceback" not in err, err
        assert own or len(said) == (how != signal.SIGKILL and code > 0), err
        counts[how.name] += 1
        counts["two at once"] += second is not None
        counts["finished"] = len(after)
    print(f"\n{kind}: {dict(counts)}; the slowest to stop took {slowest:.1f} s")
    _expect_whole(kind, tmp_path)


def _expect_whole(kind: str, folder: Path) -> None:
    """What is left is whole, holds no claim of a living process, and no half of a file after one more write."""
    if "reproduce" in kind:
        with Store(folder / "alive.sqlite") as store:
            store.check()
    elif kind == "cure":
        with Laps(folder / "alive-cure.sqlite") as store:
            store.check()
            assert len({lap.key for lap in store.all()}) == len(store.all())
    elif kind == "train":
        place = checkpoint.load(folder / "run.safetensors").about["place"]
        words, plain = KINDS["train"][0], folder / "plain"
        plain.mkdir()
        words = [str(place["epoch"] + 1) if word == "100000" else word for word in words]
        results = []
        for where in (folder, plain):  # resumed after all kills, and undisturbed: the same bits
            code, err = ended(begin(words, where))
            assert code == 0, err
            results.append(checkpoint.load(where / "run.safetensors").model)
        assert all(torch.equal(results[0][name], results[1][name]) for name in results[1])
        assert not list(folder.glob(".*.part"))
