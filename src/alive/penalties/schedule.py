"""How the weight of a penalty changes over training."""

from __future__ import annotations

from dataclasses import dataclass
from math import cos, pi

from ..errors import AliveError, expect, near

SHAPES = ("constant", "linear", "cosine")
COURSE = "A weight that changes over training is alive.Schedule(start, end, shape='linear')"


@dataclass(frozen=True, slots=True)
class Schedule:
    """A weight that goes from `start` to `end` while training goes from 0 to 1.

    >>> [round(Schedule(1e-4, 0.0, shape="cosine")(t), 7) for t in (0.0, 0.5, 1.0)]
    [0.0001, 5e-05, 0.0]
    """

    start: float
    end: float | None = None
    shape: str = "constant"

    def __post_init__(self) -> None:
        for name, value in (("weight", self.start), ("end", self.end)):
            if not (_is_number(value) or (name == "end" and value is None)):
                raise AliveError(f"{name} must be a number, got {value!r}", COURSE)
        moving = self.shape in SHAPES[1:]
        expect(
            [
                (self.shape in SHAPES, f"unknown schedule shape {self.shape!r}: {near(self.shape, SHAPES)}"),
                (0 <= self.start < float("inf"), f"weight must be finite and not negative, got {self.start}"),
                (
                    not moving or self.end is not None,
                    f"a {self.shape} schedule needs an end: Schedule(start, end, shape)",
                ),
                (
                    self.end is None or 0 <= self.end < float("inf"),
                    f"end must be finite and not negative, got {self.end}",
                ),
                (moving or self.end is None, "a constant schedule has no end; say shape='linear' or 'cosine'"),
            ]
        )

    def __call__(self, progress: float) -> float:
        """The weight at a fraction of training, clipped to [0, 1]."""
        if self.end is None:
            return self.start
        t = min(max(progress, 0.0), 1.0)
        done = t if self.shape == "linear" else (1 - cos(pi * t)) / 2
        return self.start + (self.end - self.start) * done


def _is_number(value: object) -> bool:
    """Whether it is one number, of Python, numpy or torch."""
    try:
        float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, RuntimeError):
        return False
    return not isinstance(value, str)
