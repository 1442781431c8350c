"""What the end of a parquet file says that its columns hold, read here: pyarrow ends the program if it is damaged.

Equal values in a row take no room in such a file, so that it may hold far more than its size tells.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

from ..gate import Allowance

MAGIC = b"PAR1"
LISTED, PLAIN = 48, 8  # bytes of a number on its way: in a list of Python, and in an array
ROW_GROUPS, CHUNKS, ABOUT, NAMES, VALUES, UNPACKED = 4, 1, 3, 3, 5, 6  # the numbers of these fields in the format


def count(allowance: Allowance, path: Path) -> None:
    """Count all that a file says it holds."""
    for group in _footer(path).get(ROW_GROUPS, []):
        for chunk in group.get(CHUNKS, []):
            told = chunk.get(ABOUT)
            if told is None:
                raise ValueError("a column has no description")
            name = b".".join(told[NAMES]).decode("utf-8", "replace")
            each = LISTED if len(told[NAMES]) > 1 else PLAIN
            allowance.take(max(told[UNPACKED], 0) + max(told[VALUES], 0) * each, name)


def _footer(path: Path) -> dict[int, Any]:
    with path.open("rb") as file:
        file.seek(-8, 2)
        size = int.from_bytes(file.read(4), "little")
        if file.read(4) != MAGIC or size > path.stat().st_size - 8:
            raise ValueError("it does not end as a parquet file does, or is encrypted")
        file.seek(-8 - size, 2)
        return _Compact(file.read(size)).record()


class _Compact:
    """Thrift's compact protocol: records of numbered fields."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def record(self) -> dict[int, Any]:
        """Fields by their numbers."""
        found: dict[int, Any] = {}
        number = 0
        while (head := self._take(1)[0]) != 0:
            number = number + (head >> 4) if head >> 4 else self._whole()
            found[number] = self._value(head & 15)
        return found

    def _value(self, kind: int) -> Any:
        match kind:
            case 1 | 2:
                return kind == 1
            case 3:
                return self._take(1)[0]
            case 4 | 5 | 6:
                return self._whole()
            case 7:
                return struct.unpack("<d", self._take(8))[0]
            case 8:
                return self._take(self._number())
            case 9 | 10:
                head = self._take(1)[0]
                size = head >> 4 if head >> 4 < 15 else self._number()
                return [self._element(head & 15) for _ in range(self._at_most(size))]
            case 11:
                size = self._at_most(self._number())
                kinds = self._take(1)[0] if size else 0
                return {repr(self._element(kinds >> 4)): self._element(kinds & 15) for _ in range(size)}
            case 12:
                return self.record()
        raise ValueError(f"its description has a value of an unknown kind: {kind}")

    def _element(self, kind: int) -> Any:
        """A value in a list, where truth takes a byte of its own."""
        return self._take(1)[0] == 1 if kind in (1, 2) else self._value(kind)

    def _at_most(self, size: int) -> int:
        if size > len(self._data) - self._at:
            raise ValueError("its description is cut short")
        return size

    def _take(self, size: int) -> bytes:
        self._at += self._at_most(size)
        return self._data[self._at - size : self._at]

    def _number(self) -> int:
        found = shift = 0
        while True:
            byte = self._take(1)[0]
            found |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return found
            if shift > 63:
                raise ValueError("its description has a number that is too long")

    def _whole(self) -> int:
        found = self._number()
        return found >> 1 ^ -(found & 1)
