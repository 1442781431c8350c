"""Nets by worker processes on one store: real ones, killed and interrupted; rows are those of a run by hand."""

from __future__ import annotations

import os
import signal
import time
from types import SimpleNamespace

import pytest
from test_local_run import SECONDS, stored
from warm import FORKS

from alive.data import digits
from alive.errors import AliveError
from alive.train import Settings
from alive_papers.experiments import Cell, Row
from alive_papers.net import Net, train_net
from alive_papers.run import Store, nets, run
from alive_papers.run.work import train_cells

CODE = """
import sys
from pathlib import Path
from alive_papers.run import Store, run
from test_nets import cells
if __name__ == "__main__":
    with Store(Path(sys.argv[1])) as store:
        print("ready", flush=True)
        print(run(cells(), store, threads=2), flush=True)
"""


def cells(count=6, epochs=3):
    training = Settings(epochs=epochs, batch_size=50, lr=0.003, shuffle=True, running=True)
    return [
        Cell(
            Net(
                "rectangle",
                3,
                4,
                method,
                seed,
                (("head", "flatten"), ("init", "kaiming")),
                separation,
                training=training,
            ),
            "digits",
            points=300,
            test_points=100,
        )
        for method, separation in (("ReLU", None), ("Sep-UP", (("weight", 1e-4),)))
        for seed in range(count // 2)
    ]


@pytest.fixture
def start(begin):
    """Begin a process that brings all cells into a store."""
    return lambda path: begin(CODE, path)


@pytest.mark.twin
def test_a_row_is_that_of_the_loop_by_hand(tmp_path):
    made = cells(2, epochs=2)
    with Store(tmp_path / "s.sqlite") as store:
        assert run(made, store, threads=1) == 2
        rows = store.rows(made)
    assert run(made, Store(tmp_path / "s.sqlite"), threads=1) == 0
    data = digits().subset(300, test=100)
    for row, cell in zip(rows, made, strict=True):
        again = train_net(cell.member, data)
        assert row.result == Row.of(cell, again).result
        assert row.last.test_accuracy == again.result.last.test_accuracy
        assert row.last.dead_points == again.health.points.dead
    assert rows[1].last.penalty > 0 == rows[0].last.penalty


def test_killed_and_run_again_it_finishes_and_repeats_nothing(tmp_path, start):
    path, plain = tmp_path / "s.sqlite", tmp_path / "plain.sqlite"
    process = start(path)
    process.stdout.readline()
    end = time.monotonic() + SECONDS
    while time.monotonic() < end and (not path.exists() or len(stored(path)) < 1):
        time.sleep(0.02)
    process.kill()
    assert process.wait() == -signal.SIGKILL
    time.sleep(3 * nets.LOOK)  # orphans see that they are alone, and end
    before = stored(path, "key, finished")
    assert 1 <= len(before) < 6
    with Store(path) as store:
        assert run(cells(), store, threads=1) == 6 - len(before)
    assert set(before) <= set(stored(path, "key, finished"))
    with Store(plain) as store:
        run(cells(), store, threads=1)
    assert stored(path) == stored(plain)


def test_ctrl_c_keeps_what_is_finished(tmp_path, start):
    path = tmp_path / "s.sqlite"
    process = start(path)
    process.stdout.readline()
    end = time.monotonic() + SECONDS
    while time.monotonic() < end and (not path.exists() or len(stored(path)) < 1):
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=SECONDS)
    assert process.returncode != 0
    assert "what is finished is stored" in err
    assert 1 <= len(stored(path)) <= 6


@pytest.fixture
def warm_workers(monkeypatch):
    """Workers forked from a process that has imported torch, for tests in which they do nothing."""
    monkeypatch.setattr(nets, "multiprocessing", SimpleNamespace(get_context=lambda kind: FORKS))


def _killed(*_):
    os.kill(os.getpid(), signal.SIGKILL)


def _no_memory(*_, **__):
    raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes")


@pytest.mark.usefixtures("warm_workers")
def test_workers_that_are_killed_end_the_run_with_a_word(tmp_path, monkeypatch):
    monkeypatch.setattr(nets, "_worker", _killed)
    with (
        Store(tmp_path / "s.sqlite") as store,
        pytest.raises(AliveError, match="probably because memory ran out; finished rows are kept"),
    ):
        run(cells(2), store, threads=2)


def _broken(*_):
    os._exit(1)


@pytest.mark.usefixtures("warm_workers")
def test_workers_that_break_end_the_run(tmp_path, monkeypatch):
    monkeypatch.setattr(nets, "_worker", _broken)
    with Store(tmp_path / "s.sqlite") as store, pytest.raises(AliveError, match="ended with the error it printed"):
        run(cells(2), store, threads=2)


def test_want_of_memory_is_said(monkeypatch):
    monkeypatch.setattr("alive_papers.net.train_net", _no_memory)
    with pytest.raises(AliveError, match="no memory left to train Sep-UP 3x4; finished rows are kept"):
        train_cells(cells(2)[1:])


def test_what_a_worker_refuses_is_raised_here(tmp_path):
    wrong = [
        Cell(
            Net("rectangle", 3, 4, "ReLU", options=(("head", "none"),), training=Settings(batch_size=500)),
            "digits",
            points=300,
        )
    ]
    with (
        Store(tmp_path / "s.sqlite") as store,
        pytest.raises(AliveError, match="batch_size 500 is larger than the 300"),
    ):
        run(wrong, store, threads=2)


@pytest.mark.contract
def test_settings_that_differ_are_other_cells():
    a = Net("rectangle", 3, 4, "ReLU", options=(("head", "pool"),), training=Settings(lr=1))
    b = Net("rectangle", 3, 4, "ReLU", options=(("head", "pool"),), training=Settings(lr=1.0, momentum=0.1, seed=3))
    assert Cell(a, "digits").key == Cell(b, "digits").key
    others = [
        Cell(a, "digits", points=300),
        Cell(a, "moons"),
        Cell(Net("rectangle", 3, 4, "ReLU", options=(("head", "pool"),), training=Settings(lr=2)), "digits"),
        Cell(Net("rectangle", 3, 4, "ReLU", separation=(), training=Settings(lr=1)), "digits"),
        Cell(Net("rectangle", 3, 4, "ReLU", seed=11, options=(("head", "pool"),), training=Settings(lr=1)), "digits"),
    ]
    assert len({cell.key for cell in (Cell(a, "digits"), *others)}) == 6
