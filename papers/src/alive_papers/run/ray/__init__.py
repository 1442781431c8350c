"""The same cells on a Ray cluster: the driver claims and writes, the workers only train."""

from typing import TYPE_CHECKING

from alive.rooms import load_on_use

if TYPE_CHECKING:
    from .driver import run_on_ray

__all__ = ["run_on_ray"]

load_on_use(__name__)
