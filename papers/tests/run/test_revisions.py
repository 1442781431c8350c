"""Rows belong to the revision of the engine that trained them: none is reused by another, none is lost."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest
from test_local_run import stored

from alive.errors import AliveError
from alive.train import Settings
from alive_papers import study
from alive_papers.engines import ENGINES
from alive_papers.experiments import EXPERIMENTS, Cell, Experiment, Row, cell
from alive_papers.fleet import Fade, Member
from alive_papers.net import EARLIER, Net
from alive_papers.report import ledger
from alive_papers.run import Run, Store, run
from alive_papers.run.work import train_cells

BEFORE = Path(__file__).with_name("store_before.sql")  # a store of the alive that knew no revisions, as SQL


NAME = "001-Fig4"


def cells() -> list[Cell]:
    """What that store holds."""
    drop = Fade(epochs=6)
    shared = Member(
        2, 4, "Sep-U", epochs=6, architecture="keras_same", batch_size=40, shuffle=True, dropout=drop
    )  # fmt: skip
    net = Net("rectangle", 3, 4, "Sep-UP", separation=EARLIER, training=Settings(epochs=3))
    return [
        Cell(Member(2, 4, "ReLU", epochs=6), trace=3),
        Cell(Member(2, 4, "Sep-UP", seed=11, epochs=6), trace=3),
        Cell(Member(2, 2, "ReLU+BN", epochs=6), trace=3, keep_network=True),
        Cell(Member(2, 4, "VAN", epochs=6, optimiser="sgd"), trace=3),
        Cell(Member(2, 4, "Farkas", epochs=6), trace=3),
        Cell(shared, trace=3),
        Cell(net, "digits", points=200, test_points=100, trace=3),
    ]


@pytest.fixture
def before(tmp_path):
    path = tmp_path / "before.sqlite"
    with sqlite3.connect(path) as db:
        db.executescript(BEFORE.read_text())
    db.close()
    return path


@pytest.fixture
def changed(monkeypatch):
    """The fleet, after a change of its kernels."""
    monkeypatch.setattr(cell, "ENGINES", {**ENGINES, "fleet": replace(ENGINES["fleet"], revision=2)})
    ledger._digest.cache_clear()
    ledger._cells.cache_clear()
    yield
    ledger._digest.cache_clear()
    ledger._cells.cache_clear()


def planted(path: Path, name: str, best: float) -> None:
    """A store that holds an experiment, made by the engine as it is now."""
    grid = EXPERIMENTS[name].cells()
    with Store(path) as store:
        store.ask(Run(name, "quick", "dense", 1))
        store.write([Row(each, best, best, None, None, {"epoch": [0.0]}) for each in grid], seconds=1)


def test_a_store_from_before_revisions_is_whole_and_nothing_is_trained_again(before):
    kept = stored(before)
    with Store(before) as store:
        store.check()
        assert [row.cell for row in store.rows(cells())] == cells()
        assert run(cells(), store, threads=1) == 0
        assert store.rows(cells())[2].network() is not None
    assert stored(before) == kept


def _told(cell: Cell) -> Cell:
    """What once went without saying, a rectangle's head on images, said."""
    if not isinstance(cell.member, Net):
        return cell
    return replace(cell, member=replace(cell.member, options=(("head", "pool"),)))


@pytest.mark.twin
def test_the_engines_give_the_numbers_of_their_first_revision(before):
    """If this fails on purpose, the engine gives other numbers for the same settings: raise its revision."""
    with Store(before) as store:
        known = store.rows(cells())
    for row in known:
        assert row.cell.revision == 1
        (again,) = train_cells([_told(row.cell)]).rows
        for column in ("epoch", "loss", "penalty"):
            assert again.trace[column] == pytest.approx(row.trace[column], rel=1e-3, abs=1e-5), (row.cell.label, column)


def test_a_changed_engine_reuses_no_row_and_loses_none(before, changed):
    kept, (plain, *_, net) = stored(before), cells()
    assert plain.key != plain.at(1).key
    assert plain.settings == plain.at(1).settings | {"engine": "fleet 2"}
    assert net.key == net.at(1).key, "the other engine is as it was"
    with Store(before) as store:
        assert store.finished(each.key for each in cells()) == {net.key}
        assert run([plain, net], store, threads=1) == 1
        store.check()
        now, past = store.rows([plain, plain.at(1)])
        assert now.trace["loss"] == pytest.approx(past.trace["loss"], rel=1e-3), "only its number was raised"
    assert set(kept) < set(stored(before))


def test_a_worker_of_another_revision_refuses():
    with pytest.raises(AliveError, match="ReLU asks for revision 2 of the engine fleet; here it is 1"):
        train_cells([cells()[0].at(2)])


def page_of(path: Path) -> str:
    study.report(path, path.parent / "pages")
    return (path.parent / "pages" / "index.html").read_text()


def test_pages_show_old_rows_with_what_trained_them(tmp_path, alive, request):
    path = tmp_path / "alive.sqlite"
    planted(path, NAME, 0.77)
    request.getfixturevalue("changed")
    code, out, _ = alive("reproduce")
    assert code == 0
    assert "trained by" in out
    assert "engine fleet, now 2" in out
    assert "did not ask for" not in out
    assert "trained by revision 1 of the engine fleet, now 2" in page_of(path)
    (source,) = study._sources([path])
    assert source.part.complete
    assert {row.best_train for row in source.part.rows} == {0.77}
    assert all(map(ledger._stale, source.numbers)), "a number of the engine before is said to be one"
    planted(path, NAME, 0.66)
    assert "trained by" not in page_of(path)
    assert "also holds" not in page_of(path), "rows of the engine before are no strangers"
    (source,) = study._sources([path])
    assert {row.best_train for row in source.part.rows} == {0.66}
    assert not any(map(ledger._stale, source.numbers))


def test_ones_own_experiment_is_shown_from_an_old_store(before, tmp_path, changed):
    mine = Experiment("mine", "From before", "ours", lambda scale, architecture, seed: cells() if seed == 10 else [])
    study.report(before, tmp_path / "pages", experiments=[mine])
    page = (tmp_path / "pages" / "index.html").read_text()
    assert "7 of 7 networks · trained by revision 1 of the engine fleet, now 2" in page
