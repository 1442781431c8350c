"""Benchmarks: ratios measured in one run, each against its target."""

from collections.abc import Callable, Iterator

from . import census, penalty
from .figure import Figure

BENCHMARKS: dict[str, Callable[[int], Iterator[Figure]]] = {"penalty": penalty.figures, "census": census.figures}

__all__ = ["BENCHMARKS", "Figure"]
