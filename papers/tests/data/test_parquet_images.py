"""Parquet image folders: decoded once, kept, and refused when damaged."""

from __future__ import annotations

import hashlib
import io
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import torch

from alive.errors import AliveError
from alive_papers.sets import decoded as keeping
from alive_papers.sets.catalogue import CATALOGUE, CIFAR10, CIFAR100, File, ImageSet
from alive_papers.sets.decoded import decoded, place
from alive_papers.sets.download.get import get
from alive_papers.sets.download.places import present
from alive_papers.sets.parquet import content

pyarrow = pytest.importorskip("pyarrow", reason='needs pyarrow: pip install ".[data]"')
Image = pytest.importorskip("PIL.Image", reason='needs Pillow: pip install ".[data]"')

SOME = torch.randint(256, (12, 3, 32, 32), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
LABELS = torch.arange(12) % 10


def encode(image: torch.Tensor, kind: str = "PNG", **how: Any) -> bytes:
    held = io.BytesIO()
    Image.fromarray(image.permute(1, 2, 0).numpy()).save(held, kind, **how)
    return held.getvalue()


def write(path: Path, encoded: list[bytes], labels: list[int], column: str = "label") -> None:
    import pyarrow.parquet as table_files

    table = {"img": [{"bytes": each, "path": None} for each in encoded], column: labels}
    table_files.write_table(pyarrow.table(table), path)


def described(known: ImageSet, folder: Path) -> tuple[ImageSet, dict[str, Path]]:
    """The set as the files in the folder are, 8 images to train on and 4 to test."""
    (train,), (test,) = known.train, known.test
    small = replace(known, train=(_file(folder, train, 8),), test=(_file(folder, test, 4),), content=None)
    return small, {file.name: folder / file.name for file in small.files}


def _file(folder: Path, file: File, rows: int) -> File:
    raw = (folder / file.name).read_bytes()
    return replace(file, rows=rows, sha256=hashlib.sha256(raw).hexdigest(), size=len(raw))


def written(folder: Path, known: ImageSet = CIFAR10, kind: str = "PNG", **how: Any) -> tuple[ImageSet, dict[str, Path]]:
    encoded = [encode(image, kind, **how) for image in SOME]
    folder.mkdir(exist_ok=True)
    write(folder / known.train[0].name, encoded[:8], LABELS[:8].tolist(), known.label)
    write(folder / known.test[0].name, encoded[8:], LABELS[8:].tolist(), known.label)
    return described(known, folder)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.mark.parametrize(("kind", "how"), [("PNG", {}), ("WEBP", {"lossless": True, "exact": True})])
def test_lossless_images_come_back_to_the_bit(tmp_path: Path, kind: str, how: dict[str, Any]) -> None:
    data = decoded(*written(tmp_path / "in", CIFAR10, kind, **how))
    assert data.name == "cifar10"
    assert torch.equal(data.train_x, SOME[:8])
    assert torch.equal(data.train_y, LABELS[:8])
    assert data.test is not None
    assert torch.equal(data.test[0], SOME[8:])
    assert (data.classes, data.train_x.dtype) == (10, torch.uint8)


def test_a_jpeg_copy_says_so(tmp_path: Path) -> None:
    known, paths = written(tmp_path / "in", CIFAR100, "JPEG", quality=90)
    for _ in ("decoded", "kept"):
        assert decoded(known, paths).name == "CIFAR-100 (JPEG copy)"
    assert not torch.equal(decoded(known, paths).train_x, SOME[:8])


def test_an_altered_copy_says_so_and_a_reordered_one_does_not(tmp_path: Path) -> None:
    known, paths = written(tmp_path / "in")
    true = (content(SOME[:8].flip(0), LABELS[:8].flip(0)), content(SOME[8:], LABELS[8:]))
    assert decoded(replace(known, content=true), paths).name == "cifar10"
    place(known, paths).unlink()
    assert decoded(replace(known, content=(true[0], true[0])), paths).name == "CIFAR-10 (altered copy)"


def test_the_second_load_opens_no_parquet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known, paths = written(tmp_path / "in")
    first = decoded(known, paths)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    monkeypatch.setattr(Path, "open", lambda *_, **__: pytest.fail("a file was opened"))
    second = decoded(known, paths)
    for part in ("train_x", "train_y", "test_x", "test_y"):
        assert torch.equal(getattr(first, part), getattr(second, part))
    assert (first.name, first.mean, first.std) == (second.name, second.mean, second.std)


def test_changed_files_are_decoded_anew(tmp_path: Path) -> None:
    known, paths = written(tmp_path / "in")
    decoded(known, paths)
    train = known.train[0]
    write(paths[train.name], [encode(image) for image in 255 - SOME[:8]], LABELS[:8].tolist())
    known, paths = described(known, tmp_path / "in")
    assert torch.equal(decoded(known, paths).train_x, 255 - SOME[:8])


def test_a_damaged_cache_is_decoded_anew(tmp_path: Path) -> None:
    known, paths = written(tmp_path / "in")
    decoded(known, paths)
    kept = place(known, paths)
    whole = kept.read_bytes()
    for at in range(0, len(whole), 2911):
        for damaged in (whole[:at], whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :]):
            kept.unlink()  # what is mapped must not change under the reader
            kept.write_bytes(damaged)
            assert torch.equal(decoded(known, paths).train_x, SOME[:8])
            assert keeping._kept(kept) is not None, "and mended"


