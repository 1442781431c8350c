"""From cells to fleets: what is still to do, in groups that cost alike."""

from __future__ import annotations

from collections.abc import Iterable

from ..experiments import Cell

FLEET_COST = 8.0  # about so many seconds of one core a fleet and thread: what a kill may lose
FLEET_SIZE = 16  # and at most so many networks a thread


def next_fleet(cells: Iterable[Cell], threads: int) -> list[Cell]:
    """The costliest cell and those most like it: as many as end together after some seconds, on one data set.

    The costliest come first, so that the last fleet is a short one and no core waits long at the end.

    >>> from alive.train.fleet import Member
    >>> cells = [Cell(Member(depth, 4)) for depth in (1, 90, 100, 2)]
    >>> [cell.member.depth for cell in next_fleet(cells, threads=2)]
    [100, 90, 2, 1]
    """
    ahead = sorted(cells, key=lambda cell: -cell.cost)
    fleet: list[Cell] = []
    for cell in ahead:
        if _shared(cell) != _shared(ahead[0]):
            continue
        full = len(fleet) >= threads * FLEET_SIZE or sum(c.cost for c in fleet) + cell.cost > threads * FLEET_COST
        if full and len(fleet) >= threads:
            break
        fleet.append(cell)
    return fleet


def _shared(cell: Cell) -> tuple[object, ...]:
    """The engine, and all that decides which points a cell is trained and tested on: a fleet has one data set."""
    return cell.member.engine, *cell.source
