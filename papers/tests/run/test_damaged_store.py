"""A store with a flipped bit: said in one sentence, or every number is what was written."""

from __future__ import annotations

import random
import re
import sqlite3
import time

import pytest

from alive.errors import AliveError
from alive_papers.experiments import EXPERIMENTS, Cell, Row
from alive_papers.fleet import EpochHealth, Member
from alive_papers.run import Owner, Run, Store

CELLS = EXPERIMENTS["001-T1"].cells("quick", seeds=3)


def row(cell: Cell, best: float) -> Row:
    last = EpochHealth(9, 0.1, 0.0, best, 0.8, 1, 2, 3)
    trace = {"epoch": [float(epoch) for epoch in range(60)], "loss": [1 / (1 + epoch) for epoch in range(60)]}
    return Row(cell, best, 0.8, last, None, trace, weights=bytes(range(256)) * 4)


def fill(path):
    with Store(path) as store:
        store.ask(Run("001-T1", "quick", "dense", 3))
        store.ask(Run("mine", "paper", "dense", 1))
        store.write([row(cell, 0.5 + number / 100) for number, cell in enumerate(CELLS)], seconds=1.5)
        store.claim(["somebody's"], Owner("elsewhere", 1, "x"))
    assert not path.with_name(f"{path.name}-wal").exists()
    return path.read_bytes()


def read(path):
    """All that a report takes from a store."""
    with Store(path, create=False) as store:
        store.check()
        rows = [(r.cell.key, r.result, r.weights) for r in store.rows(CELLS)]
        return rows, store.runs(), store.made_on(), store.made([cell.key for cell in CELLS]), store.holds()


@pytest.mark.law
@pytest.mark.parametrize("seed", range(4))
def test_any_flipped_bit_is_said_or_harmless(tmp_path, seed):
    path = tmp_path / "s.sqlite"
    whole = fill(path)
    true, chance, refused = read(path), random.Random(seed), []
    header = [*range(100)] if seed == 0 else []
    for at in header + [chance.randrange(len(whole)) for _ in range(250)]:
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << chance.randrange(8)]) + whole[at + 1 :])
        try:
            assert read(path) == true, f"byte {at} changed what is read"
        except AliveError as error:
            refused.append(str(error))
        for beside in tmp_path.glob("s.sqlite-*"):
            beside.unlink()
    assert len(refused) > 50
    assert not [said for said in refused if "\n" in said or str(path) not in said or said.count(". ") < 1]


def test_a_flipped_bit_stops_nobody_from_working_on(tmp_path):
    """To be written to, a damaged store is refused, or takes rows that can be read."""
    path, chance, written = tmp_path / "s.sqlite", random.Random(9), 0
    whole, new = fill(path), Cell(Member(2, 3, "ReLU"))
    for _ in range(200):
        at = chance.randrange(len(whole))
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << chance.randrange(8)]) + whole[at + 1 :])
        try:
            with Store(path) as store:
                store.check()
                store.ask(Run("001-T1", "quick", "dense", 4))
                if store.claim([new.key], Owner.me()):
                    store.write([row(new, 0.75)], seconds=1)
                    assert store.rows([new])[0].best_train == 0.75
                    written += 1
        except AliveError as error:
            assert "\n" not in str(error)  # noqa: PT017
        for beside in tmp_path.glob("s.sqlite-*"):
            beside.unlink()
    assert written > 20


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("UPDATE cells SET result = replace(result, '0.51', '0.91')", "row .* it is not what was written"),
        ("UPDATE cells SET seconds = seconds + 1", "it is not what was written"),
        ("UPDATE cells SET weights = x'00000000'", "it is not what was written"),
        ("UPDATE runs SET seeds = 5", "the run '001-T1': it is not what was written"),
        ("UPDATE runs SET seeds = 'x'", "the run '001-T1': it is not what was written"),
    ],
)
def test_changed_rows_are_said(tmp_path, change, said):
    path = tmp_path / "s.sqlite"
    fill(path)
    with sqlite3.connect(path) as db:
        db.execute(change)
    db.close()
    with pytest.raises(AliveError, match=rf"is damaged: .*{said}.* Restore it from a copy, or name another file"):
        read(path)


def test_a_damaged_row_can_be_deleted_as_the_error_says(tmp_path):
    path = tmp_path / "s.sqlite"
    fill(path)
    with sqlite3.connect(path) as db:
        db.execute("UPDATE cells SET seed = 77 WHERE key = ?", (CELLS[2].key,))
    with pytest.raises(AliveError) as caught:
        read(path)
    with db:
        db.execute(re.search("DELETE FROM cells WHERE key = '.*'", str(caught.value)).group())
    db.close()
    assert [key for key, *_ in read(path)[0]] == [cell.key for cell in CELLS if cell is not CELLS[2]]


def test_a_store_of_an_earlier_version_is_read_and_written_on(tmp_path):
    path = tmp_path / "s.sqlite"
    fill(path)
    with sqlite3.connect(path) as db:
        db.execute("DROP TABLE sums")
    db.close()
    rows = read(path)[0]
    assert len(rows) == len(CELLS)
    new = Cell(Member(2, 3, "ReLU"))
    with Store(path) as store:
        store.write([row(CELLS[0], 0.1), row(new, 0.2)], seconds=1)
        store.check()
        assert store.rows(CELLS)[0].best_train == 0.5
    with sqlite3.connect(path) as db:
        db.execute("UPDATE runs SET seeds = 'many'")
        db.execute("DELETE FROM sums")
    db.close()
    with pytest.raises(AliveError, match=r"the run '001-T1': a column is of another kind"):
        read(path)


@pytest.mark.parametrize(
    "broken", ["pid = 'x'", "pid = -5", "pid = 1 << 40", "beat = 'x'", "beat = 1e18", "host = x'ff'"]
)
def test_a_damaged_claim_is_nobodys(tmp_path, broken):
    with Store(tmp_path / "s.sqlite") as store:
        assert store.claim(["a"], Owner("elsewhere", 1, "x"))
        store._db.execute(f"UPDATE claims SET {broken}")
        if "host" in broken:
            store._db.execute("UPDATE claims SET beat = ?", (time.time() - 1000,))
        assert store.claim(["a"], Owner.me()) == {"a"}


def test_the_command_line_says_it_in_one_line(alive, tmp_path):
    whole = fill(tmp_path / "alive.sqlite")
    at = whole.index(b'"best_train":0.5')
    (tmp_path / "alive.sqlite").write_bytes(whole[:at] + whole[at:].replace(b"0.5", b"0.9", 1))
    for command in (["report"], ["report", "--all"], ["reproduce"], ["reproduce", "001-T1"]):
        code, _, err = alive(*command)
        assert code == 2
        assert err.replace("\n", " ").count("alive.sqlite is damaged: row ") == 1
        assert "Traceback" not in err
