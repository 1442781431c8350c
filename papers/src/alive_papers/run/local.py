"""Run cells on this machine: claim, train, write, until nothing is left to do."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from contextlib import nullcontext
from functools import partial

from alive.errors import expect
from alive.processes import Owner, cores
from alive.store import heart

from ..experiments import Cell, Row
from .fleets import next_fleet, shared
from .nets import run_nets
from .progress import Bar, Share
from .store import Store
from .work import cost_of, room_for, train_as_supplied

LOOK = 0.5  # seconds between two looks at what others are doing
TOLD = 2**28  # bytes of memory from which on a run says what it takes
Begin = Callable[..., None]  # shows how much is done; takes the keys that are told of otherwise


def run(cells: Sequence[Cell], store: Store, *, threads: int | None = None, bar: Bar | None = None) -> int:
    """Bring every cell into the store; returns how many were trained here.

    What is stored is skipped. Other processes on the same store share the work; what a dead one held is taken over.
    Ctrl-C keeps what is finished.
    """
    expect([(threads is None or threads >= 1, f"threads must be at least 1, got {threads}")])
    threads = threads or cores()
    wanted = {cell.key: cell for cell in cells}
    fleets = {key: cell for key, cell in wanted.items() if cell.engine.together}
    nets = [cell for key, cell in wanted.items() if key not in fleets]
    done = store.finished(fleets)
    room = room_for((cell for key, cell in fleets.items() if key not in done), threads)
    with bar or nullcontext():
        if bar is not None and room >= TOLD:
            bar.say(f"networks at once: {threads}, which take up to {room / 2**30:.1f} GiB of memory")
        try:
            begin = partial(_begin, bar, wanted, store)
            begin()
            trained = _run_fleets(fleets, store, threads, bar, begin)
            begin()
            return trained + (run_nets(nets, store, threads=threads, bar=bar) if nets else 0)
        except KeyboardInterrupt:
            raise KeyboardInterrupt("what is finished is stored; the same command goes on from there") from None


def _begin(bar: Bar | None, wanted: dict[str, Cell], store: Store, but: Collection[str] = ()) -> None:
    """Show how much of all is done, but for cells that are told of one by one."""
    if bar is not None:
        done = store.finished(wanted).difference(but)
        bar.begin(len(wanted), cost_of(wanted.values()), cost_of(wanted[key] for key in done), len(done))


def _run_fleets(wanted: dict[str, Cell], store: Store, threads: int, bar: Bar | None, begin: Begin) -> int:
    """Train the cells of one data set after the other's, until every cell is stored."""
    owner, trained = Owner.me(), 0
    with heart(store, owner):
        try:
            while wanted.keys() - store.finished(wanted):
                supply = _Supply(wanted, store, owner, threads, bar, begin)
                if supply.first:
                    trained += supply.train()
                else:
                    time.sleep(LOOK)  # other processes hold the rest: they finish it, or die
        finally:
            store.release(owner)
    return trained


class _Supply:
    """Claims cells that share a data set for a fleet, some at a time, and writes their rows as they end."""

    def __init__(
        self, wanted: dict[str, Cell], store: Store, owner: Owner, threads: int, bar: Bar | None, begin: Begin
    ) -> None:
        self._wanted, self._store, self._owner, self._threads = wanted, store, owner, threads
        self._begin, self._share = begin, None if bar is None else Share(bar)
        self._cells: list[Cell] = []
        self._written = 0
        self.first = self._claim(list(wanted.values()))

    def train(self) -> int:
        """Train all that can be claimed; returns how many rows were written."""
        if train_as_supplied(self, self.first[0], threads=self._threads, progress=self._share):
            raise KeyboardInterrupt
        return self._written

    def more(self) -> list[Cell]:
        """The first, then what is left of the same data set."""
        some = [] if self._cells else self.first
        if self._cells:
            some = self._claim([cell for cell in self._wanted.values() if shared(cell) == shared(self.first[0])])
        self._cells += some
        if some and self._share is not None:
            self._begin({cell.key for cell in self._cells})
            self._share.grow(cost_of(some))
        return some

    def ended(self, rows: Sequence[Row], seconds: Sequence[float]) -> None:
        """Write them."""
        self._store.write(rows, seconds=seconds)
        self._written += len(rows)
        if self._share is not None:
            self._share.ended(cost_of(row.cell for row in rows), sum(row.member.epochs for row in rows))

    def _claim(self, cells: Sequence[Cell]) -> list[Cell]:
        """Claim some of the cells: first of those nobody holds, then of those of dead processes."""
        done, held = self._store.finished(cell.key for cell in cells), self._store.claimed()
        ahead = [cell for cell in cells if cell.key not in done]
        free = [cell for cell in ahead if cell.key not in held]
        some = next_fleet(free or ahead, self._threads)
        mine = self._store.claim([cell.key for cell in some], self._owner)
        return [cell for cell in some if cell.key in mine]
