"""Limits on a census, such as "dead_units>0", for use as a test."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass

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
        """What the census has."""
        state, what = self.count.split("_")
        tally: Tally = getattr(census, what)
        counted: int = getattr(tally, state)
        return 100 * counted / max(tally.total, 1) if self.percent else counted

    def holds(self, census: Census) -> bool:
        """Whether the census is as the limit says."""
        return COMPARE[self.compare](self.value(census), self.number)
