"""Benchmarks: ratios measured in one run, each against its target."""

from collections.abc import Callable, Iterator

from . import census, fleet, penalty
from .figure import Figure

BENCHMARKS: dict[str, Callable[[int], Iterator[Figure]]] = {
    "penalty": penalty.figures,
    "census": census.figures,
    "fleet": fleet.figures,
}

__all__ = ["BENCHMARKS", "Figure"]
