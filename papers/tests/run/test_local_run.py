"""Real processes on one store: killed, interrupted, side by side; the rows are those of an undisturbed run."""

from __future__ import annotations

import json
import signal
import sqlite3
import time
from dataclasses import replace

import pytest

from alive.data import Augment
from alive.errors import AliveError
from alive_papers.experiments import Cell
from alive_papers.fleet import Member
from alive_papers.run import Store, local, next_fleet, run
from alive_papers.run.progress import Bar

CODE = """
import sys
from pathlib import Path
from alive_papers.run import Store, run
from test_local_run import cells
with Store(Path(sys.argv[1])) as store:
    print("ready", flush=True)
    print(run(cells(), store, threads=1), flush=True)
"""
SECONDS = 90  # more than any of these processes should ever take


def cells():
    """Enough small networks for several fleets."""
    methods = ("ReLU", "ReLU+BN", "Sep-UP", "Sep-P")
    return [
        Cell(Member(8, width, method, seed, epochs=800))
        for method in methods
        for width in (2, 4, 6)
        for seed in range(6)
    ]


def maps():
    """Enough small convolutions for several fleets, some on images that are moved."""
    some = Member(2, 3, architecture="conv", epochs=3, batch_size=40, shuffle=True, running=True)
    return [
        Cell(replace(some, method=method, seed=seed, augment=augment), "digits", points=200, test_points=50)
        for method in ("ReLU", "Sep-UP")
        for augment in (None, Augment(crop=1))
        for seed in range(10)
    ]


@pytest.fixture
def start(begin):
    """Begin a process that brings all cells into a store."""
    return lambda path: begin(CODE, path)


def stored(path, columns="key, settings, seed, result, weights, versions, hardware"):
    db = sqlite3.connect(path)
    try:
        if not db.execute("SELECT 1 FROM sqlite_master WHERE name = 'cells'").fetchone():
            return []  # it was killed before it had made its tables
        return db.execute(f"SELECT {columns} FROM cells ORDER BY key").fetchall()
    finally:
        db.close()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    return stored_by_a_plain_run(cells(), tmp_path_factory)


def stored_by_a_plain_run(some, tmp_path_factory):
    path = tmp_path_factory.mktemp("plain") / "s.sqlite"
    with Store(path) as store:
        assert run(some, store, threads=1) == len(some)
    return stored(path)


def wait_for_rows(path, process, more_than):
    end = time.monotonic() + SECONDS
    while time.monotonic() < end and process.poll() is None:
        if path.exists() and len(stored(path)) > more_than:
            return
        time.sleep(0.02)


def test_killed_again_and_again_it_finishes_and_repeats_nothing(tmp_path, undisturbed, start):
    path = tmp_path / "s.sqlite"
    kills, before = 0, []
    for delay in (0.0, 0.15, 0.05):
        process = start(path)
        process.stdout.readline()
        wait_for_rows(path, process, len(before))
        time.sleep(delay)
        process.kill()
        kills += process.wait() == -signal.SIGKILL
        now = stored(path, "key, finished")
        assert set(before) <= set(now), "a finished row was lost or made again"
        assert len(now) > len(before)
        before = now
    assert kills >= 2
    process = start(path)
    out, err = process.communicate(timeout=SECONDS)
    assert process.returncode == 0, err
    assert int(out.split()[-1]) == len(cells()) - len(before)
    assert set(before) <= set(stored(path, "key, finished"))
    assert stored(path) == undisturbed


def test_convolutions_go_on_from_a_kill_too(tmp_path, tmp_path_factory, begin):
    path = tmp_path / "s.sqlite"
    process = begin(CODE.replace("cells", "maps"), path)
    process.stdout.readline()
    wait_for_rows(path, process, 0)
    process.kill()
    assert process.wait() == -signal.SIGKILL
    before = stored(path, "key, finished")
    assert 0 < len(before) < len(maps())
    with Store(path) as store:
        assert run(maps(), store, threads=2) == len(maps()) - len(before)
        assert store.claimed() == set()
        assert {row.cell.settings["engine"] for row in store.rows(maps())} == {"conv-fleet 1"}
    assert set(before) <= set(stored(path, "key, finished"))
    assert stored(path) == stored_by_a_plain_run(maps(), tmp_path_factory)


def test_two_processes_share_the_work(tmp_path, undisturbed, start):
    path = tmp_path / "s.sqlite"
    both = [start(path), start(path)]
    outs = [process.communicate(timeout=SECONDS) for process in both]
    assert [process.returncode for process in both] == [0, 0], outs
    trained = [int(out.split()[-1]) for out, _ in outs]
    assert sum(trained) == len(cells())
    assert stored(path) == undisturbed


def test_one_of_two_is_killed_and_the_other_takes_over(tmp_path, undisturbed, start):
    path = tmp_path / "s.sqlite"
    first = start(path)
    wait_for_rows(path, first, 0)
    second = start(path)
    second.stdout.readline()
    first.kill()
    first.wait()
    _, err = second.communicate(timeout=SECONDS)
    assert second.returncode == 0, err
    assert stored(path) == undisturbed


def test_ctrl_c_keeps_what_is_finished_and_holds_nothing(tmp_path, undisturbed, start):
    path = tmp_path / "s.sqlite"
    process = start(path)
    wait_for_rows(path, process, 0)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=SECONDS)
    assert "the same command goes on from there" in err
    with Store(path) as store:
        done = len(store.finished(cell.key for cell in cells()))
        assert 0 < done < len(cells())
        assert store.claimed() == set()
        assert run(cells(), store, threads=1) == len(cells()) - done
    assert stored(path) == undisturbed


