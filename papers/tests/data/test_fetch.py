"""Downloads from a real server on this machine: whole, broken off, wrong, without ranges, absent."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from alive.errors import AliveError
from alive_papers.sets.download.fetch import fetch

CONTENT = bytes(range(256)) * 2000


class Server(ThreadingHTTPServer):
    """Serves CONTENT; the first part of the path says how."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[tuple[str, str | None]] = []

    def at(self, how: str) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/{how}/file"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        how, wanted = self.path.split("/")[1], self.headers.get("Range")
        before = sum(path == self.path for path, _ in self.server.asked)
        self.server.asked.append((self.path, wanted))
        if how == "absent" or (how == "busy" and before == 0):
            self.send_error(404 if how == "absent" else 503)
            return
        start = int(wanted.removeprefix("bytes=").removesuffix("-")) if wanted and how != "rangeless" else 0
        if start >= len(CONTENT):
            self.send_error(416)
            return
        body = (CONTENT[::-1] if how == "wrong" else CONTENT)[start:]
        self.send_response(206 if start else 200)
        if how != "lengthless":
            self.send_header("Content-Length", str(len(body)))
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(CONTENT) - 1}/{len(CONTENT)}")
        self.end_headers()
        breaks = (how in ("breaks", "rangeless") and before == 0) or how == "hopeless"
        self.wfile.write(body[: len(body) // 2] if breaks else body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def check(path: Path) -> None:
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if path.read_bytes() != CONTENT:
        raise AliveError(f"sha256 expected {hashlib.sha256(CONTENT).hexdigest()}, found {found}")


@pytest.mark.parametrize("how", ["plain", "breaks", "rangeless", "busy", "lengthless"])
def test_the_file_arrives_whole_and_alone(server: Server, tmp_path: Path, how: str) -> None:
    reports: list[tuple[str, int, int | None]] = []
    path = fetch([server.at(how)], tmp_path / "file", check=check, report=lambda *said: reports.append(said), pause=0)
    assert path.read_bytes() == CONTENT
    assert list(tmp_path.iterdir()) == [path]
    assert reports[-1] == ("file", len(CONTENT), None if how == "lengthless" else len(CONTENT))


def test_what_broke_off_is_gone_on_with_not_begun_anew(server: Server, tmp_path: Path) -> None:
    fetch([server.at("breaks")], tmp_path / "file", check=check, pause=0)
    assert [wanted for _, wanted in server.asked] == [None, f"bytes={len(CONTENT) // 2}-"]


def test_a_later_call_goes_on_too(server: Server, tmp_path: Path) -> None:
    with pytest.raises(AliveError, match=r"broke off after 256000 of 512000 bytes"):
        fetch([server.at("breaks")], tmp_path / "file", check=check, tries=1)
    assert not (tmp_path / "file").exists()
    fetch([server.at("breaks")], tmp_path / "file", check=check, tries=1)
    assert server.asked[-1][1] == "bytes=256000-"


def test_wrong_bytes_are_named_and_thrown_away(server: Server, tmp_path: Path) -> None:
    sums = [hashlib.sha256(each).hexdigest() for each in (CONTENT, CONTENT[::-1])]
    with pytest.raises(AliveError, match=f"sha256 expected {sums[0]}, found {sums[1]}"):
        fetch([server.at("wrong")], tmp_path / "file", check=check, pause=0)
    assert len(server.asked) == 3
    assert not list(tmp_path.iterdir())


def test_the_next_mirror_is_tried(server: Server, tmp_path: Path) -> None:
    fetch([server.at(how) for how in ("absent", "hopeless", "wrong", "plain")], tmp_path / "file", check=check, pause=0)
    assert (tmp_path / "file").read_bytes() == CONTENT
    assert [path.split("/")[1] for path, _ in server.asked].count("absent") == 1, "what is absent is asked for once"


def test_all_mirrors_that_failed_are_named(server: Server, tmp_path: Path) -> None:
    with pytest.raises(AliveError, match=r"absent/file: 404 .*hopeless/file: broke off.*--from PATH"):
        fetch([server.at("absent"), server.at("hopeless")], tmp_path / "file", pause=0)


def test_a_part_that_is_too_long_is_thrown_away(server: Server, tmp_path: Path) -> None:
    with pytest.raises(AliveError):
        fetch([server.at("breaks")], tmp_path / "file", tries=1)
    (part,) = tmp_path.iterdir()
    part.write_bytes(CONTENT + b"more")
    fetch([server.at("breaks")], tmp_path / "file", check=check, pause=0)
    assert (tmp_path / "file").read_bytes() == CONTENT


def test_no_server_no_scheme_no_room(tmp_path: Path, server: Server) -> None:
    with pytest.raises(AliveError, match=r"cannot download file: http://127.0.0.1:9/x"):
        fetch(["http://127.0.0.1:9/x"], tmp_path / "file", pause=0)
    with pytest.raises(AliveError, match=r"cannot download from 'file:///etc/hosts'"):
        fetch(["file:///etc/hosts"], tmp_path / "file")
    with pytest.raises(AliveError, match=r"cannot write .*nowhere"):
        fetch([server.at("plain")], tmp_path / "nowhere" / "file", pause=0)
