"""The heartbeat of a process at work on a store."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from ..errors import AliveError
from ..processes import Owner
from .database import Database

BEAT = 5.0  # seconds between two heartbeats


@contextmanager
def heart(store: Database, owner: Owner) -> Iterator[None]:
    """Beat while the work goes on, through a connection of its own."""
    still = threading.Event()

    def beat() -> None:
        with suppress(AliveError), type(store)(store.path) as own:  # a missed beat only matters on other hosts
            while not still.wait(BEAT):
                own.beat(owner)

    heart = threading.Thread(target=beat, daemon=True)
    heart.start()
    try:
        yield
    finally:
        still.set()
        heart.join()
