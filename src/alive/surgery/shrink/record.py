"""What was removed from a network, on what ground, and how far its outputs moved."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from torch import nn

Ground = Literal["observed", "certified"]
NEAR = 0.1  # of a unit's own range: nearer to bending than that is nearly awake
REASONS = ("dead", "constant", "unread", "multiple", "linear", "fused")
MEANING = {
    "dead": {
        "observed": "gave zero for every point of the data",
        "certified": "gives zero for every input of the box",
    },
    "constant": {
        "observed": "gave one and the same number for every point of the data; it is in the next bias",
        "certified": "gives one and the same number for every input of the box; it is in the next bias",
    },
    "unread": dict.fromkeys(("observed", "certified"), "is read with weights that are all zero"),
    "multiple": dict.fromkeys(("observed", "certified"), "is a positive multiple of another, by its weights"),
    "linear": {
        "observed": "never bent on the data, and was merged with others that did not",
        "certified": "bends for no input of the box, and was merged with others that do not",
    },
    "fused": {
        "observed": "is of a layer in which no unit bent on the data, now one affine map with the next",
        "certified": "is of a layer in which no unit bends for any input of the box, now one affine map with the next",
    },
}


@dataclass(frozen=True, slots=True)
class Gone:
    """A unit that is gone: of which layer, its first number, why, and more of it in words.

    margin  how far its pre-activation stayed from bending on the data, in parts of its own range; None where it is
            proved, or by its weights alone
    """

    layer: str
    unit: int
    why: str
    said: str = ""
    margin: float | None = None


def counted(gone: Iterable[Gone]) -> dict[str, int]:
    """How many units went for which reason."""
    found = Counter(unit.why for unit in gone)
    return {why: found[why] for why in REASONS if found[why]}


@dataclass(frozen=True, slots=True)
class LayerChange:
    """A layer before and after: units, connections (entries of its weight), the units that went, why others stayed."""

    layer: str
    units: int
    units_left: int
    connections: int
    connections_left: int
    gone: tuple[Gone, ...] = ()
    kept: str = ""

    @property
    def reasons(self) -> dict[str, int]:
        """How many units went for which reason."""
        return counted(self.gone)

    @property
    def in_words(self) -> str:
        """Why units went and stayed."""
        went = ", ".join(f"{count} {why}" for why, count in self.reasons.items())
        return "; ".join(part for part in (went, self.kept) if part)


@dataclass(frozen=True, slots=True)
class Difference:
    """How far the outputs of the small network are from the first one's on so many points.

    largest   the largest absolute difference of any output
    relative  the same over the largest output
    agree     the share of points with the same largest output; None where outputs are no scores of classes
    """

    points: int
    largest: float
    relative: float
    agree: float | None = None

    def __str__(self) -> str:
        same = "" if self.agree is None else f"; the same class for {self.agree:.2%}"
        return f"{self.largest:.3g} ({self.relative:.2g} of the largest output) on {self.points:,} points{same}"


@dataclass(frozen=True, slots=True)
class Stirred:
    """Of so many units that never bent on some points, how many bend on others: on so many `points`, held out or not.

    held_out  whether the others are data held out, or the last tenth of those the units were judged on
    """

    quiet: int
    woken: int
    points: int
    held_out: bool

    def __str__(self) -> str:
        one, other = (
            ("the data", f"the {self.points:,} points held out")
            if self.held_out
            else ("nine tenths of the data", f"the other {self.points:,} points")
        )
        return f"of {self.quiet:,} units that never bent on {one}, {self.woken:,} bend on {other}"


@dataclass(frozen=True, slots=True)
class Proofs:
    """How units were judged for all inputs of a box.

    intervals, substitution, branches   units judged by interval arithmetic, by linear bounds put into each other
                  backwards, and by such bounds of parts of the box
    bent          units that were seen to bend
    undecided     units that no method decided in the time allowed: they stay
    """

    box: str
    intervals: int = 0
    substitution: int = 0
    branches: int = 0
    bent: int = 0
    undecided: int = 0
    seconds: float = 0.0

    @property
    def decided(self) -> int:
        """Units that were proved to stay in one piece."""
        return self.intervals + self.substitution + self.branches


@dataclass(frozen=True, slots=True)
class Straightened:
    """How many units were made dead, and how many linear, that bent for less than a share of their values.

    layers  by path: their units, the mean entropy of on and off in bits, and how many of them were changed
    """

    share: float
    dead: int
    linear: int
    layers: tuple[tuple[str, int, float, int], ...]

    def __str__(self) -> str:
        return (
            f"{self.dead:,} units that were on, and {self.linear:,} that were off, for less than {self.share:g} of "
            "their values bend no more, and outputs differ on the data too"
        )


@dataclass(frozen=True, slots=True)
class Report:
    """What `shrink` did.

    ground    "observed": exact on the data given, and measured beside them; "certified": proved for every input of a
              box
    layers    every dense and convolutional layer
    notes     what could not be followed and was left as it was, and whatever else there is to know
    on_data   the difference on the data the units were judged on (observed), or on points of the box (certified)
    held_out  the difference on data that were not looked at before
    stirred   how many units that were quiet on some points are not on others; None if that was not to be seen
    nearly    how many units were made dead or linear first, which bent for a small share of their values
    """

    ground: Ground
    points: int
    layers: tuple[LayerChange, ...]
    parameters: int
    parameters_left: int
    on_data: Difference
    held_out: Difference | None = None
    proofs: Proofs | None = None
    notes: tuple[str, ...] = ()
    seconds: float = 0.0
    stirred: Stirred | None = None
    nearly: Straightened | None = None

    def meaning(self, why: str) -> str:
        """What a reason means on this ground."""
        return MEANING[why][self.ground]

    @property
    def units(self) -> int:
        """Units before."""
        return sum(layer.units for layer in self.layers)

    @property
    def units_left(self) -> int:
        """Units after."""
        return sum(layer.units_left for layer in self.layers)

    @property
    def connections(self) -> int:
        """Connections before."""
        return sum(layer.connections for layer in self.layers)

    @property
    def connections_left(self) -> int:
        """Connections after."""
        return sum(layer.connections_left for layer in self.layers)

    @property
    def gone(self) -> tuple[Gone, ...]:
        """Every unit that went."""
        return tuple(gone for layer in self.layers for gone in layer.gone)

    @property
    def reasons(self) -> dict[str, int]:
        """How many units went for which reason."""
        return counted(self.gone)

    @property
    def ground_in_words(self) -> str:
        """What the removal rests on."""
        if self.proofs is not None:
            return f"certified: proved for every input with {self.proofs.box}"
        if self.nearly is not None:
            return f"observed on the {self.points:,} points given, and changed: {self.nearly}"
        return f"observed: exact on the {self.points:,} points given, all of them looked at; other inputs may differ"

    @property
    def nearly_awake(self) -> int:
        """How many of the units that went came within a tenth of their own range of bending."""
        return sum(gone.margin is not None and gone.margin < NEAR for gone in self.gone)

    @property
    def sizes(self) -> tuple[tuple[str, int, int], ...]:
        """Units, connections and parameters, before and after."""
        return (
            ("units", self.units, self.units_left),
            ("connections", self.connections, self.connections_left),
            ("parameters", self.parameters, self.parameters_left),
        )

    @property
    def lines(self) -> tuple[str, ...]:
        """The report in sentences, without its table."""
        sizes = (f"{name}: {a:,} to {b:,} ({share(a, b)} removed)" for name, a, b in self.sizes)
        where = "the data" if self.ground == "observed" else "points of the box"
        told = [*sizes, f"largest difference on {where}: {self.on_data}"]
        if self.held_out is not None:
            told.append(f"largest difference on data held out: {self.held_out}")
        elif self.ground == "observed":
            told.append("no data were held out: how far outputs move on other inputs is not known")
        margins = [gone for gone in self.gone if gone.margin is not None]
        if margins:
            told.append(
                f"nearly awake: {self.nearly_awake:,} of {len(margins):,} units that went for what they did on data "
                f"came within {NEAR:.0%} of their own range of bending"
            )
        told += [] if self.stirred is None else [str(self.stirred)]
        if self.proofs is not None:
            p = self.proofs
            told.append(
                f"proved to stay in one piece: {p.decided:,} units ({p.intervals:,} by intervals, {p.substitution:,} "
                f"by substitution, {p.branches:,} by branch and bound); seen to bend: {p.bent:,}; undecided in the "
                f"time allowed, so kept: {p.undecided:,}"
            )
        return (*told, *(f"left as it was: {note}" for note in self.notes))

    def __str__(self) -> str:
        rows = [
            f"{layer.layer}: {layer.units:,} to {layer.units_left:,} units"
            + f" ({layer.in_words})" * bool(layer.in_words)
            for layer in self.layers
        ]
        return "\n".join([self.ground_in_words, *rows, *self.lines])

    def to_dict(self) -> dict[str, Any]:
        """The report as plain numbers and text."""
        sums = {name: {"before": a, "after": b} for name, a, b in self.sizes}
        return {**asdict(self), "reasons": self.reasons, **sums}

    def to_json(self) -> str:
        """The report as JSON."""
        return json.dumps(self.to_dict(), indent=2)


@dataclass(frozen=True, slots=True, eq=False)
class Shrunk:
    """The small network, in eval mode, and the report on how it came about."""

    model: nn.Module
    report: Report = field(repr=False)

    def __str__(self) -> str:
        return str(self.report)


def share(before: int, after: int) -> str:
    """The share that is gone."""
    return f"{(before - after) / before:.1%}" if before else "0.0%"