def test_what_a_reader_changes_does_not_reach_the_cache(tmp_path: Path) -> None:
    known, paths = written(tmp_path / "in")
    decoded(known, paths)
    decoded(known, paths).train_x.zero_()
    assert torch.equal(decoded(known, paths).train_x, SOME[:8])


def test_two_processes_may_decode_at_once(tmp_path: Path) -> None:
    known, paths = written(tmp_path / "in")
    code = (
        "import sys\nfrom pathlib import Path, PosixPath, WindowsPath\n"
        "from alive_papers.sets.catalogue import File, ImageSet\nfrom alive_papers.sets.decoded import decoded\n"
        "print('ready', flush=True); sys.stdin.readline()\n"
        f"print(int(decoded({known!r}, {paths!r}).train_x.sum()))\n"
    )
    both = [
        subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    for each in both:
        assert each.stdout is not None
        assert each.stdout.readline() == "ready\n"
    for each in both:
        assert each.stdin is not None
        each.stdin.write("go\n")
        each.stdin.flush()
    said = [each.communicate(timeout=60)[0].strip() for each in both]
    assert said == [str(int(SOME[:8].sum()))] * 2
    assert torch.equal(decoded(known, paths).train_x, SOME[:8])
    assert len(list(place(known, paths).parent.iterdir())) == 1, "nothing is left behind"


def test_a_file_of_the_known_size_with_other_bytes_is_damaged(tmp_path: Path) -> None:
    known, paths = written(tmp_path / "in")
    train = known.train[0]
    raw = bytearray(paths[train.name].read_bytes())
    raw[len(raw) // 2] ^= 0xFF
    paths[train.name].write_bytes(raw)
    found = hashlib.sha256(raw).hexdigest()
    with pytest.raises(AliveError, match=f"{train.name} is damaged: sha256 expected {train.sha256} .* found {found}"):
        decoded(known, paths)


@pytest.mark.parametrize("part", [0.0, 0.3, 0.9, 0.999])
def test_a_truncated_file_is_named_with_both_checksums(tmp_path: Path, part: float) -> None:
    known, paths = written(tmp_path / "in")
    test = known.test[0]
    raw = paths[test.name].read_bytes()[: int(part * known.test[0].size)]
    paths[test.name].write_bytes(raw)
    found = hashlib.sha256(raw).hexdigest()
    with pytest.raises(AliveError, match=f"cannot read .*{test.name}: .*expected {test.sha256} .* found {found}"):
        decoded(known, paths)
    assert not place(known, paths).exists()


def test_wrong_tables_and_images_are_named(tmp_path: Path) -> None:
    known, paths = written(tmp_path / "in")
    train = paths[known.train[0].name]
    good = [encode(image) for image in SOME[:8]]
    wrong = {
        r"image 3 is 32 x 31 pixels, expected 32 x 32": ([*good[:3], encode(SOME[0, :, :, :31]), *good[4:]], "label"),
        r"expected 8 rows with columns img and label, got 7": (good[:7], "label"),
        r"got 8 with img, fine_label": (good, "fine_label"),
        r"cannot identify image": ([*good[:5], b"no image", *good[6:]], "label"),
        r"truncated": ([*good[:5], good[5][:-1500], *good[6:]], "label"),
    }
    for says, (encoded, column) in wrong.items():
        write(train, encoded, LABELS[: len(encoded)].tolist(), column)
        with pytest.raises(AliveError, match=says):
            decoded(known, paths)
    write(train, good, [99] * 8)
    with pytest.raises(AliveError, match=r"labels must lie in 0..9, got \[99\]"):
        decoded(known, paths)


@pytest.mark.parametrize("absent", ["pyarrow.parquet", "PIL.Image"])
def test_absent_packages_say_the_install_line(tmp_path: Path, absent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    known, paths = written(tmp_path / "in")
    monkeypatch.setitem(sys.modules, absent, None)
    with pytest.raises(AliveError, match=r'pip install "alive-papers\[data\]"'):
        decoded(known, paths)


@pytest.mark.parametrize("home", ["in the way", "none"])
def test_where_nothing_can_be_kept_images_are_decoded_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: str
) -> None:
    known, paths = written(tmp_path / "in")
    kept = decoded(known, paths)
    (tmp_path / "file").write_text("in the way")
    if home == "none":
        monkeypatch.delenv("XDG_CACHE_HOME")
        monkeypatch.setattr("os.path.expanduser", lambda path: path)
    else:
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    for _ in range(2):
        again = decoded(known, paths)
        assert torch.equal(again.train_x, kept.train_x)
        assert torch.equal(again.test_y, kept.test_y)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cache", "file", "in"]


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(tmp_path / "in"))) as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{running.server_address[1]}"
        running.shutdown()
        thread.join()


