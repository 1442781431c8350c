"""What is known of the layouts of a model's taps, and when to look again.

A pass is followed operation by operation (`provenance`) until one goes the way of another before it; from then on a
pass looks layouts up where its trace is that of one that was followed. What the data decide anew each time, as who is
sent to which expert, is followed each time.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple

from torch import Tensor

from ..provenance import Grid, Layout, Pairing
from .trace import Look, Mark

LOOKS = 3  # passes of new shapes that are followed, before what they have in common is trusted
AGAIN = 32  # the most passes that are followed because one did not fit
TRACES = 64  # that are kept of a call
OTHERWISE = "the model went another way in this pass than in those that were followed"


class Entry(NamedTuple):
    """One call of an activation in a pass: its tap's name, and its layout; no layout, where it is no layer."""

    name: str
    layout: Layout | None
    shape: tuple[int, ...]
    points: int  # of the pass
    mark: Mark | None  # of the pass before it; None where that is not seen
    where: str = ""  # the line of the user's that calls it
    noun: str = "unit"
    floor: float | None = None  # of a choice: at or below it, what was chosen is set to zero afterwards
    ranks: tuple[int, ...] | None = None  # of a choice: which of the chosen are used, where not all are
    inputs: int = 0  # bits of the inputs that its points are of
    several: bool = False  # whether the layer is met in several calls, each with points of its own

    def fits(self, z: Tensor, points: int) -> bool:
        """Whether another tensor can lie as this one did."""
        layout = self.layout
        same = z.shape == self.shape and points == self.points
        return layout is None or same or (layout.fixed and layout.fits(z, points))


class Book:
    """Layouts by base name and number of the call in its pass, and by the trace that leads to it."""

    def __init__(self, pairing: Pairing) -> None:
        self.pairing = pairing  # of the inputs
        self._entries: dict[tuple[str, int], dict[Mark | None, tuple[Entry, Look]]] = {}
        self._seen: set[Hashable] = set()
        self._look = Look((), [])
        self._looks = 0  # passes followed so far
        self._is_new = True  # whether the last of them went a way of its own
        self._knows_shapes = False
        self._again = 0  # passes that are to be followed because one did not fit
        self._misses = 0
        self._shapes: Hashable = None
        self.moving = False  # whether the data decide layouts
        self.missed = False  # something in this pass did not fit

    def wants(self, shapes: Hashable, *, one_way: bool = False) -> bool:
        """Whether a pass that begins, on inputs of these shapes, is to be followed; it may have but one way to go."""
        self._shapes, self.missed = shapes, False
        if self.moving or self._again > 0 or not self._entries or (self._is_new and not one_way):
            return True
        return self._looks < LOOKS and shapes not in self._seen

    def begin(self, look: Look) -> None:
        """The pass is followed."""
        self._knows_shapes = self._shapes in self._seen
        self._seen.add(self._shapes)
        self._look, self._is_new = look, not self._entries
        self._looks += 1
        self._again -= self._again > 0

    def miss(self) -> None:
        """A call did not fit: the next passes are followed, the more the more often that happens."""
        if not self.missed:
            self.missed = True
            self._misses += 1
            self._again = max(self._again, min(2**self._misses, AGAIN))

    def note(self, base: str, number: int, entry: Entry) -> None:
        """What a followed pass found."""
        known = self._entries.setdefault((base, number), {})
        self._is_new |= not self._has(known, entry.mark)
        known.pop(entry.mark, None)
        known[entry.mark] = (entry, self._look)
        if len(known) > TRACES:
            del known[next(iter(known))]
        if entry.layout is not None:
            self.moving |= entry.layout.moves

    def _has(self, known: Mapping[Mark | None, Any], mark: Mark | None) -> bool:
        """Whether a pass went this way before; on inputs of other shapes, but for its numbers."""
        if self._knows_shapes or mark is None:
            return mark in known
        return any(m is not None and m[::2] == mark[::2] for m in known)

    def is_one_of_several(self, base: str, number: int) -> None:
        """A later call of the pass brings more points to the layer of this one."""
        known = self._entries[base, number]
        mark, (entry, look) = next(reversed(known.items()))
        known[mark] = (entry._replace(several=True), look)

    def knows(self, base: str, number: int) -> bool:
        """Whether a followed pass met this call."""
        return (base, number) in self._entries

    def find(
        self, base: str, number: int, z: Tensor, points: int, mark: Mark | None, look: Look | None = None
    ) -> Entry | None:
        """The entry of a call in a pass that is not followed; None if it does not fit."""
        known = self._entries.get((base, number))
        if not known:
            return None
        if mark is None or look is None:  # nothing is seen of what leads there
            fit = [entry for entry, _ in reversed(known.values()) if entry.fits(z, points)]
            return next((entry for entry in fit if entry.shape == z.shape), fit[0] if fit else None)
        same = known.get(mark)
        if same is not None:
            return same[0] if same[0].fits(z, points) else None
        return None if self._shapes in self._seen else _alike(known, z, points, mark, look)


def _alike(
    known: dict[Mark | None, tuple[Entry, Look]], z: Tensor, points: int, mark: Mark, look: Look
) -> Entry | None:
    """The entry of a pass on inputs of other sizes, whose trace is the same but for numbers that the sizes explain."""
    found = [pair for m, pair in known.items() if m is not None and m[::2] == mark[::2]]
    found = [(e, before) for e, before in found if not _shows_little(e.layout)]
    entry = found[-1][0] if found else None
    if entry is None or not entry.fits(z, points) or len({(e.name, _place(e)) for e, _ in found}) > 1:
        return None
    looks = [before for _, before in found]
    sizes = [*(before.sizes for before in looks), look.sizes]
    for k in range(mark.length):
        numbers = [*(before.numbers[k] for before in looks), look.numbers[k]]
        if len(set(numbers)) > 1 and not _explains(numbers, sizes):
            return None
    return entry


def _shows_little(layout: Layout | None) -> bool:
    """Whether any axis would do for the points, or the units, because there is one."""
    return layout is not None and isinstance(layout.place, Grid) and not layout.fixed


def _place(entry: Entry) -> Hashable:
    """What of a layout holds for other sizes too."""
    layout = entry.layout
    return None if layout is None else (layout.place if layout.fixed else None, layout.points, layout.units)


def _explains(values: Sequence[int], sizes: Sequence[tuple[int, ...]]) -> bool:
    """Whether one size of the inputs, or a product of two, says what a number is, up to a factor or a term."""
    if len({len(each) for each in sizes}) > 1:
        return False
    columns = list(zip(*sizes, strict=True))
    products = [tuple(a * b for a, b in zip(c, d, strict=True)) for c in columns for d in columns]
    for column in (*columns, *products):
        rates = {v / n for v, n in zip(values, column, strict=True) if n}
        steps = {v - n for v, n in zip(values, column, strict=True)}
        if len(set(column)) > 1 and (len(rates) == 1 or len(steps) == 1):
            return True
    return False
