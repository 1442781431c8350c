"""Run experiments: find what is left to do, claim it, train it, store it."""

from typing import TYPE_CHECKING

from alive.rooms import load_on_use

if TYPE_CHECKING:
    from alive.processes import Owner

    from .fleets import next_fleet
    from .local import run
    from .progress import Bar
    from .ray import run_on_ray
    from .store import Run, Store

__all__ = ["Bar", "Owner", "Run", "Store", "next_fleet", "run", "run_on_ray"]

load_on_use(__name__)
