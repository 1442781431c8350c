"""Images that are encoded files inside a parquet table: decode them all, and refuse what is damaged."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from alive.data.footer import count
from alive.errors import AliveError, require
from alive.gate import Allowance

from .catalogue import File, ImageSet

FORMATS = ("PNG", "WEBP", "JPEG")
LOSSY = "JPEG"
ROWS_AT_ONCE = 1000


def packages() -> tuple[Any, Any]:
    """pyarrow.parquet and PIL.Image."""
    with require("reading images from .parquet", "alive-papers[data]"):
        return import_module("pyarrow.parquet"), import_module("PIL.Image")


def decode(path: Path, file: File, known: ImageSet) -> tuple[Tensor, Tensor, bool]:
    """Bytes [N, C, H, W], labels [N], and whether any image was stored as JPEG and so lost detail."""
    parquet, pictures = packages()
    found = sha256_of(path)
    sums = f"sha256 expected {file.sha256} of {file.size} bytes, found {found} of {path.stat().st_size}"
    if path.stat().st_size == file.size and found != file.sha256:
        raise AliveError(f"{path} is damaged: {sums}", "Get it again")
    try:
        count(Allowance(path), path)
        with parquet.ParquetFile(path) as table:
            _expect_table(table, file, known)
            return _all(table, pictures, file.rows, known)
    except Exception as error:  # a damaged file fails in as many ways as it and its images have parts
        said = " ".join(str(getattr(error, "cause", error)).split()).rstrip(".") or type(error).__name__
        raise AliveError(f"cannot read {path}: {said}; {sums}", "Get it again") from None


def _expect_table(table: Any, file: File, known: ImageSet) -> None:
    rows, names = table.metadata.num_rows, table.schema_arrow.names
    if rows != file.rows or not {"img", known.label} <= set(names):
        raise AliveError(
            f"expected {file.rows} rows with columns img and {known.label}, got {rows} with {', '.join(names)}"
        )


def _all(table: Any, pictures: Any, rows: int, known: ImageSet) -> tuple[Tensor, Tensor, bool]:
    channels, height, width = known.shape
    x, y = np.empty((rows, channels, height, width), np.uint8), np.empty(rows, np.int64)
    lossy = False
    for at, (encoded, label) in enumerate(_rows(table, known.label)):
        with pictures.open(io.BytesIO(encoded), formats=FORMATS) as picture:
            if picture.size != (width, height):
                got = f"{picture.size[1]} x {picture.size[0]}"
                raise AliveError(f"image {at} is {got} pixels, expected {height} x {width}")
            lossy |= picture.format == LOSSY
            x[at] = np.asarray(picture.convert("RGB")).transpose(2, 0, 1)
        y[at] = label
    return torch.from_numpy(x), torch.from_numpy(y), lossy


def _rows(table: Any, label: str) -> Iterator[tuple[bytes, int]]:
    """Each encoded image with its label; few rows at once, so that memory stays bounded."""
    for batch in table.iter_batches(ROWS_AT_ONCE, columns=["img", label]):
        encoded = batch.column("img").field("bytes").to_pylist()
        yield from zip(encoded, batch.column(label).to_pylist(), strict=True)


def content(x: Tensor, y: Tensor) -> str:
    """A sha256 of images [N, C, H, W] with their labels that no order of points and no encoding changes.

    >>> x, y = torch.arange(24, dtype=torch.uint8).view(2, 3, 2, 2), torch.tensor([1, 0])
    >>> content(x, y) == content(x.flip(0), y.flip(0)) != content(x, y.flip(0))
    True
    """
    pairs = zip(x.numpy(), y.tolist(), strict=True)
    each = sorted(hashlib.sha256(label.to_bytes(4, "big") + image.tobytes()).digest() for image, label in pairs)
    return hashlib.sha256(b"".join(each)).hexdigest()


def sha256_of(path: Path) -> str:
    """The sha256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
