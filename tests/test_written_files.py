"""Files are written whole or not at all, and a path that cannot be written is refused before the work."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from alive.errors import AliveError
from alive.files import expect_writable, write_atomically


def test_a_failed_write_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "run"
    write_atomically(path, b"old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(AliveError, match="No space left on device"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["run"]


def test_a_path_that_can_be_written_is_left_untouched(tmp_path: Path) -> None:
    expect_writable(tmp_path / "new")
    (tmp_path / "old").write_text("kept")
    expect_writable(tmp_path / "old")
    assert os.listdir(tmp_path) == ["old"]
    assert (tmp_path / "old").read_text() == "kept"


@pytest.mark.parametrize("where", ["nowhere/file", "."])
def test_a_path_that_cannot_be_written_is_refused(tmp_path: Path, where: str) -> None:
    with pytest.raises(AliveError, match=r"cannot write .* Choose a folder"):
        expect_writable(tmp_path / where)
