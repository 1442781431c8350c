"""Limits on a census, such as "dead_units>0", for use as a test."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from math import inf

from ..errors import AliveError, expect_one_of
from .census import Census, Tally

COMPARE: dict[str, Callable[[float, float], bool]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
}
COUNTS = [f"{state}_{what}" for what in ("units", "points") for state in Tally._fields]


@dataclass(frozen=True, slots=True)
class Limit:
    """A count of the census compared with a number, or with a share of the whole where the number is a percentage."""

    count: str
    compare: str
    number: float
    percent: bool = False

    @classmethod
    def parse(cls, text: str) -> Limit:
        """Read "dead_units>0" or "dead_points >= 5%".

        >>> Limit.parse("dead_points >= 5%")
        Limit(count='dead_points', compare='>=', number=5.0, percent=True)
        """
        match = re.fullmatch(r"\s*(\w+)\s*(>=|<=|==|!=|>|<)\s*(\d+(?:\.\d*)?)\s*(%?)\s*", text)
        if match is None:
            raise AliveError(
                f"cannot read the limit {text!r}", 'Write a count, a comparison and a number: "dead_units>0"'
            )
        count, compare, number, percent = match.groups()
        expect_one_of("count", count, COUNTS)
        return cls(count, compare, float(number), bool(percent))

    def __str__(self) -> str:
        return f"{self.count}{self.compare}{self.number:g}{'%' * self.percent}"

    def value(self, census: Census) -> float:
        """What the census has, of what it knows."""
        return self._range(census)[0]

    def holds(self, census: Census) -> bool:
        """Whether the census is as the limit says, whatever the unknown is."""
        return self._verdicts(census) == {True}

    def is_open(self, census: Census) -> bool:
        """Whether that hangs on what is unknown."""
        return len(self._verdicts(census)) == 2

    def _range(self, census: Census) -> tuple[float, float]:
        """The least and the most it can be: the unknown may be all of it, or none."""
        state, what = self.count.split("_")
        tally: Tally = getattr(census, what)
        known: int = getattr(tally, state)
        most: float = known + (tally.unknown if state != "unknown" else 0)
        if state != "unknown" and any(unseen.counts for unseen in census.unseen):
            most = inf if what == "units" else tally.total
        total = max(tally.total, 1)
        return (100 * known / total, min(100 * most / total, 100.0)) if self.percent else (known, most)

    def _verdicts(self, census: Census) -> set[bool]:
        low, high = self._range(census)
        ends = {COMPARE[self.compare](end, self.number) for end in (low, high)}
        if self.compare in ("==", "!=") and low < self.number < high:
            return {True, False}
        return ends
