"""Run cells on this machine: claim, train, write, until nothing is left to do."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress

from ..data import load
from ..errors import AliveError, expect
from ..experiments import Cell, Row
from ..train.fleet import train_fleet
from .owner import BEAT, Owner
from .place import cores
from .plan import next_fleet
from .progress import Bar, Share
from .store import Store

LOOK = 0.5  # seconds between two looks at what others are doing


def run(cells: Sequence[Cell], store: Store, *, threads: int | None = None, bar: Bar | None = None) -> int:
    """Bring every cell into the store; returns how many were trained here.

    What is stored is skipped. Other processes on the same store share the work; what a dead one held is taken over.
    Ctrl-C keeps what is finished.
    """
    expect([(threads is None or threads >= 1, f"threads must be at least 1, got {threads}")])
    threads = threads or cores()
    wanted = {cell.key: cell for cell in cells}
    owner, trained = Owner.me(), 0
    with bar or nullcontext(), _heart(store, owner):
        try:
            while ahead := wanted.keys() - (done := store.finished(wanted)):
                if bar is not None:
                    bar.begin(len(wanted), _cost(cells), _cost(wanted[key] for key in done), len(done))
                if mine := _claim(store, owner, [cell for key, cell in wanted.items() if key in ahead], threads):
                    trained += _train(store, mine, threads, bar)
                else:
                    time.sleep(LOOK)  # the rest is in the hands of others: it ends, or they die
        except KeyboardInterrupt:
            raise KeyboardInterrupt("what is finished is stored; the same command goes on from there") from None
        finally:
            store.release(owner)
    return trained


def _claim(store: Store, owner: Owner, ahead: Sequence[Cell], threads: int) -> list[Cell]:
    """A fleet of cells that nobody else has; first those nobody holds, then those of the dead."""
    held = store.claimed()
    free = [cell for cell in ahead if cell.key not in held]
    fleet = next_fleet(free or ahead, threads)
    mine = store.claim([cell.key for cell in fleet], owner)
    return [cell for cell in fleet if cell.key in mine]


def _train(store: Store, cells: Sequence[Cell], threads: int, bar: Bar | None) -> int:
    """Train one fleet and write the rows of those that came to their end."""
    share = None if bar is None else Share(bar, _cost(cells))
    fleet = train_fleet([cell.member for cell in cells], load(cells[0].data), threads=threads, progress=share)
    finished = set(map(id, fleet.finished))
    rows = [Row.of(cell, done) for cell, done in zip(cells, fleet.members, strict=True) if id(done) in finished]
    store.write(rows, seconds=fleet.seconds / len(cells))
    if fleet.interrupted:
        raise KeyboardInterrupt
    return len(rows)


def _cost(cells: Iterable[Cell]) -> float:
    return sum(cell.cost for cell in cells)


@contextmanager
def _heart(store: Store, owner: Owner) -> Iterator[None]:
    """Beat while the work goes on, through a connection of its own."""
    still = threading.Event()

    def beat() -> None:
        with suppress(AliveError), Store(store.path) as own:  # a missed beat only matters on other hosts
            while not still.wait(BEAT):
                own.beat(owner)

    heart = threading.Thread(target=beat, daemon=True)
    heart.start()
    try:
        yield
    finally:
        still.set()
        heart.join()
