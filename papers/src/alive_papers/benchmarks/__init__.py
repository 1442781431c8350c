"""Benchmarks: ratios measured in one run, each against its target."""

from collections.abc import Callable, Iterator

from . import census, detectors, device, farkas, fleet, folding, lab, penalty, pipeline, shrink, thin
from .figure import Figure

BENCHMARKS: dict[str, Callable[[int], Iterator[Figure]]] = {
    "penalty": penalty.figures,
    "device": device.figures,
    "census": census.figures,
    "fleet": fleet.figures,
    "farkas": farkas.figures,
    "folding": folding.figures,
    "shrink": shrink.figures,
    "pipeline": pipeline.figures,
    "thin": thin.figures,
    "lab": lab.figures,
    "detectors": detectors.figures,
}

__all__ = ["BENCHMARKS", "Figure"]
