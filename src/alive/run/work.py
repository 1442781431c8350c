"""Train cells that share an engine and a data set, and make their rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import cast

from ..data import Data
from ..errors import AliveError
from ..experiments import Cell, Row
from ..train.fleet import FleetProgress, Member, expect_fit


@dataclass(frozen=True, slots=True, eq=False)
class Worked:
    """Rows of the networks that have ended, the seconds of all, and whether Ctrl-C came."""

    rows: list[Row]
    seconds: float
    interrupted: bool


def train_cells(cells: Sequence[Cell], *, threads: int = 1, progress: FleetProgress | None = None) -> Worked:
    """Train them by their engine, as many at once as it can on so many threads; says so if memory runs out."""
    engine = cells[0].engine
    if old := next((cell for cell in cells if cell.revision != engine.revision), None):
        raise AliveError(
            f"{old.label} asks for revision {old.revision} of the engine {engine.name}; here it is {engine.revision}",
            "Install the same alive everywhere, and ask for the cell anew",
        )
    try:
        done = engine.train([cell.member for cell in cells], _data(cells[0]), threads=threads, progress=progress)
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, MemoryError) or "memory" in str(error):
            raise AliveError(
                f"no memory left to train {said(cells)}; finished rows are kept",
                "Ask for fewer --threads or a smaller scale, or give it more memory, and run again",
            ) from None
        raise
    pairs = zip(cells, done.outcomes, strict=True)
    rows = [Row.of(cell, outcome) for cell, outcome in pairs if outcome is not None]
    return Worked(rows, done.seconds, done.interrupted)


def room_for(cells: Iterable[Cell], threads: int) -> int:
    """Bytes that those of a fleet take, so many at once; refuses what does not fit before anything is trained."""
    sets: dict[tuple[object, ...], list[Cell]] = {}
    for cell in cells:
        sets.setdefault(cell.source, []).append(cell)
    found = (
        expect_fit([cast(Member, cell.member) for cell in some], _data(some[0]), threads=threads)
        for some in sets.values()
    )
    return max(found, default=0)


def said(cells: Sequence[Cell]) -> str:
    """Some cells in words, by the first of them."""
    first = cells[0]
    more = f" and {len(cells) - 1} more" if len(cells) > 1 else ""
    return f"{first.label} {first.member.depth}x{first.member.width}{more}"


def cost_of(cells: Iterable[Cell]) -> float:
    """About so many seconds of one core, all together."""
    return sum(cell.cost for cell in cells)


_KEPT: dict[tuple[object, ...], Data] = {}  # the data of the cell just trained, as the next one likely needs the same


def _data(cell: Cell) -> Data:
    """Its data, read once a process."""
    if cell.source not in _KEPT:
        _KEPT.clear()
        _KEPT[cell.source] = cell.load()
    return _KEPT[cell.source]
