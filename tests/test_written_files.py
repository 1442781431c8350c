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


@pytest.mark.parametrize("where", ["nowhere/file", ".", "", "/"])
def test_a_path_that_cannot_be_written_is_refused(tmp_path: Path, where: str) -> None:
    with pytest.raises(AliveError, match=r"cannot write .* Choose a folder"):
        expect_writable(tmp_path / where)


def test_what_is_no_file_is_never_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")  # stands for /dev/null, which whoever may do everything could replace
    for refused in (expect_writable, lambda path: write_atomically(path, b"lost")):
        with pytest.raises(AliveError, match="a device or a pipe"):
            refused(tmp_path / "pipe")
    assert (tmp_path / "pipe").is_fifo()


def test_a_link_stays_and_its_file_is_written(tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    (tmp_path / "far" / "file").write_text("old")
    (tmp_path / "link").symlink_to("far/file")
    expect_writable(tmp_path / "link")
    write_atomically(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "far" / "file").read_bytes() == b"new"


def test_permissions_stay(tmp_path: Path) -> None:
    (tmp_path / "secret").touch(mode=0o600)
    write_atomically(tmp_path / "secret", b"new")
    assert (tmp_path / "secret").stat().st_mode & 0o777 == 0o600


def test_a_write_protected_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "kept").write_text("old")
    monkeypatch.setattr(os, "access", lambda *_: False)  # as for anybody but root, who may write everything
    with pytest.raises(AliveError, match="write-protected"):
        write_atomically(tmp_path / "kept", b"new")
    assert (tmp_path / "kept").read_text() == "old"
