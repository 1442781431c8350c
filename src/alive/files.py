"""Files that are written whole or not at all; what a killed process left half written is swept."""

from __future__ import annotations

import errno
import os
import re
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path

from .errors import AliveError
from .processes import STALE, exists, host


def write_atomically(path: Path, data: bytes, seal: Callable[[int], object] | None = None) -> None:
    """Replace a file in one step, through a neighbour that is safely on disk first; links and permissions stay.

    `seal` is given the descriptor of the new file before that takes the place of the old one.
    """
    try:
        target = _file(path)
        part = _neighbour(target, "part")
        _sweep(target)
        try:
            with part.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
                if seal is not None:
                    seal(file.fileno())
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
    return target.with_name(f".{target.name}.{host()[:8]}-{os.getpid()}.{purpose}")


@cache
def _sweep(target: Path) -> None:
    """Remove what killed processes left of their writes of this file: seen dead here, or silent on another host."""
    name = re.compile(rf"\.{re.escape(target.name)}\.(?:([0-9a-f]{{8}})-)?(\d{{1,7}})\.(?:part|probe)")
    with suppress(OSError):
        for beside in target.parent.iterdir():
            if left := name.fullmatch(beside.name):
                here = left[1] in (host()[:8], None) and os.name != "nt"  # earlier versions named no host
                silent = abs(time.time() - beside.stat().st_mtime) > STALE
                if silent if not here else not exists(int(left[2])):
                    beside.unlink()
