"""The gate that files from elsewhere come through: what they would fill is counted before memory is given to it.

A file may take 100 MB, or 32 times its own size if that is more, and never more than is free. ALIVE_FILE_MEMORY=8GB
lets every file take so much instead.
"""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import os
import re
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from .errors import AliveError

SETTING = "ALIVE_FILE_MEMORY"
FREE = 10**8
TIMES = 32
CHUNK = 1 << 20
SPARE = 0.8  # of the free memory: other programs run too
UNITS = {"": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}


class Allowance:
    """What one file may take in memory, and how much of that is left."""

    def __init__(self, path: Path, size: int | None = None, times: int = TIMES) -> None:
        self.path = path
        if size is None:
            size = path.stat().st_size if path.is_file() else 0
        self.limit = setting() or max(FREE, times * size)
        self.taken = self._looked = 0

    def take(self, count: int, what: str = "") -> None:
        """Count bytes that something in the file asks for; refuse what goes beyond, in all."""
        self.taken += count
        inside = f" ({what:.80})" if what else ""
        if self.taken > self.limit:
            more = f"If you trust it, say how much it may take: {SETTING}={-(-self.taken * 5 // 4 // 10**9)}GB"
            raise AliveError(
                f"{self.path} opens to {_size(self.taken)} or more{inside}, where {_size(self.limit)} are expected",
                more if self.taken < SPARE * free() else "So much is not free here: give a smaller file",
            )
        if self.taken > self._looked + FREE // 10:  # to look takes longer than to count
            self._looked = self.taken
            if self.taken > SPARE * free():
                raise AliveError(
                    f"{self.path} takes {_size(self.taken)} of memory{inside}, and less is free", "Free some"
                )

    def shape(self, sizes: Iterable[int], itemsize: int, what: str = "") -> None:
        """Count an array; one without numbers counts its other axes, which are walked along later."""
        total = itemsize
        for size in sizes:
            if size < 0:
                raise ValueError(f"the shape of {what or 'an array'} has a negative size")
            total *= max(size, 1)
        self.take(total, what)

    def json(self, text: bytes, what: str = "") -> Any:
        """What a JSON text holds, once its lists and their places are counted: an empty list is three bytes there."""
        self.take(2 * len(text) + 64 * (text.count(b"[") + text.count(b"{")) + 32 * text.count(b","), what)
        return json.loads(text)

    def content(self) -> bytes:
        """The bytes of the file; of what has no end, such as a device, no more than allowed."""
        found = bytearray()
        with self.path.open("rb") as file:
            while piece := file.read(CHUNK):
                self.take(len(piece))
                found += piece
        return bytes(found)

    def entries(self, archive: zipfile.ZipFile) -> list[zipfile.ZipInfo]:
        """The entries of an archive, no two of one name, unpacked no larger than allowed; none is unpacked yet."""
        found = archive.infolist()
        twice = [name for name, times in Counter(entry.filename for entry in found).items() if times > 1]
        if twice:
            raise ValueError(f"it holds {twice[0]:.80} twice")
        for entry in found:
            self.take(entry.file_size, entry.filename)
        return found

    def array(self, stream: IO[bytes], size: int, name: str) -> Any:
        """An array of the .npy format that lies in so many bytes; only numbers, and never more than there are."""
        import numpy as np

        version = np.lib.format.read_magic(stream)
        read: Any = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
        if version not in read:
            raise ValueError(f"{name} holds records or names, which are not numbers")
        shape, by_columns, kind = read[version](stream)
        if kind.hasobject:
            raise TypeError(f"{name} holds pickled objects")
        if kind.kind not in "biufc":
            raise AliveError(f"{name} holds {kind}, which are not numbers")
        self.shape(shape, kind.itemsize, name)
        flat = np.empty(_product(shape), kind)
        if flat.nbytes > size:
            raise ValueError(f"{name} is cut short: {flat.nbytes} bytes expected, {size} are there")
        _fill(stream, flat.view(np.uint8).data if flat.size else memoryview(b""), name)
        return flat.reshape(shape, order="F" if by_columns else "C")

    def unpacked(self, raw: bytes) -> Iterator[bytes]:
        """The pieces of gzipped bytes, of all their members; stops where it would become too much."""
        left = raw
        while left:
            opened = zlib.decompressobj(wbits=31)
            while not opened.eof:
                piece = opened.decompress(left, CHUNK)
                left = opened.unconsumed_tail
                self.take(len(piece), "unpacked")
                yield piece
                if not piece and not left and not opened.eof:
                    raise EOFError("it ends before its end-of-stream marker")
            left = opened.unused_data.lstrip(b"\0")

    def stream(self, source: IO[bytes]) -> IO[bytes]:
        """A file, plain or packed by gzip, bzip2 or xz, to be read on; stops where it would become too much."""
        first = source.read(6)
        source.seek(0)
        opened: Any = source
        if first.startswith(b"\x1f\x8b"):
            opened = gzip.GzipFile(fileobj=source)
        elif first.startswith(b"BZh"):
            opened = bz2.BZ2File(source)
        elif first.startswith(b"\xfd7zXZ\0"):
            opened = lzma.LZMAFile(source)  # noqa: SIM115
        return io.BufferedReader(_Counted(opened, self), CHUNK)


