"""idx files: plain and gzipped, whole and damaged."""

from __future__ import annotations

import gzip
import hashlib
from pathlib import Path

import pytest
import torch

from alive.errors import AliveError
from alive_papers.sets.idx import from_idx, read_idx


def idx(array: torch.Tensor) -> bytes:
    """The format, written from its description."""
    sizes = b"".join(size.to_bytes(4, "big") for size in array.shape)
    return bytes([0, 0, 8, array.dim()]) + sizes + array.to(torch.uint8).numpy().tobytes()


X = torch.arange(6 * 4 * 5, dtype=torch.uint8).view(6, 4, 5)
Y = torch.tensor([0, 1, 2, 2, 1, 0], dtype=torch.uint8)


def write(folder: Path, *, zipped: bool = False, **change: bytes) -> dict[str, tuple[Path, Path]]:
    contents = {"train_x": idx(X), "train_y": idx(Y), "test_x": idx(X[:2]), "test_y": idx(Y[:2])} | change
    paths = {}
    for name, content in contents.items():
        paths[name] = folder / (f"{name}.gz" if zipped else name)
        paths[name].write_bytes(gzip.compress(content) if zipped else content)
    return {"train": (paths["train_x"], paths["train_y"]), "test": (paths["test_x"], paths["test_y"])}


@pytest.mark.parametrize("zipped", [False, True])
def test_a_set_comes_back_as_written(tmp_path: Path, zipped: bool) -> None:
    parts = write(tmp_path, zipped=zipped)
    sums = {"train_x": hashlib.sha256(idx(X)).hexdigest()}
    data = from_idx(**parts, name="toy", size=(4, 5), classes=3, sha256=sums)
    assert torch.equal(data.train_x, X[:, None])
    assert torch.equal(data.train_y, Y.long())
    assert data.test is not None
    assert torch.equal(data.test[0], X[:2, None])
    assert (data.name, data.classes, data.train_x.dtype) == ("toy", 3, torch.uint8)


@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize("kind", ["truncated", "flipped", "empty", "swapped"])
def test_a_damaged_file_is_named_with_both_checksums(tmp_path: Path, zipped: bool, kind: str) -> None:
    whole = idx(X)
    path = tmp_path / "images"
    raw = gzip.compress(whole) if zipped else whole
    middle = len(raw) // 2
    path.write_bytes(
        {
            "truncated": raw[:middle],
            "flipped": raw[:middle] + bytes([raw[middle] ^ 0xFF]) + raw[middle + 1 :],
            "empty": b"",
            "swapped": idx(Y),
        }[kind]
    )
    expected = hashlib.sha256(whole).hexdigest()
    with pytest.raises(AliveError, match=f"images is damaged.*expected {expected}, found [0-9a-f]{{64}}"):
        read_idx(path, sha256=expected)


def test_every_truncation_is_refused_without_a_checksum_too(tmp_path: Path) -> None:
    path = tmp_path / "images"
    for raw in (idx(X), gzip.compress(idx(X))):
        for length in range(len(raw)):
            path.write_bytes(raw[:length])
            with pytest.raises(AliveError, match="is not an idx file of bytes"):
                read_idx(path)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"\x00\x00\x0d\x03" + idx(X)[4:], "got 00 00 0d 03"),
        (b"PK\x03\x04" + idx(X)[4:], "got 50 4b 03 04"),
        (b"\x00\x00\x08\x00", "got 00 00 08 00"),
        (b"\x00\x00\x08\x01\x00\x00\x00\x00", "holds no numbers"),
        (idx(X) + b"\x00", "136 bytes expected for sizes .*, got 137"),
        (b"\x00\x00\x08\x03\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", "bytes expected for sizes"),
    ],
)
def test_wrong_magic_and_sizes(tmp_path: Path, content: bytes, says: str) -> None:
    (tmp_path / "images").write_bytes(content)
    with pytest.raises(AliveError, match=says):
        read_idx(tmp_path / "images")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"train_x": idx(X.view(6, 5, 4))}, r"train_x holds images \[5, 4\], expected \[4, 5\]"),
        ({"test_x": idx(X[:2, :3])}, r"test_x holds images \[3, 5\]"),
        ({"train_y": idx(Y[:5])}, "train_x holds 6 images, .*train_y 5 labels"),
        ({"train_x": idx(Y)}, r"not images \[N, H, W\]"),
        ({"test_y": idx(X[:2])}, r"not labels \[N\]"),
        ({"train_y": idx(Y + 1)}, "labels must lie in 0..2"),
    ],
)
def test_files_that_do_not_fit_together(tmp_path: Path, change: dict[str, bytes], says: str) -> None:
    with pytest.raises(AliveError, match=says):
        from_idx(**write(tmp_path, **change), name="toy", size=(4, 5), classes=3)


def test_a_folder_is_no_idx_file(tmp_path: Path) -> None:
    with pytest.raises(AliveError, match="cannot read"):
        read_idx(tmp_path)
