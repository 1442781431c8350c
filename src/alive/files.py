"""Files that are written whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

from .errors import AliveError


def write_atomically(path: Path, data: bytes) -> None:
    """Replace a file in one step, through a neighbour that is safely on disk first."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        try:
            with part.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(part, path)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        raise _unwritable(path, error) from None


def expect_writable(path: Path) -> None:
    """Refuse, before any work is done, a path that could not be written after it."""
    probe = path.with_name(f".{path.name}.{os.getpid()}.probe")
    try:
        if path.is_dir():
            raise IsADirectoryError(21, "is a folder")
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise _unwritable(path, error) from None


def _unwritable(path: Path, error: OSError) -> AliveError:
    return AliveError(f"cannot write {path}: {error.strerror}", "Choose a folder that exists and can be written")
