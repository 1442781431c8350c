"""Run cells on this machine: claim, train, write, until nothing is left to do."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext

from ..errors import expect
from ..experiments import Cell
from .fleets import next_fleet
from .heart import heart
from .machine import cores
from .nets import run_nets
from .owner import Owner
from .progress import Bar, Share
from .store import Store
from .work import cost_of, room_for, train_cells

LOOK = 0.5  # seconds between two looks at what others are doing
TOLD = 2**28  # bytes of memory from which on a run says what it takes


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
            _begin(bar, wanted, store)
            trained = _run_fleets(fleets, store, threads, bar, lambda: _begin(bar, wanted, store))
            return trained + (run_nets(nets, store, threads=threads, bar=bar) if nets else 0)
        except KeyboardInterrupt:
            raise KeyboardInterrupt("what is finished is stored; the same command goes on from there") from None


def _begin(bar: Bar | None, wanted: dict[str, Cell], store: Store) -> None:
    """Show how much of all is done."""
    if bar is not None:
        done = store.finished(wanted)
        bar.begin(len(wanted), cost_of(wanted.values()), cost_of(wanted[key] for key in done), len(done))


def _run_fleets(wanted: dict[str, Cell], store: Store, threads: int, bar: Bar | None, begin: Callable[[], None]) -> int:
    """Claim, train and write fleets until every cell is stored."""
    owner, trained = Owner.me(), 0
    with heart(store, owner):
        try:
            while ahead := wanted.keys() - store.finished(wanted):
                begin()
                if mine := _claim(store, owner, [cell for key, cell in wanted.items() if key in ahead], threads):
                    trained += _train(store, mine, threads, bar)
                else:
                    time.sleep(LOOK)  # other processes hold the rest: they finish it, or die
        finally:
            store.release(owner)
    return trained


def _claim(store: Store, owner: Owner, ahead: Sequence[Cell], threads: int) -> list[Cell]:
    """Claim a fleet of cells: first those nobody holds, then those of dead processes."""
    held = store.claimed()
    free = [cell for cell in ahead if cell.key not in held]
    fleet = next_fleet(free or ahead, threads)
    mine = store.claim([cell.key for cell in fleet], owner)
    return [cell for cell in fleet if cell.key in mine]


def _train(store: Store, cells: Sequence[Cell], threads: int, bar: Bar | None) -> int:
    """Train one fleet and write the rows of those that have ended."""
    share = None if bar is None else Share(bar, cost_of(cells))
    done = train_cells(cells, threads=threads, progress=share)
    store.write(done.rows, seconds=done.seconds / len(cells))
    if done.interrupted:
        raise KeyboardInterrupt
    return len(done.rows)
