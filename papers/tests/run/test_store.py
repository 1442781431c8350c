"""The store: ours or refused, claims of the living and the dead, nothing finished ever lost."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from alive.errors import AliveError
from alive.processes import STALE
from alive_papers.experiments import Cell, Row
from alive_papers.fleet import EpochHealth, Member
from alive_papers.run import Owner, Run, Store

CELLS = [Cell(Member(3, 4, seed=seed)) for seed in range(5)]
KEYS = [cell.key for cell in CELLS]


def row(cell, best=0.9):
    return Row(
        cell, best, 0.8, EpochHealth(9, 0.1, 0.0, best, 0.8, 1, 2, 3), None, {"epoch": [0.0, 9.0]}, weights=b"\0\0\0\0"
    )


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "s.sqlite") as opened:
        yield opened


def test_what_is_written_comes_back(store):
    store.write([row(CELLS[1]), row(CELLS[0], 0.5)], seconds=1.5)
    back = store.rows(CELLS)
    assert [r.cell for r in back] == [CELLS[0], CELLS[1]]
    assert [r.best_train for r in back] == [0.5, 0.9]
    assert back[0].last == EpochHealth(9, 0.1, 0.0, 0.5, 0.8, 1, 2, 3)
    assert back[0].weights == b"\0\0\0\0"
    assert store.finished(KEYS) == set(KEYS[:2])
    (made,) = store.made_on()
    assert made["cores"] >= 1
    assert "torch" in made


def test_a_finished_row_is_never_replaced(store):
    store.write([row(CELLS[0], 0.5)], seconds=1)
    store.write([row(CELLS[0], 0.7)], seconds=1)
    assert store.rows(CELLS)[0].best_train == 0.5


def test_a_claim_is_had_once_and_not_for_what_is_done(store):
    me, other = Owner.me(), Owner("elsewhere", 1, "x")
    store.write([row(CELLS[0])], seconds=1)
    assert store.claim(KEYS[:3], me) == set(KEYS[1:3])
    assert store.claim(KEYS, other) == set(KEYS[3:])
    assert store.claim(KEYS, me) == set()
    store.release(me)  # only one's own
    assert store.claimed() == set(KEYS[3:])
    store.write([row(CELLS[3])], seconds=1)
    assert store.claimed() == {KEYS[4]}


def test_claims_of_the_dead_are_taken_over(store):
    me = Owner.me()
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    assert store.claim(KEYS[:1], Owner(me.host, gone.pid, me.birth))
    assert store.claim(KEYS[1:2], Owner(me.host, os.getpid(), "born at another time"))
    assert store.claim(KEYS, me) == set(KEYS)


def test_a_living_process_keeps_its_claims(store):
    me = Owner.me()
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        from alive.processes import birth

        assert store.claim(KEYS[:1], Owner(me.host, child.pid, birth(child.pid)))
        assert store.claim(KEYS[:1], me) == set()
        child.communicate(b"\n")
    assert store.claim(KEYS[:1], me) == {KEYS[0]}


def test_on_another_host_the_heartbeat_decides(store, monkeypatch):
    me, other = Owner.me(), Owner("elsewhere", 1, "x")
    store.claim(KEYS, other)
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + STALE - 5)
    assert store.claim(KEYS, me) == set()
    store.beat(other)
    monkeypatch.setattr(time, "time", lambda: now + STALE + 30)
    assert store.claim(KEYS, me) == set()
    monkeypatch.setattr(time, "time", lambda: now + 2 * STALE)
    assert store.claim(KEYS, me) == set(KEYS)


def test_runs_keep_the_most_seeds(store):
    for seeds in (3, 10, 1):
        store.ask(Run("001-T1", "quick", "dense", seeds))
    assert store.runs() == [Run("001-T1", "quick", "dense", 10)]


def _foreign(path):
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE theirs (x)")
    db.commit()
    db.close()


def _newer(path):
    Store(path).__exit__()
    db = sqlite3.connect(path)
    db.execute("PRAGMA user_version = 99")
    db.close()


def _damaged(path):
    Store(path).__exit__()
    path.write_bytes(path.read_bytes()[:4096] + b"\xff" * 4096)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (
            lambda path: path.write_bytes(b"no database at all, but long enough to be looked at" * 40),
            "is not a store of alive",
        ),
        (_foreign, "is a database of another program"),
        (_newer, "was made by a newer alive"),
        (_damaged, "is not a store of alive, or is damaged"),
        (lambda path: path.mkdir(), "is a folder, not a store"),
    ],
)
def test_a_file_that_is_not_ours_is_refused_and_left_alone(tmp_path, make, said):
    path = tmp_path / "x.sqlite"
    make(path)
    before = path.read_bytes() if path.is_file() else None
    with pytest.raises(AliveError, match=said):
        Store(path)
    assert before == (path.read_bytes() if path.is_file() else None)


def test_a_missing_folder_and_a_missing_store_are_said(tmp_path):
    with pytest.raises(AliveError, match="cannot write"):
        Store(tmp_path / "no" / "s.sqlite")
    with pytest.raises(AliveError, match=r"there is no store .* Run `alive reproduce` first"):
        Store(tmp_path / "s.sqlite", create=False)
    assert not list(tmp_path.iterdir())


def test_an_empty_file_becomes_a_store(tmp_path):
    (tmp_path / "s.sqlite").touch()
    with Store(tmp_path / "s.sqlite") as store:
        assert store.rows(CELLS) == []


def test_a_full_disk_is_said_and_loses_nothing(store):
    store.write([row(CELLS[0])], seconds=1)
    pages = store._db.execute("PRAGMA page_count").fetchone()[0]
    store._db.execute(f"PRAGMA max_page_count = {pages}")  # SQLite's own way to run out of room
    large = Row(CELLS[1], 1.0, 1.0, None, None, {}, weights=bytes(200_000))
    with pytest.raises(AliveError, match=r"no room left .* all finished rows are safe"):
        store.write([row(CELLS[2]), large], seconds=1)
    assert store.finished(KEYS) == {KEYS[0]}
    store._db.execute("PRAGMA max_page_count = 100000")
    store.write([row(CELLS[2]), large], seconds=1)
    assert store.finished(KEYS) == set(KEYS[:3])


def test_many_threads_create_one_store_and_share_the_claims(tmp_path):
    got, errors = [], []

    def work(number):
        try:
            with Store(tmp_path / "s.sqlite") as own:
                got.extend(own.claim(KEYS, Owner(f"host {number}", 1, "x")))
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert sorted(got) == sorted(KEYS)


def test_to_be_read_a_store_is_left_as_it_is(tmp_path):
    """Also beside a writer, whose rows are not in the file yet, and after one that was killed."""
    path = tmp_path / "s.sqlite"
    with Store(path) as writer:
        writer.write([row(CELLS[0])], seconds=1)
        with Store(path, create=False) as reader:
            assert len(reader.rows(CELLS)) == 1
            writer.write([row(CELLS[1])], seconds=1)
            assert len(reader.rows(CELLS)) == 2
            with pytest.raises(AliveError, match="cannot write"):
                reader.write([row(CELLS[2])], seconds=1)
        killed = tmp_path / "killed"
        killed.mkdir()
        for name in ("s.sqlite", "s.sqlite-wal"):
            (killed / name).write_bytes((tmp_path / name).read_bytes())
    with Store(killed / "s.sqlite", create=False) as reader:
        assert len(reader.rows(CELLS)) == 2
    before = path.read_bytes()
    with Store(path, create=False) as reader:
        assert len(reader.rows(CELLS)) == 2
    assert path.read_bytes() == before
    assert not path.with_name("s.sqlite-wal").exists()


def test_a_store_that_is_empty_cannot_be_read_and_stays_empty(tmp_path):
    path = tmp_path / "s.sqlite"
    path.touch()
    with pytest.raises(AliveError, match="is empty"):
        Store(path, create=False)
    assert path.read_bytes() == b""


@contextmanager
def somebody():
    """Not root, who may write everywhere."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)