@pytest.mark.parametrize("way", ["folder", "server"])
def test_getting_decodes_once_and_for_all(
    tmp_path: Path, address: str, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    known, _ = written(tmp_path / "in")
    monkeypatch.setitem(CATALOGUE, "cifar10", known)
    how: dict[str, Any] = {"source": tmp_path / "in"} if way == "folder" else {"mirror": address}
    folder, data = get("cifar10", into=tmp_path / "out", **how)
    assert sorted(path.name for path in folder.iterdir()) == sorted(file.name for file in known.files)
    monkeypatch.setattr(keeping, "decode", lambda *_: pytest.fail("decoded again"))
    again = decoded(known, present(folder, known)[0])
    assert torch.equal(again.train_x, data.train_x)
    assert torch.equal(again.train_x, SOME[:8])


@pytest.mark.parametrize("way", ["folder", "server"])
def test_damaged_parquet_is_never_put_in_place(
    tmp_path: Path, address: str, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    known, paths = written(tmp_path / "in")
    test = known.test[0]
    paths[test.name].write_bytes(paths[test.name].read_bytes()[:-40])
    monkeypatch.setitem(CATALOGUE, "cifar10", known)
    how: dict[str, Any] = {"source": tmp_path / "in"} if way == "folder" else {"mirror": address}
    with pytest.raises(AliveError, match=f"{test.name}: .*expected {test.sha256}"):
        get("cifar10", into=tmp_path / "out", **how)
    assert not list((tmp_path / "out" / "cifar10").iterdir())


def test_content_tells_one_changed_pixel_and_one_changed_label() -> None:
    changed = SOME.clone()
    changed[3, 1, 2, 2] ^= 1
    swapped = LABELS.clone()
    swapped[[0, 1]] = LABELS[[1, 0]]
    assert len({content(SOME, LABELS), content(changed, LABELS), content(SOME, swapped)}) == 3
