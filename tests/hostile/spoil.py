"""Files spoiled in every way that is known, each by its number: the same number spoils the same way everywhere."""

from __future__ import annotations

import gzip
import io
import json
import random
import struct
import warnings
import zipfile
import zlib
from collections.abc import Callable
from typing import Any

EXTREMES: list[Any] = [
    *(float("nan"), float("inf"), -float("inf"), 1e30, 1e308, -1e308, 10**30, -1, 0, 2**31, 2**63, 2**64, -(2**63)),
    *(None, True, "", "x" * 3000, "\ud800", "\x1b[2J\x1b]0;title\x07", "\u202e\u2028\x85", [], {}, [[]], {"": None}),
    *("9999999999d", "1e999", "../../etc/passwd", [10**9, 0], [0] * 300, {"a": {"a": {"a": 1}}}),
]
NUMBERS = [0, 1, 0x7F, 0xFF, 0x7FFF, 0xFFFF, 2**31 - 1, 2**31, 2**32 - 1, 2**53, 2**63 - 1, 2**63, 2**64 - 1]


def spoiled(data: bytes, chance: random.Random) -> bytes:
    """The bytes of a file, changed in one to three ways."""
    ways = WAYS + (OF_JSON if parts_of(data) is not None else []) + (OF_ZIPS if data[:2] == b"PK" else [])
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        way = chance.choice(ways)
        data = way(data, chance)
    return data


def flipped(data: bytes, chance: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 8, 64))):
        if changed:
            changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
    return bytes(changed)


def cut(data: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(data) + 1)
    return data[:at] if chance.random() < 0.8 else data[at:]


def spliced(data: bytes, chance: random.Random) -> bytes:
    a, b, c = sorted(chance.randrange(len(data) + 1) for _ in range(3))
    return chance.choice((data[:b] + data[a:], data[:a] + data[b:c] + data[a:b] + data[c:], data[:a] + data[b:]))


def filled(data: bytes, chance: random.Random) -> bytes:
    a = chance.randrange(len(data) + 1)
    run = bytes([chance.choice((0, 0xFF, 0x22, 0x5B, 0x39))]) * chance.choice((1, 4, 16, 256, 4096))
    return data[:a] + run + data[a + (len(run) if chance.random() < 0.7 else 0) :]


def numbered(data: bytes, chance: random.Random) -> bytes:
    """A whole number of four or eight bytes is written somewhere, with its bytes in either order."""
    number, code = chance.choice(NUMBERS), chance.choice(("<I", "<Q", ">I", ">Q"))
    size = struct.calcsize(code)
    at = chance.randrange(max(1, len(data) - size))
    return data[:at] + struct.pack(code, number % 256**size) + data[at + size :]


def digits(data: bytes, chance: random.Random) -> bytes:
    """A number that is written in digits becomes another."""
    places = [at for at, byte in enumerate(data) if 0x30 <= byte <= 0x39]
    if not places:
        return flipped(data, chance)
    at = chance.choice(places)
    return data[:at] + chance.choice((b"0", b"-1", b"9" * 9, b"9" * 20, b"1e30", b"nan", b"0.5")) + data[at + 1 :]


WAYS: list[Callable[[bytes, random.Random], bytes]] = [flipped, flipped, cut, spliced, filled, numbered, digits]


def parts_of(data: bytes) -> tuple[Any, Callable[[Any], bytes]] | None:
    """What is JSON in the file, and how the file is put together again."""
    try:
        if data[:2] == b"\x1f\x8b":
            inner = parts_of(gzip.decompress(data))
            return None if inner is None else (inner[0], lambda found: gzip.compress(inner[1](found), mtime=0))
        if data[:1] in b"{[" and data.count(b"\n") > 2 and data.endswith(b"}\n"):
            lines = [json.loads(line) for line in data.splitlines()]
            return lines, lambda found: b"".join(_written(line) + b"\n" for line in found)
        if data[:1] in b"{[":
            return json.loads(data), _written
        if data[8:9] == b"{":
            size = struct.unpack("<Q", data[:8])[0]
            rest = data[8 + size :]
            return json.loads(data[8 : 8 + size]), lambda found: _headed(found, rest)
    except (ValueError, OSError, EOFError, RecursionError, zlib.error):
        pass
    return None


def _written(found: Any) -> bytes:
    return json.dumps(found, ensure_ascii=True).encode()


def _headed(found: Any, rest: bytes) -> bytes:
    header = _written(found)
    return struct.pack("<Q", len(header)) + header + rest


def swapped(data: bytes, chance: random.Random) -> bytes:
    """One value of the JSON becomes an extreme one, that of another field, or disappears."""
    known = parts_of(data)
    if known is None:
        return flipped(data, chance)
    found, together = known
    _change(found, chance)
    try:
        return together(found)
    except (TypeError, AttributeError):
        return flipped(data, chance)


def _change(found: Any, chance: random.Random) -> None:
    places: list[tuple[Any, Any]] = []
    ahead = [found]
    while ahead:
        each = ahead.pop()
        keys = list(each) if isinstance(each, dict) else range(len(each)) if isinstance(each, list) else []
        places += [(each, key) for key in keys]
        ahead += [each[key] for key in keys]
    if not places:
        return
    (holder, key), (other, its) = chance.choice(places), chance.choice(places)
    text = holder[key]
    if isinstance(text, str) and text[:1] in ("{", "[") and chance.random() < 0.8:
        inner = json.loads(text)
        _change(inner, chance)
        holder[key] = json.dumps(inner)
        return
    match chance.randrange(4):
        case 0 | 1:
            holder[key] = chance.choice(EXTREMES)
        case 2:
            holder[key] = json.loads(json.dumps(other[its]))
        case _:
            del holder[key]


def deep(data: bytes, chance: random.Random) -> bytes:
    """Something is nested far more deeply than anybody would."""
    times = chance.choice((500, 5000, 100_000))
    nested = chance.choice((b"[" * times + b"]" * times, b'{"a":' * times + b"1" + b"}" * times, b"[" * times))
    at = data.find(chance.choice((b":", b",")))
    return nested if at < 0 or chance.random() < 0.3 else data[: at + 1] + nested + b"," + data[at + 1 :]


OF_JSON = [swapped, swapped, swapped, swapped, deep]


def repacked(data: bytes, chance: random.Random) -> bytes:
    """One entry of the archive is spoiled, is there twice, or has gone; its checksum is right."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = [(entry.filename, archive.read(entry)) for entry in archive.infolist()]
    except Exception:  # spoiled already
        return flipped(data, chance)
    if not entries:
        return flipped(data, chance)
    at = chance.randrange(len(entries))
    name, held = entries[at]
    match chance.randrange(6):
        case 0:
            entries.append((name, spoiled(held, chance)))
        case 1:
            del entries[at]
        case 2:
            entries[at] = (spoiled(name.encode(), chance).decode("latin-1").replace("\0", "0") or "x", held)
        case _:
            entries[at] = (name, spoiled(held, chance))
    made = io.BytesIO()
    way = zipfile.ZIP_STORED if chance.random() < 0.8 else zipfile.ZIP_DEFLATED
    with warnings.catch_warnings(), zipfile.ZipFile(made, "w", way) as archive:
        warnings.simplefilter("ignore")  # names that are there twice are meant
        for name, held in entries:
            archive.writestr(zipfile.ZipInfo(name), held)
    return made.getvalue()


OF_ZIPS = [repacked, repacked, repacked, repacked]
