"""What `revive` did: which units were reset, whether exactly, and what was left as it was and why."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Reset:
    """Units of one layer that were reset.

    layer    as the census names it
    readers  the weights that read them
    exact    whether the model's function stays the same on data on which they are dead
    """

    layer: str
    units: tuple[int, ...]
    readers: tuple[str, ...]
    exact: bool

    def __str__(self) -> str:
        told = "the function stays the same" if self.exact else "the function changes"
        readers = f", read by {', '.join(self.readers)}" if self.readers else ""
        return f"{self.layer}: {said(self.units)} reset{readers}; {told}"


@dataclass(frozen=True, slots=True)
class Left:
    """Units of one layer that were left as they were, and why."""

    layer: str
    units: tuple[int, ...]
    why: str

    def __str__(self) -> str:
        return f"{self.layer}: {said(self.units)} left: {self.why}"


@dataclass(frozen=True, slots=True)
class Revival:
    """What was reset and what was not.

    difference  the largest change of an output on the first batch of the data, relative to the largest output; None
                without data
    asleep      how many of the units that were reset are still dead on the data, because their new weights fell badly
    notes       state of the optimiser that could not be reset in part
    """

    reset: tuple[Reset, ...]
    left: tuple[Left, ...] = ()
    difference: float | None = None
    asleep: int | None = None
    notes: tuple[str, ...] = ()

    @property
    def units(self) -> int:
        """How many units were reset."""
        return sum(len(each.units) for each in self.reset)

    @property
    def exact(self) -> bool:
        """Whether the model is the same function as before on data on which the units are dead."""
        return all(each.exact for each in self.reset)

    def __str__(self) -> str:
        lines = [*map(str, self.reset), *map(str, self.left), *self.notes]
        if self.difference is not None:
            lines.append(f"on the data outputs changed by {self.difference:.2g} of the largest")
        if self.asleep:
            lines.append(f"{self.asleep} of the units are dead still")
        return "\n".join(lines) or "no unit was asked for"


def said(units: tuple[int, ...]) -> str:
    """Units for a sentence.

    >>> said((3,)), said(tuple(range(9)))
    ('unit 3', '9 units (0, 1, 2, 3, ...)')
    """
    if len(units) == 1:
        return f"unit {units[0]}"
    shown = ", ".join(map(str, units[:4])) + ", ..." * (len(units) > 4)
    return f"{len(units)} units ({shown})"
