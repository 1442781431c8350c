"""The same cells on a Ray cluster: the driver claims and writes, the workers only train."""

from .driver import run_on_ray

__all__ = ["run_on_ray"]
