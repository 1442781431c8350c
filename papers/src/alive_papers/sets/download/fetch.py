"""Download one file: go on where an earlier try broke off, try again, and keep nothing that is not whole."""

from __future__ import annotations

import http.client
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from alive.errors import AliveError

CHUNK = 1 << 16
TIMEOUT = 30.0
TRIES = 3
Report = Callable[[str, int, int | None], object]
"""Told the name of the file, how many bytes are there, and how many there will be, if that is known."""


class _Broken(Exception):
    """A failed try; another may succeed."""


def fetch(
    mirrors: Sequence[str],
    path: Path,
    *,
    check: Callable[[Path], None] = lambda path: None,
    report: Report = lambda name, done, total: None,
    tries: int = TRIES,
    pause: float = 1.0,
) -> Path:
    """Put the file from the first mirror that gives it, whole and approved by `check`, at the path.

    Bytes are gathered in a hidden neighbour, which a later try or a later call goes on from. `check` raises AliveError
    for bytes that are not the file; they are thrown away. Each mirror is tried several times, with growing pauses.
    """
    faults: list[str] = []
    for url in mirrors:
        part = path.with_name(f".{path.name}.{zlib.crc32(url.encode()):08x}.part")
        for attempt in range(tries):
            try:
                _gather(url, part, lambda done, total: report(path.name, done, total))
                _approve(part, check)
                part.replace(path)
                return path
            except _Broken as broken:
                faults.append(f"{url}: {broken}")
                if attempt + 1 < tries:
                    time.sleep(pause * 2**attempt)
            except HTTPError as error:
                faults.append(f"{url}: {error.code} {error.reason}")
                break
    said = "; ".join(dict.fromkeys(faults))
    raise AliveError(
        f"cannot download {path.name}: {said}", "Try later, or take the file from elsewhere with --from PATH"
    )


def _approve(part: Path, check: Callable[[Path], None]) -> None:
    try:
        check(part)
    except AliveError as error:
        part.unlink()
        raise _Broken(error.cause) from None


def _gather(url: str, part: Path, report: Callable[[int, int | None], object]) -> None:
    """Add what is missing of the file to the part; a server that cannot go on begins anew."""
    have = part.stat().st_size if part.exists() else 0
    if urlsplit(url).scheme not in ("http", "https"):
        raise AliveError(f"cannot download from {url!r}", "Give an address that begins with http:// or https://")
    request = Request(url, headers={"User-Agent": "alive"} | ({"Range": f"bytes={have}-"} if have else {}))
    try:
        with urlopen(request, timeout=TIMEOUT) as answer:
            have = have if _goes_on(answer, have) else 0
            length = answer.headers.get("Content-Length")
            total = have + int(length) if length is not None else None
            _pour(answer, part, have, total, report)
    except HTTPError as error:
        error.close()
        if error.code == 416:  # nothing lies beyond what we have: it is too much, or whole by chance
            part.unlink(missing_ok=True)
            raise _Broken("the server had less than an earlier try") from None
        if error.code >= 500 or error.code == 429:
            raise _Broken(f"{error.code} {error.reason}") from None
        raise
    except (OSError, http.client.HTTPException) as error:
        raise _Broken(str(getattr(error, "reason", error)) or type(error).__name__) from None


def _goes_on(answer: http.client.HTTPResponse, have: int) -> bool:
    return answer.status == 206 and (answer.headers.get("Content-Range") or "").startswith(f"bytes {have}-")


def _pour(
    answer: http.client.HTTPResponse,
    part: Path,
    have: int,
    total: int | None,
    report: Callable[[int, int | None], object],
) -> None:
    with _writing(part), part.open("ab" if have else "wb") as file:
        report(have, total)
        while chunk := _read(answer):
            file.write(chunk)
            have += len(chunk)
            report(have, total)
    if total is not None and have != total:
        raise _Broken(f"broke off after {have} of {total} bytes")


def _read(answer: http.client.HTTPResponse) -> bytes:
    """The next bytes; a network that fails is told apart from a disk that does."""
    try:
        return answer.read(CHUNK)
    except (OSError, http.client.HTTPException) as error:
        raise _Broken(str(error) or type(error).__name__) from None


@contextmanager
def _writing(part: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise AliveError(f"cannot write {part}: {error.strerror}", "Choose a folder with room to write") from None
