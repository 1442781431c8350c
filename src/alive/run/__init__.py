"""Run experiments: plan what is left, claim it, train it, store it."""

from .local import run
from .owner import Owner
from .plan import next_fleet
from .progress import Bar
from .ray import run_on_ray
from .store import Run, Store

__all__ = ["Bar", "Owner", "Run", "Store", "next_fleet", "run", "run_on_ray"]
