"""Rows of a store as CSV and Parquet, its pictures as PNG, SVG and PDF."""

from __future__ import annotations

import csv
import sqlite3

import pyarrow.parquet
import pytest


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    from alive_papers import study

    path = tmp_path_factory.mktemp("store") / "alive.sqlite"
    list(study.reproduce(["001-T1"], seeds=1, scale="quick", architecture="dense", path=path, threads=1))
    return path


def test_rows_are_those_of_the_database(alive, store, tmp_path):
    with sqlite3.connect(store) as db:
        true = dict(db.execute("SELECT key, json_extract(result, '$.best_train') FROM cells"))
        depths = dict(db.execute("SELECT key, json_extract(settings, '$.member.depth') FROM cells"))
    code, _, err = alive("export", "--store", store, "--out", "rows.csv")
    assert code == 0, err
    with open(tmp_path / "rows.csv", newline="") as file:
        lines = list(csv.DictReader(file))
    assert {line["key"]: float(line["result.best_train"]) for line in lines} == true
    assert {line["key"]: int(line["settings.member.depth"]) for line in lines} == depths
    assert alive("export", "--store", store, "--format", "parquet")[0] == 0
    read = pyarrow.parquet.read_table(tmp_path / "rows.parquet").to_pydict()
    assert dict(zip(read["key"], read["result.best_train"], strict=True)) == true
    assert list(read) == list(lines[0])
    assert alive("export", "--store", store, "--traces", "--out", "traces.csv")[0] == 0
    with open(tmp_path / "traces.csv", newline="") as file:
        epochs = list(csv.DictReader(file))
    with sqlite3.connect(store) as db:
        kept = db.execute("SELECT sum(json_array_length(result, '$.trace.epoch')) FROM cells").fetchone()[0]
    assert len(epochs) == kept > len(lines)


@pytest.mark.parametrize(("kind", "begins"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")])
def test_pictures_in_each_format(alive, store, tmp_path, kind, begins):
    code, _, err = alive("export", "--store", store, "--format", kind, "--out", "drawn")
    assert code == 0, err
    files = sorted((tmp_path / "drawn").iterdir())
    assert files
    assert all(file.suffix == f".{kind}" and file.read_bytes().startswith(begins) for file in files)


def test_bad_words(alive, store, tmp_path):
    for words, said in (
        (["--format", "xlsx"], "unknown format 'xlsx'"),
        (["--format", "svg", "--traces"], "--traces is for rows"),
        (["--out", "none/rows.csv"], "cannot write none/rows.csv"),
    ):
        code, _, err = alive("export", "--store", store, *words)
        assert code == 2
        assert said in err
        assert err.count("\n") == 1
    code, _, err = alive("export", "--store", "none.sqlite")
    assert (code, "there is no store none.sqlite" in err) == (2, True)