class _Counted(io.RawIOBase):
    """A stream whose bytes are counted while they are read."""

    def __init__(self, source: IO[bytes], allowance: Allowance) -> None:
        self._source, self._allowance = source, allowance

    def readable(self) -> bool:
        return True

    def readinto(self, place: Any) -> int:
        piece = self._source.read(min(len(place), CHUNK))
        self._allowance.take(len(piece), "unpacked")
        place[: len(piece)] = piece
        return len(piece)


def setting() -> int | None:
    """How much a file may take by the user's own word, in bytes; None where nothing was said."""
    text = os.environ.get(SETTING, "").strip()
    if not text:
        return None
    said = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]B)?", text, re.IGNORECASE | re.ASCII)
    if said is None or len(said[1]) > 15:
        raise AliveError(f"cannot read {SETTING}={text!r:.40}", f"Write {SETTING}=8GB")
    return int(float(said[1]) * UNITS[(said[2] or "").upper()])


def free() -> float:
    """Bytes of memory that are free: of the machine, the container and this process; infinity where nobody tells."""
    return min(_machine(), _container(), _process())


def _machine() -> float:
    with suppress(OSError, IndexError, ValueError):
        return float(Path("/proc/meminfo").read_text().split("MemAvailable:")[1].split()[0]) * 1024
    return float("inf")


def _container() -> float:
    root = Path("/sys/fs/cgroup")
    for most, used in (
        ("memory.max", "memory.current"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
    ):
        with suppress(OSError, ValueError):  # "max" is no number, and no limit
            return float(int((root / most).read_text()) - int((root / used).read_text()))
    return float("inf")


def _process() -> float:
    try:
        import resource
    except ImportError:  # Windows
        return float("inf")
    most, _ = resource.getrlimit(resource.RLIMIT_AS)
    with suppress(OSError, IndexError, ValueError):
        if most != resource.RLIM_INFINITY:
            return float(most - int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize())
    return float("inf")


def short_of_memory(error: BaseException) -> bool:
    """Whether an error says that there was no memory left; torch says it as a RuntimeError."""
    words = ("allocate memory", "out of memory", "bad_alloc", "failed to map segment", "can't start new thread")
    return isinstance(error, MemoryError) or any(word in str(error) for word in words)


def _fill(stream: IO[bytes], place: memoryview, name: str) -> None:
    """Read piece by piece: a packed entry may hold more than it says, and is not unpacked further than that."""
    at = 0
    while at < len(place):
        piece = stream.read(min(CHUNK, len(place) - at))
        if not piece:
            raise ValueError(f"{name} is cut short: {len(place)} bytes expected, {at} are there")
        place[at : at + len(piece)] = piece
        at += len(piece)


def _product(sizes: Iterable[int]) -> int:
    total = 1
    for size in sizes:
        total *= size
    return total


def _size(count: float) -> str:
    """Bytes in words.

    >>> _size(2_500_000), _size(3 * 10**12)
    ('2.5 MB', '3,000.0 GB')
    """
    return f"{count / 10**9:,.1f} GB" if count >= 10**9 else f"{count / 10**6:,.1f} MB"
