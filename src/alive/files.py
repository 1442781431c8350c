"""Files that are written whole or not at all."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

from .errors import AliveError


def write_atomically(path: Path, data: bytes) -> None:
    """Replace a file in one step, through a neighbour that is safely on disk first; links and permissions stay."""
    try:
        target = _file(path)
        part = _neighbour(target, "part")
        try:
            with part.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            if target.exists():
                shutil.copymode(target, part)
            os.replace(part, target)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        raise unwritable(path, error) from None


def expect_writable(path: Path) -> None:
    """Refuse, before any work is done, a path that could not be written after it."""
    try:
        probe = _neighbour(_file(path), "probe")
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise unwritable(path, error) from None


def unwritable(path: Path, error: OSError) -> AliveError:
    """What to say of a file that could not be written."""
    cure = "Make room there, or choose another folder" if error.errno in FULL else CHOOSE
    return AliveError(f"cannot write {path}: {error.strerror}", cure)


FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
CHOOSE = "Choose a folder that exists and can be written"


def _file(path: Path) -> Path:
    """The file that a path and its links lead to. Anything else there (a folder, a device) would be lost."""
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, "it is a folder")
    if target.exists() and not target.is_file():
        raise OSError(errno.EINVAL, "it is a device or a pipe, not a file")
    if target.exists() and not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, "it is write-protected")
    return target


def _neighbour(target: Path, purpose: str) -> Path:
    return target.with_name(f".{target.name}.{os.getpid()}.{purpose}")
