"""Laps and trials in the store: several writers lose nothing, what an earlier version kept is carried over."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import re
import signal
import sqlite3
from dataclasses import asdict
from pathlib import Path

import pytest

from alive.errors import AliveError
from alive.race.laps import Lap, Laps, Mark
from alive_papers.clinic import Trial, Trials
from alive_papers.experiments import Cell
from alive_papers.fleet import Member
from alive_papers.run import Run, Store

ODD = ["a\u2028b", "c\u0085d", "\ud800", "e\nf", "\x1b[31m", "\x00", "ü" * 300, ""]


def lap(seed: int, arm: str = "as it is", steps: int = 8) -> Lap:
    marks = (Mark(0, None, 0.5, 0.0, None), Mark(steps, 0.25, float("inf"), 1.0, 0.0))
    return Lap("race", arm, seed, steps, marks, {"verdict": arm, "units": {"dead": 1}}, None, seconds=0.125)


def kept(path: Path) -> list[Lap]:
    with Laps(path, create=False) as store:
        return store.all()


@pytest.mark.parametrize("arm", ODD)
def test_what_is_kept_comes_back_whatever_its_name(tmp_path: Path, arm: str) -> None:
    path = tmp_path / "s.sqlite"
    with Laps(path) as store:
        store.add(lap(0, arm), lap(1, arm))
        store.add(lap(1, arm, steps=8))
    assert kept(path) == [lap(0, arm), lap(1, arm)]


def _write(path: Path, first: int) -> None:
    for seed in range(first, first + 60):
        with Laps(path) as store:
            store.add(lap(seed))


def _told(path: Path, first: int, file: Path) -> None:
    told = os.open(file, os.O_WRONLY | os.O_CREAT)
    with Laps(path) as store:
        for seed in range(first, first + 1_000_000):
            store.add(lap(seed))
            os.write(told, b"%d\n" % seed)


def test_two_writers_lose_nothing(tmp_path: Path) -> None:
    spawn, path = multiprocessing.get_context("fork"), tmp_path / "s.sqlite"
    both = [spawn.Process(target=_write, args=(path, first)) for first in (0, 60)]
    for each in both:
        each.start()
    for each in both:
        each.join(60)
    assert [each.exitcode for each in both] == [0, 0]
    assert sorted(each.seed for each in kept(path)) == list(range(120))


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_what_was_told_to_be_kept_survives_a_kill_beside_another_writer(tmp_path: Path, how: int) -> None:
    path, chance = tmp_path / "s.sqlite", random.Random(how)
    fork = multiprocessing.get_context("fork")
    for round_ in range(2):
        told = [tmp_path / f"{round_}.{number}" for number in (0, 1)]
        both = [
            fork.Process(target=_told, args=(path, 10_000 * (2 * round_ + number), told[number])) for number in (0, 1)
        ]
        for each in both:
            each.start()
        for _ in range(1000):
            if all(each.exists() and each.stat().st_size > 40 for each in told):
                break
            both[0].join(0.01)
        both[0].join(chance.uniform(0, 0.1))
        for each in both:
            os.kill(each.pid, how)
            each.join()
        said = {int(line) for each in told for line in each.read_text().split("\n")[:-1]}
        assert said <= {each.seed for each in kept(path)}
    with Laps(path) as store:
        store.check()


# What an earlier version kept, as lines of JSON.


def lines(path: Path, *laps: Lap) -> bytes:
    path.write_text("".join(f"{json.dumps(asdict(each), ensure_ascii=False)}\n" for each in laps), encoding="utf-8")
    return path.read_bytes()


@pytest.mark.parametrize(
    ("named", "store"), [("runs.jsonl", "runs.sqlite"), ("alive-cure.sqlite", "alive-cure.sqlite")]
)
def test_lines_of_an_earlier_version_are_read_once_and_stay(tmp_path: Path, named: str, store: str) -> None:
    old = tmp_path / Path(named).with_suffix(".jsonl")
    before = lines(old, lap(0, ODD[0]), lap(1, ODD[1]), lap(0, ODD[0]))
    with Laps(tmp_path / named) as opened:
        assert opened.path == tmp_path / store
        assert opened.carried.startswith(f"2 runs of a race were carried over from {old}")
        assert sorted(each.seed for each in opened.all()) == [0, 1]
        opened.add(lap(2))
    assert old.read_bytes() == before
    lines(old, lap(7))
    with Laps(tmp_path / named) as opened:
        assert opened.carried == ""
        assert [each.seed for each in opened.all()] == [1, 0, 2] or [each.seed for each in opened.all()] == [0, 1, 2]


def test_a_strangers_file_beside_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.jsonl").write_text("{}\n")
    with Laps(tmp_path / "mine.sqlite") as store:
        assert store.all() == []


@pytest.mark.parametrize("seed", range(2))
def test_any_damage_of_old_lines_is_one_sentence_or_rows(tmp_path: Path, seed: int) -> None:
    chance, old, refused = random.Random(seed), tmp_path / "runs.jsonl", 0
    whole = lines(old, *(lap(number, ODD[number]) for number in (0, 1, 3)))
    for number in range(100):
        at = chance.randrange(len(whole))
        new = chance.choice([b"", b"9", b"[", b'"', b"\xff", b"null", b"1e999", b"-", b"\n", b"9" * 5000, b"[" * 9000])
        old.write_bytes(whole[:at] + new + whole[at + chance.randrange(4) :])
        try:
            with Laps(old) as store:
                assert all(isinstance(each.marks[0], Mark) and isinstance(each.seed, int) for each in store.all())
        except AliveError as error:
            refused += 1
            assert "\n" not in str(error), number  # noqa: PT017
        for beside in tmp_path.glob("runs.sqlite*"):
            beside.unlink()
    assert 20 < refused < 100


ROW = asdict(Trial("zeros", "nothing", 0, 0.5))


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (ROW | {"patient": ["zeros"]}, "patient must be str, got ['zeros']"),
        (ROW | {"cure": {"a": []}}, "cure must be str, got {'a': []}"),
        (ROW | {"seed": [0]}, "seed must be int, got [0]"),
        (ROW | {"score": 10**309}, "score must be float, got 1000"),
        ({name: ROW[name] for name in ROW if name != "seed"}, "missing a required argument: 'seed'"),
        (ROW | {"more": None}, "got an unexpected keyword argument 'more'"),
        ([["zeros"], "nothing", 0, 0.5], "it must be Trial, got [['zeros']"),
    ],
)
def test_a_row_that_is_no_trial_is_said_by_its_name(tmp_path: Path, row: object, said: str) -> None:
    (tmp_path / "rows.jsonl").write_text(json.dumps(row) + "\n")
    with pytest.raises(AliveError, match=re.escape(f"rows.jsonl holds no trials: {said}")):
        Trials(tmp_path / "rows.jsonl")
    assert not (tmp_path / "rows.sqlite").exists()


@pytest.mark.parametrize("depth", [10, 400, 600, 900, 100_000])
@pytest.mark.parametrize(("begin", "end"), [("[", "]"), ('{"a":', "}")])
def test_lines_nested_too_deep_are_refused(tmp_path: Path, depth: int, begin: str, end: str) -> None:
    old, inner = tmp_path / "runs.jsonl", f"{begin * depth}1{end * depth}"
    old.write_text(json.dumps(asdict(lap(0))).replace('{"dead": 1}', inner) + "\n")
    try:
        with Laps(old) as store:
            held, level = store.all()[0].before["units"], 0
    except AliveError as error:
        assert depth > 10
        assert "holds no runs of a race: " in str(error)  # noqa: PT017
        assert not (tmp_path / "runs.sqlite").exists()
        return
    while held != 1:
        held, level = held["a"] if isinstance(held, dict) else held[0], level + 1
    assert level == depth < 100_000


# Damage, and what is no file of ours.


@pytest.mark.parametrize("seed", range(2))
def test_any_flipped_bit_is_said_or_harmless(tmp_path: Path, seed: int) -> None:
    path, chance, refused = tmp_path / "s.sqlite", random.Random(seed), 0
    laps = [lap(number) for number in range(20)]
    with Laps(path) as store:
        store.add(*laps)
    whole = path.read_bytes()
    for _ in range(200):
        at = chance.randrange(len(whole))
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << chance.randrange(8)]) + whole[at + 1 :])
        try:
            with Laps(path, create=False) as store:
                store.check()
                assert store.all() == laps, f"byte {at} changed what is read"
        except AliveError as error:
            refused += 1
            assert "\n" not in str(error)  # noqa: PT017
        for beside in tmp_path.glob("s.sqlite-*"):
            beside.unlink()
    assert refused > 20


def test_a_changed_row_is_said(tmp_path: Path) -> None:
    path = tmp_path / "s.sqlite"
    with Trials(path) as store:
        store.add(Trial("zeros", "nothing", 0, 0.5))
    with sqlite3.connect(path) as db:
        db.execute("UPDATE records SET value = replace(value, '0.5', '0.9')")
    db.close()
    with Trials(path) as store, pytest.raises(AliveError, match=r"is damaged: row .*it is not what was written"):
        store.all()


def test_one_file_holds_networks_laps_and_trials(tmp_path: Path) -> None:
    path = tmp_path / "s.sqlite"
    with Laps(path) as store:
        store.add(lap(0))
    with pytest.raises(AliveError, match="holds no networks"):
        Store(path, create=False)
    with Store(path) as store:
        store.ask(Run("001-T1", "quick", "dense", 3))
        assert store.rows([Cell(Member(3, 4))]) == []
        store.check()
    with Trials(path) as store:
        store.add(Trial("zeros", "nothing", 0, None))
        assert [row.cure for row in store.all()] == ["nothing"]
    assert kept(path) == [lap(0)]


@pytest.mark.parametrize("kind", [Store, Laps, Trials])
@pytest.mark.parametrize(
    ("name", "said"),
    [(":memory:", "would be gone"), ("/dev/null", "a device or a pipe"), ("pipe", "a device or a pipe")],
)
def test_what_keeps_nothing_is_refused(tmp_path: Path, monkeypatch, kind, name: str, said: str) -> None:
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe")
    with pytest.raises(AliveError, match=said):
        kind(Path(name))
    assert os.listdir() == ["pipe"]


def test_a_claim_is_had_by_one_and_given_back(tmp_path: Path) -> None:
    with Laps(tmp_path / "s.sqlite") as store, Laps(tmp_path / "s.sqlite") as other:
        key = lap(0).key
        with store.working() as mine:
            assert mine(key)
            with other.working() as theirs:
                assert not theirs(key)
        with other.working() as theirs:
            assert theirs(key)
            other.add(lap(0))
            assert not theirs(key)
        assert store.claimed() == set()
