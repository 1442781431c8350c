"""The idx format of MNIST and its kin: a magic number, the sizes, then bytes; plain or gzipped."""

from __future__ import annotations

import hashlib
import zlib
from math import prod
from pathlib import Path

import torch
from torch import Tensor

from alive.data.record import Data, images
from alive.errors import AliveError, expect
from alive.gate import Allowance

GZIP = b"\x1f\x8b"
BYTES = 8  # the code of unsigned bytes, the third byte of the magic number


def read_idx(path: Path, *, sha256: str | None = None) -> Tensor:
    """Read an idx file of bytes, of any number of axes; the checksum is that of the uncompressed file.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "labels-idx1-ubyte")
    ...     _ = path.write_bytes(bytes([0, 0, 8, 1, 0, 0, 0, 3, 7, 2, 1]))
    ...     read_idx(path)
    tensor([7, 2, 1], dtype=torch.uint8)
    """
    content, broken = uncompressed(path)
    fault = broken or _fault(content)
    found = hashlib.sha256(content).hexdigest()
    if sha256 is not None and found != sha256:
        raise AliveError(
            f"{path} is damaged or another file{f' ({fault})' if fault else ''}: "
            f"sha256 of its {len(content)} uncompressed bytes expected {sha256}, found {found}",
            "Get it again",
        )
    if fault and sha256 is None:
        raise AliveError(f"{path} is not an idx file of bytes: {fault}; its sha256 is {found}", "Get it again")
    shape, start = _header(content)
    return torch.frombuffer(bytearray(content[start:]), dtype=torch.uint8).view(shape)


def uncompressed(path: Path) -> tuple[bytes, str]:
    """The bytes of a file, uncompressed if it is gzipped, and what was wrong with its compression."""
    try:
        return gunzipped(path.read_bytes(), path)
    except OSError as error:
        raise AliveError(f"cannot read {path}: {error.strerror}", "Check the path and its permissions") from None


def gunzipped(raw: bytes, path: Path) -> tuple[bytes, str]:
    """Uncompress what is gzipped; where that fails, give what came before the fault, for a checksum, and the fault."""
    if not raw.startswith(GZIP):
        return raw, ""
    got = bytearray()
    try:
        for piece in Allowance(path, len(raw)).unpacked(raw):
            got += piece
    except (EOFError, zlib.error) as error:
        return bytes(got), f"gzip: {error}"
    return bytes(got), ""


def _header(content: bytes) -> tuple[list[int], int]:
    """Sizes of the axes, and where the numbers begin."""
    start = 4 + 4 * content[3]
    return [int.from_bytes(content[at : at + 4], "big") for at in range(4, start, 4)], start


def _fault(content: bytes) -> str:
    """What is wrong with the bytes; nothing if all is well."""
    if len(content) < 4 or content[:3] != bytes([0, 0, BYTES]) or content[3] == 0:
        return f"expected it to begin with 00 00 08 and the number of axes, got {content[:4].hex(' ') or 'nothing'}"
    shape, start = _header(content)
    wanted = start + prod(shape)
    if len(content) != wanted:
        return f"{wanted} bytes expected for sizes {shape}, got {len(content)}"
    return "" if wanted > start else f"it holds no numbers, its sizes are {shape}"


def from_idx(
    train: tuple[Path, Path],
    test: tuple[Path, Path],
    *,
    name: str,
    size: tuple[int, int],
    classes: int,
    sha256: dict[str, str] | None = None,
) -> Data:
    """Images and labels of a training and a test set, checked against their sizes, each other and their checksums.

    Checksums go by the name of the uncompressed file, such as train-images-idx3-ubyte.
    """
    sums = sha256 or {}
    paths = (*train, *test)
    read = [read_idx(path, sha256=sums.get(path.name.removesuffix(".gz"))) for path in paths]
    expect(fault for k in (0, 2) for fault in _pair_faults(paths[k : k + 2], read[k], read[k + 1], size))
    x, y, test_x, test_y = read
    return images(x[:, None], y.long(), test_x=test_x[:, None], test_y=test_y.long(), classes=classes, name=name)


def _pair_faults(paths: tuple[Path, ...], x: Tensor, y: Tensor, size: tuple[int, int]) -> list[tuple[bool, str]]:
    """What must hold of images and their labels."""
    return [
        (x.dim() == 3, f"{paths[0]} holds an array {list(x.shape)}, not images [N, H, W]"),
        (x.dim() != 3 or x.shape[1:] == size, f"{paths[0]} holds images {list(x.shape[1:])}, expected {list(size)}"),
        (y.dim() == 1, f"{paths[1]} holds an array {list(y.shape)}, not labels [N]"),
        (len(x) == len(y), f"{paths[0]} holds {len(x)} images, {paths[1]} {len(y)} labels"),
    ]
