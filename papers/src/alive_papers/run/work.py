"""Train cells that share an engine and a data set, and make their rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol, cast

from alive.data import Data
from alive.errors import AliveError

from ..experiments import Cell, Row
from ..fleet import Ended, FleetProgress, Member, expect_fit, train_supply


@dataclass(frozen=True, slots=True, eq=False)
class Worked:
    """Rows of the networks that have ended, the seconds of all, and whether Ctrl-C came."""

    rows: list[Row]
    seconds: float
    interrupted: bool


class Supply(Protocol):
    """Hands out cells of one engine and data set, and takes the rows of those that have ended."""

    def more(self) -> Sequence[Cell]:
        """What to train next; if there is none, the fleet ends."""

    def ended(self, rows: Sequence[Row], seconds: Sequence[float]) -> None:
        """Rows, and how long each took."""


def train_cells(cells: Sequence[Cell], *, threads: int = 1, progress: FleetProgress | None = None) -> Worked:
    """Train them by their engine, as many at once as it can on so many threads; says so if memory runs out."""
    for cell in cells:
        _expect_revision(cell)
    with _memory_told(cells):
        done = cells[0].engine.train(
            [cell.member for cell in cells], _data(cells[0]), threads=threads, progress=progress
        )
    pairs = zip(cells, done.outcomes, strict=True)
    rows = [Row.of(cell, outcome) for cell, outcome in pairs if outcome is not None]
    return Worked(rows, done.seconds, done.interrupted)


def train_as_supplied(supply: Supply, like: Cell, *, threads: int, progress: FleetProgress | None = None) -> bool:
    """Train in one fleet all that is handed out, on the data of a cell `like` it; returns whether Ctrl-C came."""
    members = _Members(supply)
    with _memory_told(members.cells):
        return train_supply(members, _data(like), threads=threads, progress=progress)


class _Members:
    """The members of the cells that are handed out, for a fleet."""

    def __init__(self, supply: Supply) -> None:
        self._supply = supply
        self.cells: list[Cell] = []

    def more(self) -> list[Member]:
        some = self._supply.more()
        for cell in some:
            _expect_revision(cell)
        self.cells += some
        return [cast(Member, cell.member) for cell in some]

    def ended(self, some: Sequence[Ended]) -> None:
        whole = [each for each in some if each.result.finished]
        rows = [Row.of(self.cells[each.number], each.result) for each in whole]
        self._supply.ended(rows, [each.seconds for each in whole])


def _expect_revision(cell: Cell) -> None:
    if cell.revision != cell.engine.revision:
        raise AliveError(
            f"{cell.label} asks for revision {cell.revision} of the engine {cell.engine.name}; "
            f"here it is {cell.engine.revision}",
            "Install the same alive everywhere, and ask for the cell anew",
        )


@contextmanager
def _memory_told(cells: Sequence[Cell]) -> Iterator[None]:
    """One clear error if memory runs out while cells are trained."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, MemoryError) or "memory" in str(error):
            raise AliveError(
                f"no memory left to train {said(cells)}; finished rows are kept",
                "Ask for fewer --threads or a smaller scale, or give it more memory, and run again",
            ) from None
        raise


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
