"""The numbers that come with the package, as `alive report --record` measured them in a store."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

from alive.errors import AliveError
from alive.files import write_atomically

from .spec import Measured

OURS = "recorded.json"


@dataclass(frozen=True, slots=True)
class Made:
    """When a number was made (the day its last network ended), on what kind of machine, with which versions."""

    date: str
    hardware: str
    versions: str


@dataclass(frozen=True, slots=True)
class Recorded:
    """One claim's number, measured on a run that was complete; `cells` is the digest of one seed's settings."""

    experiment: str
    claim: str
    scale: str
    architecture: str
    seeds: int
    networks: int
    measured: Measured
    made: Made
    command: str
    cells: str

    @property
    def place(self) -> tuple[str, str, str, str]:
        """Which experiment and claim it belongs to."""
        return self.experiment, self.claim, self.scale, self.architecture

    @property
    def rank(self) -> tuple[int, str]:
        """Of two numbers for one place the one with more seeds counts, then the newer one."""
        return self.seeds, self.made.date


@dataclass(frozen=True, slots=True)
class Book:
    """All that is recorded: numbers, and by the names of networks FLOP of a forward pass, slow to count."""

    numbers: tuple[Recorded, ...] = ()
    forward: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path | None = None) -> Book:
        """Read a file, by default the one that comes with the package; where there is none, nothing is recorded."""
        file = files(__package__) / OURS if path is None else path
        try:
            text = file.read_text(encoding="utf-8")
        except FileNotFoundError:
            return cls()
        except (OSError, UnicodeDecodeError) as error:
            raise AliveError(f"cannot read {file}: {error}", "Name another file") from None
        try:
            found = json.loads(text)
            return cls(tuple(map(_number, found["numbers"])), dict(found["forward"]))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            cure = "Remove it, and make it anew with `alive report --record`"
            raise AliveError(f"{file} holds no recorded numbers: {error!r}", cure) from None

    def write(self, path: Path) -> None:
        """Write the file, the same for the same book."""
        numbers = [asdict(number) for number in sorted(self.numbers, key=lambda each: each.place)]
        forward = dict(sorted(self.forward.items()))
        text = json.dumps({"numbers": numbers, "forward": forward}, indent=1, ensure_ascii=False, allow_nan=False)
        write_atomically(path, f"{text}\n".encode())


def best(numbers: Iterable[Recorded], stale: Callable[[Recorded], bool]) -> tuple[Recorded, ...]:
    """One number for each place: of those that are not stale, if there are any, the first of the best ranked."""
    kept: dict[tuple[str, str, str, str], tuple[tuple[bool, int, str], Recorded]] = {}
    for number in numbers:
        rank = not stale(number), *number.rank
        if number.place not in kept or rank > kept[number.place][0]:
            kept[number.place] = rank, number
    return tuple(number for _, number in kept.values())


def _number(record: dict[str, Any]) -> Recorded:
    return Recorded(**record | {"measured": Measured(**record["measured"]), "made": Made(**record["made"])})
