"""`alive data`, as a user types it."""

from __future__ import annotations

import gzip
import hashlib
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from alive.errors import AliveError
from alive_papers.cli.data import data
from alive_papers.sets.catalogue import CATALOGUE, MNIST

SIDE = (28).to_bytes(4, "big")


def content(name: str) -> bytes:
    count = (4).to_bytes(4, "big")
    if "images" in name:
        return b"\0\0\x08\x03" + count + SIDE + SIDE + bytes(range(196)) * 16
    return b"\0\0\x08\x01" + count + bytes([0, 1, 2, 3])


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that holds a small MNIST; nothing else is anywhere."""
    folder = tmp_path / "shelf"
    folder.mkdir()
    parts = [
        tuple(replace(file, sha256=hashlib.sha256(content(file.name)).hexdigest()) for file in part)
        for part in (MNIST.train, MNIST.test)
    ]
    monkeypatch.setitem(CATALOGUE, "mnist", replace(MNIST, train=parts[0], test=parts[1]))
    for file in MNIST.files:
        (folder / f"{file.name}.gz").write_bytes(gzip.compress(content(file.name)))
    for setting in ("XDG_CACHE_HOME", "XDG_DATA_DIRS"):
        monkeypatch.setenv(setting, str(tmp_path / "none"))
    monkeypatch.setenv("ALIVE_DATA", str(tmp_path / "mine"))
    return folder


def run(*args: object) -> Result:
    return CliRunner().invoke(data, [str(each) for each in args])


def test_get_from_a_folder_then_list(shelf: Path, tmp_path: Path) -> None:
    before = run("list")
    assert before.exit_code == 0
    assert "MNIST is not there" in before.output
    done = run("get", "mnist", "--from", shelf)
    assert done.exit_code == 0
    assert done.output == f"mnist: 4 images to train on, 4 to test, checked, in {tmp_path / 'mine' / 'mnist'}\n"
    after = "".join(run("list").output.split())
    assert "CIFAR-10isnotthere" in after
    assert "MNISTisnotthere" in after, "Fashion-MNIST is still missing"
    assert after.count("MNISTisnotthere") == 1


def test_get_into_a_folder(shelf: Path, tmp_path: Path) -> None:
    assert run("get", "mnist", "--from", shelf, "--into", tmp_path / "there").exit_code == 0
    assert (tmp_path / "there" / "mnist" / "t10k-labels-idx1-ubyte").read_bytes() == content("labels")


def test_what_is_refused_is_an_alive_error(shelf: Path, tmp_path: Path) -> None:
    for args, says in {
        ("get", "mnits"): "did you mean 'mnist'",
        ("get", "mnist", "--from", tmp_path / "absent"): "there is nothing at",
        ("get", "mnist", "--mirror", "ftp://example.org"): "begins with http",
    }.items():
        fault = run(*args).exception
        assert isinstance(fault, AliveError)
        assert says in str(fault)


def test_help_names_the_commands() -> None:
    for word in ("get", "list"):
        assert word in run("--help").output
