"""What is known of the layouts of a model's taps, and when to look again.

A pass is followed operation by operation (`provenance`) until the layouts are known; later passes look them up, and
check that they fit. What the data decide anew each time, as who is sent to which expert, is followed each time.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

from torch import Tensor

from ..provenance import Layout

LOOKS = 3  # passes of new shapes that are followed, before sizes that fit are trusted


class Entry(NamedTuple):
    """One call of an activation in a pass: its tap's name, and its layout; no layout, where it is no layer."""

    name: str
    layout: Layout | None
    shape: tuple[int, ...]
    trace: int  # of the weighted operations before it
    where: str = ""  # the line of the user's that calls it
    noun: str = "unit"
    floor: float | None = None  # of a choice: at or below it, what was chosen is set to zero afterwards
    ranks: tuple[int, ...] | None = None  # of a choice: which of the chosen are used, where not all are


class Book:
    """Layouts by base name and number of the call in its pass."""

    def __init__(self) -> None:
        self._entries: dict[tuple[str, int], Entry] = {}
        self._exact: dict[tuple[str, int, tuple[int, ...]], Entry] = {}  # those that hold for their own shape alone
        self._seen: set[Hashable] = set()
        self._looks = 0  # passes followed so far
        self._perhaps = False  # whether the data may decide layouts, and have not shown it
        self.moving = False  # whether the data decide layouts
        self.asked_again = False  # something did not fit

    def wants(self, shapes: Hashable) -> bool:
        """Whether a pass on inputs of these shapes is to be followed."""
        if self.moving or self.asked_again or not self._entries:
            return True
        return self._looks < LOOKS and (self._perhaps or shapes not in self._seen)

    def begin(self, shapes: Hashable) -> None:
        """A pass is followed."""
        self._seen.add(shapes)
        self._looks += 1
        self.asked_again = False

    def note(self, base: str, number: int, entry: Entry) -> None:
        """What a followed pass found."""
        self._entries[base, number] = entry
        if entry.layout is not None and not entry.layout.fixed and not entry.layout.moves:
            self._exact[base, number, entry.shape] = entry
        if entry.layout is not None:
            self.moving |= entry.layout.moves
            self._perhaps |= entry.layout.perhaps

    def find(self, base: str, number: int, z: Tensor, points: int, trace: int) -> Entry | None:
        """The entry of a call in a pass that is not followed; None if it does not fit."""
        entry = self._entries.get((base, number))
        if self._exact:
            entry = self._exact.get((base, number, tuple(z.shape)), entry)
        if entry is None or (ANY not in (trace, entry.trace) and entry.trace != trace):
            return None
        layout = entry.layout
        if layout is None or z.shape == entry.shape or (layout.fixed and layout.fits(z, points)):
            return entry
        return None


ANY = -1  # a trace that fits all
