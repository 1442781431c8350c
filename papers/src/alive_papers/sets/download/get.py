"""Get an image data set: download it or take it from disk, check it in full, then put it where it is looked for."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

from alive.data.record import Data
from alive.errors import AliveError, expect_one_of

from ..catalogue import CATALOGUE, File, ImageSet
from ..idx import gunzipped, uncompressed
from ..image_sets import opened
from ..parquet import packages
from . import places
from .fetch import TRIES, Report, fetch
from .take import take

ELSEWHERE = f"Choose a folder with --into, or let {places.SETTING} name one"


def get(
    name: str,
    source: Path | None = None,
    *,
    into: Path | None = None,
    mirror: str | None = None,
    report: Report = lambda name, done, total: None,
    tries: int = TRIES,
    pause: float = 1.0,
) -> tuple[Path, Data]:
    """Put a data set into a folder, whole or not at all, and give the folder and the data; nothing is done twice.

    From `source` (a folder, a .tgz, a .deb) if given, else from its public mirrors or from `mirror`, an address that
    holds the files. Idx files must have their known sha256. Parquet files must hold as many images of the right size
    with labels of the right classes as the set has; of CIFAR-10 the pixels are compared too, and data that differ
    are named so.
    """
    expect_one_of("image data", name, CATALOGUE)
    known = CATALOGUE[name]
    if known.parquet:
        packages()
    folder = _root(into) / name
    if (there := _there(known, folder)) is not None:
        return folder, there
    taken = None if source is None else take(known, source)
    incoming = _made(folder / ".incoming")
    if taken is not None:
        for file_name, content in taken.items():
            _write(incoming / file_name, gunzipped(content, source or folder)[0])
    else:
        for file in known.files:
            _download(known, file, incoming, mirror=mirror, report=report, tries=tries, pause=pause)
    return folder, _settle(known, incoming, folder, source)


def _root(into: Path | None) -> Path:
    root = into or places.home()
    if root is None:
        raise AliveError("this user has no home folder to keep data in", ELSEWHERE)
    return root


def _there(known: ImageSet, folder: Path) -> Data | None:
    """The data that are there already; nothing if they are not, or not whole."""
    paths, lacks = places.present(folder, known)
    if lacks:
        return None
    try:
        return opened(known, paths)
    except AliveError:
        return None


def _download(
    known: ImageSet, file: File, incoming: Path, *, mirror: str | None, report: Report, tries: int, pause: float
) -> None:
    """One file, uncompressed, unless an earlier try has it."""
    target = incoming / file.name
    ending = "" if known.parquet else ".gz"
    mirrors = file.mirrors if mirror is None else (f"{mirror.rstrip('/')}/{file.name}{ending}",)
    if target.exists() and (known.parquet or hashlib.sha256(target.read_bytes()).hexdigest() == file.sha256):
        return
    if known.parquet:
        fetch(mirrors, target, report=report, tries=tries, pause=pause)
        return
    packed = fetch(
        mirrors,
        incoming / f"{file.name}.gz",
        check=lambda path: _expect_sum(path, file),
        report=report,
        tries=tries,
        pause=pause,
    )
    _write(target, uncompressed(packed)[0])
    packed.unlink()


def _expect_sum(path: Path, file: File) -> None:
    found = hashlib.sha256(uncompressed(path)[0]).hexdigest()
    if found != file.sha256:
        raise AliveError(f"sha256 of {file.name} expected {file.sha256}, found {found}")


def _settle(known: ImageSet, incoming: Path, folder: Path, source: Path | None) -> Data:
    """Move what came in to its place if it is whole; else delete it, and say where it came from."""
    paths = {file.name: incoming / file.name for file in known.files}
    try:
        data = opened(known, paths)
    except AliveError as error:
        shutil.rmtree(incoming, ignore_errors=True)
        whence = "" if source is None else f"{source}: "
        raise AliveError(f"{whence}{error.cause.replace(f'{incoming}/', '')}", error.cure) from None
    for path in paths.values():
        path.replace(folder / path.name)
    shutil.rmtree(incoming, ignore_errors=True)
    return data


def _made(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / ".probe"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise AliveError(
            f"cannot write to {folder}: {error.strerror}",
            ELSEWHERE,
        ) from None
    return folder


def _write(path: Path, content: bytes) -> None:
    try:
        path.write_bytes(content)
    except OSError as error:
        raise AliveError(f"cannot write {path}: {error.strerror}", "Choose a folder with room to write") from None