@pytest.mark.skipif(not hasattr(os, "seteuid"), reason="folders have no such modes here")
def test_a_store_in_a_folder_that_cannot_be_written_is_read():
    with TemporaryDirectory() as name:
        folder = Path(name)
        with Store(folder / "s.sqlite") as store:
            store.write([row(CELLS[0])], seconds=1)
        folder.chmod(0o555)
        try:
            with somebody(), Store(folder / "s.sqlite", create=False) as store:
                assert store.finished(KEYS) == {KEYS[0]}
            with somebody(), pytest.raises(AliveError, match="cannot write"):
                Store(folder / "s.sqlite")
            assert [file.name for file in folder.iterdir()] == ["s.sqlite"]
        finally:
            folder.chmod(0o755)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("result = '{'", "cannot be read"),
        ("result = '[]'", "other columns"),
        ("result = json_remove(result, '$.norms')", "it has other columns"),
        ("result = json_set(result, '$.later', 1)", "it has other columns"),
        ("result = json_set(result, '$.last.later', 1)", "its last epoch has other columns"),
        ("weights = NULL", "its network is missing or cut short"),
        ("weights = x'00'", "its network is missing or cut short"),
    ],
)
def test_a_row_of_another_version_or_damaged_is_said(store, change, said):
    cell = Cell(Member(3, 4), keep_network=True)
    store.write([row(cell)], seconds=1)
    with sqlite3.connect(store.path) as db:
        db.execute(f"UPDATE cells SET {change}")
    db.close()
    with pytest.raises(AliveError, match=rf"the row of Sep-UP 3x4, seed 10 (.*){said}"):
        store.rows([cell])
    assert store.finished([cell.key]) == {cell.key}, "nothing is thrown away"
