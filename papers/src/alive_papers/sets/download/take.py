"""Files of a data set that are already on this machine: in a folder, or inside an npm, tar or Debian package."""

from __future__ import annotations

import io
import lzma
import tarfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from alive.errors import AliveError
from alive.gate import Allowance

from ..catalogue import ImageSet
from .places import present

AR = b"!<arch>\n"
DAMAGED = (tarfile.TarError, zlib.error, lzma.LZMAError)


def take(known: ImageSet, source: Path) -> dict[str, bytes]:
    """The bytes of each file of the set, as they are, from a folder, one of the files themselves, or a package."""
    if not source.exists():
        raise AliveError(f"there is nothing at {source}", "Give a folder, a .tgz or a .deb that is there")
    if source.is_dir() or source.name.removesuffix(".gz") in {file.name for file in known.files}:
        return _from_folder(known, source if source.is_dir() else source.parent)
    try:
        allowance = Allowance(source)
        with _tar(source, allowance) as tar:
            return _from_tar(known, source, tar, allowance)
    except AliveError:
        raise
    except (OSError, EOFError, ValueError, OverflowError, MemoryError, *DAMAGED) as error:
        raise AliveError(
            f"cannot read {source} as a package ({_said(error)}): it is damaged, or of another kind",
            "Get it again, or give a folder, a .tgz or a .deb that is whole",
        ) from None


def _said(error: Exception) -> str:
    """An error in a few words."""
    if isinstance(error, tarfile.ReadError) and any(word in str(error) for word in ("header", "method", "empty")):
        return "no archive that tarfile can open"
    return getattr(error, "strerror", None) or " ".join(str(error).split()).rstrip(".") or type(error).__name__


def _from_folder(known: ImageSet, folder: Path) -> dict[str, bytes]:
    for place in (folder, folder / known.name):
        there, lacks = present(place, known)
        if not lacks:
            return {name: _bytes(path) for name, path in there.items()}
    lacks = present(folder, known)[1]
    raise AliveError(f"{folder} lacks {', '.join(lacks)}", "Give the folder that holds all files of the set")


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise AliveError(f"cannot read {path}: {error.strerror}", "Check the path and its permissions") from None


def _from_tar(known: ImageSet, source: Path, tar: tarfile.TarFile, allowance: Allowance) -> dict[str, bytes]:
    """Files are known by their last name, wherever they lie in the package; nothing is unpacked to disk."""
    wanted = {file.name for file in known.files}
    found: dict[str, bytes] = {}
    for member in tar:
        name = Path(member.name).name.removesuffix(".gz")
        if name in wanted and member.isfile() and (opened := tar.extractfile(member)) is not None:
            allowance.take(member.size, member.name)
            found[name] = opened.read()
    if lacks := sorted(wanted - set(found)):
        raise AliveError(f"{source} lacks {', '.join(lacks)}", f"{known.title} comes in {known.package}")
    return found


@contextmanager
def _tar(source: Path, allowance: Allowance) -> Iterator[tarfile.TarFile]:
    """The tar archive in a file, read once from front to end; in a Debian package it is a member of an ar archive."""
    with source.open("rb") as file:
        data: IO[bytes] = file
        if file.read(len(AR)) == AR:
            data = io.BytesIO(_data_of(file.read()))
        data.seek(0)
        with tarfile.open(fileobj=allowance.stream(data), mode="r|") as tar:
            yield tar


def _data_of(archive: bytes) -> bytes:
    """The member data.tar.* of an ar archive: headers of 60 bytes, bodies at even places."""
    at = 0
    while at + 60 <= len(archive):
        name, size = archive[at : at + 16].decode("ascii", "replace"), int(archive[at + 48 : at + 58])
        if size < 0:
            raise ValueError(f"{name.strip()} has a negative size")
        if name.startswith("data.tar"):
            return archive[at + 60 : at + 60 + size]
        at += 60 + size + size % 2
    raise ValueError("the Debian package has no data")
