"""From cells to fleets: what is to be trained next, in groups that cost alike."""

from __future__ import annotations

from collections.abc import Iterable

from ..experiments import Cell

FLEET_COST = 8.0  # about so many seconds of one core and thread that are claimed at once, or a single network
FLEET_SIZE = 16  # and at most so many networks a thread


def next_fleet(cells: Iterable[Cell], threads: int) -> list[Cell]:
    """The costliest cell and those most like it: as many as take some seconds, on one data set.

    The costliest come first, so that no core waits long at the end.

    >>> from alive_papers.fleet import Member
    >>> cells = [Cell(Member(depth, 4)) for depth in (1, 90, 100, 2)]
    >>> [cell.member.depth for cell in next_fleet(cells, threads=2)]
    [100, 90, 2, 1]
    """
    ahead = sorted(cells, key=lambda cell: -cell.cost)
    fleet: list[Cell] = []
    for cell in ahead:
        if shared(cell) != shared(ahead[0]):
            continue
        full = len(fleet) >= threads * FLEET_SIZE or sum(c.cost for c in fleet) + cell.cost > threads * FLEET_COST
        if full and fleet:
            break
        fleet.append(cell)
    return fleet


def shared(cell: Cell) -> tuple[object, ...]:
    """The engine, and all that decides which points a cell is trained and tested on: a fleet has one data set."""
    return cell.member.engine, *cell.source
