"""What a benchmark says: one figure a line, and whether it reached its target."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Figure:
    """A measured number; with a target, it must not be larger.

    >>> print(Figure("step time, penalty / plain", 1.021, 1.05))
    step time, penalty / plain: 1.021 (target 1.05, reached)
    """

    name: str
    value: float
    target: float | None = None

    @property
    def reached(self) -> bool:
        """Whether the target, if any, was reached."""
        return self.target is None or self.value <= self.target

    def __str__(self) -> str:
        verdict = "" if self.target is None else f" (target {self.target:g}, {'reached' if self.reached else 'MISSED'})"
        return f"{self.name}: {self.value:.3f}{verdict}"


def interleaved(
    rivals: dict[str, Callable[[], object]], rounds: int, *, clock: Callable[[], float] = time.perf_counter
) -> dict[str, float]:
    """Shortest time of each rival in seconds: all run in turn each round, so that they share the machine's moods."""
    for run in rivals.values():
        run()
    times: dict[str, list[float]] = {name: [] for name in rivals}
    for _ in range(rounds):
        for name, run in rivals.items():
            begun = clock()
            run()
            times[name].append(clock() - begun)
    return {name: min(taken) for name, taken in times.items()}