def test_a_failure_gives_the_claims_back(tmp_path, monkeypatch):
    def broken(*args, **more):
        raise RuntimeError("the engine broke")

    monkeypatch.setattr(local, "train_as_supplied", broken)
    with Store(tmp_path / "s.sqlite") as store:
        with pytest.raises(RuntimeError, match="the engine broke"):
            run(cells()[:3], store, threads=1)
        assert store.claimed() == set()


def test_rows_are_written_as_they_end_each_with_its_own_time(tmp_path, monkeypatch):
    """A long network beside short ones: their rows are kept before it ends, and no core waits for it."""
    long, *short = Cell(Member(60, 8, epochs=20_000)), *(Cell(Member(2, 2, seed=seed, epochs=5)) for seed in range(5))
    writes, write = [], Store.write

    def watched(self, rows, **more):
        writes.append([row.cell for row in rows])
        write(self, rows, **more)

    monkeypatch.setattr(Store, "write", watched)
    with Store(tmp_path / "s.sqlite") as store:
        assert run([*short, long], store, threads=2, bar=Bar(show=False)) == 6
        seconds = {row["key"]: row["seconds"] for row in store.kept()}
    assert long not in [cell for some in writes[:-1] for cell in some]
    assert writes[-1] == [long]
    assert len(set(seconds.values())) == 6, "a time is one network's own, not a share of the fleet's"


def test_the_bar_never_goes_back_and_ends_at_all_that_there_is(tmp_path):
    """Costly networks first, then many cheap ones with more epochs: each counts by its cost."""

    class Told(Bar):
        def __init__(self):
            super().__init__(show=False)
            self.begun, self.seen, self.said = [], [], []

        def begin(self, networks, total, base, done):
            super().begin(networks, total, base, done)
            self.begun.append((networks, total, base, done))
            self.tell()

        def within(self, cost, networks, rate):
            super().within(cost, networks, rate)
            *_, base, done = self.begun[-1]
            self.seen.append((base + cost, done + networks))
            self.tell()

        def tell(self):
            self.said.append(int(self._bars.tasks[0].description.split("/")[0]))

    costly = [Cell(Member(60, 8, seed=seed, epochs=2000)) for seed in range(3)]
    cheap = [Cell(Member(1, 1, seed=seed, epochs=3000)) for seed in range(60)]
    bar, total = Told(), sum(cell.cost for cell in (*costly, *cheap))
    with Store(tmp_path / "s.sqlite") as store:
        run([*costly, *cheap], store, threads=2, bar=bar)
    after = [cost for cost, networks in bar.seen if networks >= 3]  # by then two of the costly ones have ended
    assert min(after) > 0.99 * 2 * costly[0].cost
    assert bar.begun[-1] == (63, pytest.approx(total), pytest.approx(total), 63)
    assert all(cost <= total * 1.001 for cost, _ in bar.seen)
    assert bar.said == sorted(bar.said)
    assert bar.said[-1] == 63


def test_a_network_that_breaks_is_a_finished_row(tmp_path):
    cell = Cell(Member(10, 4, "ReLU", optimiser="sgd", lr=1e30, epochs=5, init="mirrored"))
    with Store(tmp_path / "s.sqlite") as store:
        assert run([cell], store, threads=1) == 1
        assert store.rows([cell])[0].stopped
        assert run([cell], store, threads=1) == 0
    assert json.loads(stored(tmp_path / "s.sqlite")[0][3])["stopped"]


def test_fleets_take_every_cell_once_costliest_first_and_stay_small():
    left = [Cell(Member(depth, width, epochs=5000)) for depth in (1, 50, 150) for width in (1, 10, 25)]
    fleets = []
    while left:
        fleet = next_fleet(left, threads=2)
        fleets.append(fleet)
        left = [cell for cell in left if cell not in fleet]
    costs = [cell.cost for fleet in fleets for cell in fleet]
    assert costs == sorted(costs, reverse=True)
    assert len(costs) == 9
    assert all(len(fleet) <= 1 or sum(cell.cost for cell in fleet) <= 16 for fleet in fleets)


def test_a_fleet_has_one_data_set():
    """Cells that differ in their points, test points or scale are trained on their own, not on another's."""
    member = Member(2, 4)
    kinds = [
        Cell(member, "digits"),
        Cell(member, "digits", points=100),
        Cell(member, "digits", test_points=50),
        Cell(member, "digits", unscaled=True),
    ]
    cells = [replace(cell, member=replace(member, seed=seed)) for seed in (1, 2) for cell in kinds]
    left = list(cells)
    while left:
        fleet = next_fleet(left, threads=2)
        assert len({replace(cell, member=member) for cell in fleet}) == 1
        assert len(fleet) == 2
        left = [cell for cell in left if cell not in fleet]


def test_a_run_says_what_memory_it_takes_and_refuses_what_does_not_fit(tmp_path, capsys, monkeypatch):
    member = Member(2, 4, "ReLU", architecture="conv", epochs=1, batch_size=48)
    with Store(tmp_path / "store.sqlite") as store:
        monkeypatch.setattr(local, "TOLD", 1)
        run([Cell(member, "digits")], store, threads=1, bar=Bar(show=False))
        assert "networks at once: 1, which take up to 0.0 GiB of memory" in capsys.readouterr().err
        run([Cell(member, "digits")], store, threads=1, bar=Bar(show=False))  # nothing is left to do
        assert "memory" not in capsys.readouterr().err
        deep = replace(member, depth=1_000_000)
        with pytest.raises(AliveError, match=r"1000000x4 ReLU\): needs about .* GiB"):
            run([Cell(replace(member, seed=1), "digits"), Cell(deep, "digits")], store, threads=1)
        assert len(store.kept()) == 1  # not even the small one was begun
