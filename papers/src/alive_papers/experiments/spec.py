"""Experiments as data: a grid of cells, the claims made of it, the figures drawn of it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

from alive.errors import AliveError, expect, expect_one_of

from ..sets.download.places import NotThere
from .cell import Cell, Row, Telling, Untrained

SCALES = ("quick", "middle", "paper")  # middle: the papers' grids, on fewer points and epochs
REPRODUCED, DIFFERS, UNDECIDED, PARTIAL, NOT_RUN = "reproduced", "differs", "not decided", "partial", "not run"
FIGURE_KINDS = (
    "heat",
    "activations",
    "decisions",
    "lives",
    "traces",
    "layers",
    "winners",
    "curves",
    "learning",
    "measures",
    "courses",
    "ranks",
    "depths",
    "rates",
)  # each is drawn by a function of report
FIRST_SEED = 10  # the papers' own


@dataclass(frozen=True, slots=True)
class Measured:
    """Our number: a mean over n networks or seeds, and their standard deviation (0 for one)."""

    ours: float
    n: int
    spread: float


Measure = Callable[[Sequence[Row]], Measured | None]


@dataclass(frozen=True, slots=True)
class Claim:
    """A sentence with the published number, how ours is measured, and the band in which ours confirms it.

    A claim with a `scale`, or several, is judged there alone: a published accuracy says nothing of a quick run.

    Below the largest of its scales a claim is not decided by a toy run, whether ours lies in the band or not; at the
    middle scale, the paper's grid on fewer points, it can be confirmed and not refuted.
    """

    id: str
    sentence: str
    measure: Measure
    band: tuple[float, float]
    published: float | None = None
    scale: str | tuple[str, ...] | None = None
    why: str = ""  # where ours differs: what explains it

    def __post_init__(self) -> None:
        low, high = self.band
        expect(
            [
                (low <= high, f"claim {self.id}: the band {self.band} is empty"),
                (
                    self.published is None or low <= self.published <= high,
                    f"claim {self.id}: the published {self.published} lies outside its own band {self.band}",
                ),
            ]
        )

    @property
    def scales(self) -> tuple[str, ...]:
        """Where it is judged."""
        return SCALES if self.scale is None else (self.scale,) if isinstance(self.scale, str) else self.scale

    def reads(self, cells: Sequence[Cell]) -> list[Cell]:
        """The cells whose results it is measured on: what is left must be trained for it, and nothing else."""
        read: set[int] = set()  # by identity: a key is a hash of all settings
        try:
            self.measure(cast(Sequence[Row], [Telling(cell, read) for cell in cells]))
        except (Untrained, NotThere):  # it asks for networks, or for data that are not on this machine
            return list(cells)
        return [cell for cell in cells if id(cell) in read]

    def verdict(self, measured: Measured | None, scale: str | None = None, deciding: str | None = None) -> str:
        """What the rows of a run at a scale say of the claim, and which scale decides it; without, this one does.

        A published number is one run's: where it lies within the spread of ours, ours is the same.

        >>> claim = Claim("depth", "trains to depth 60", lambda rows: None, band=(50, 70), published=60)
        >>> claim.verdict(Measured(55, 10, 5)), claim.verdict(Measured(90, 10, 5)), claim.verdict(None)
        ('reproduced', 'differs', 'not run')
        >>> claim.verdict(Measured(75, 10, 20)), claim.verdict(Measured(55, 10, 5), "quick", "paper")
        ('reproduced', 'not decided')
        """
        if measured is None:
            return NOT_RUN
        low, high = self.band
        off = self.deviations(measured)
        agrees = low - 1e-9 <= measured.ours <= high + 1e-9 or (off is not None and abs(off) <= 1)
        decisive = scale == deciding
        if agrees and (decisive or scale != SCALES[0]):
            return REPRODUCED
        return DIFFERS if decisive else UNDECIDED

    def deviations(self, measured: Measured) -> float | None:
        """How many standard deviations of ours the published number lies above our mean; None where neither tells."""
        if self.published is None or not measured.spread:
            return None
        return (self.published - measured.ours) / measured.spread


@dataclass(frozen=True, slots=True)
class Figure:
    """A picture to draw of the rows: a kind that report knows, its file name, and what the reader sees."""

    name: str
    kind: str
    caption: str

    def __post_init__(self) -> None:
        expect_one_of("kind of figure", self.kind, FIGURE_KINDS)


Grid = Callable[[str, str, int], Sequence[Cell]]  # (scale, architecture, seed) -> cells


@dataclass(frozen=True, slots=True)
class Experiment:
    """A figure or table of a paper, or one of ours: which networks, which claims, which pictures."""

    name: str
    title: str
    paper: str
    grid: Grid = field(repr=False)
    claims: tuple[Claim, ...] = ()
    figures: tuple[Figure, ...] = ()
    architectures: tuple[str, ...] = ("dense",)
    scales: tuple[str, ...] = ("quick", "paper")

    def on(self, data: str | None = None, *, depths: Collection[int] = (), widths: Collection[int] = ()) -> Experiment:
        """The same methods on another data set or file, at other depths or widths: for curiosity, without claims.

        >>> from alive_papers.experiments import EXPERIMENTS
        >>> mine = EXPERIMENTS["002-Fig1"].on("digits", depths=(2, 8), widths=(16, 20))
        >>> len(mine.cells()), mine.cells()[0].data
        (24, 'digits')
        """

        def grid(scale: str, architecture: str, seed: int) -> list[Cell]:
            cells = self.grid(scale, architecture, seed)
            return [
                cell.on(data or cell.data, depth=depth, width=width)
                for cell in cells
                for depth in depths or (cell.member.depth,)
                for width in widths or (cell.member.width,)
            ]

        sizes = f"{_listed('depths', depths)}{_listed('widths', widths)}"
        return replace(
            self,
            name=f"{self.name}{f' on {data}' if data else ''}{sizes}",
            grid=grid,
            claims=(),
            figures=(Figure("curves", "curves", "Best test accuracy against depth; bars are standard deviations"),),
        )

    def verdict(self, claim: Claim, measured: Measured | None, scale: str) -> str:
        """What a run at a scale says of a claim; claims of our own are about the runs they are made of."""
        scales = sorted({*claim.scales} & {*self.scales}, key=SCALES.index) if self.name[:3].isdigit() else [scale]
        return claim.verdict(measured, scale, scales[-1])

    def cells(self, scale: str = "quick", *, seeds: int = 1, architecture: str = "dense") -> list[Cell]:
        """All networks, seed by seed, each once."""
        expect_one_of("scale", scale, SCALES)
        expect([(seeds >= 1, f"seeds must be at least 1, got {seeds}")])
        if scale not in self.scales:
            raise AliveError(f"{self.name} has no scale {scale!r}", f"Choose {' or '.join(self.scales)}")
        if architecture not in self.architectures:
            raise AliveError(
                f"{self.name} has no architecture {architecture!r}", f"Choose {' or '.join(self.architectures)}"
            )
        found = (
            cell for seed in range(FIRST_SEED, FIRST_SEED + seeds) for cell in self.grid(scale, architecture, seed)
        )
        return list({cell.key: cell for cell in found}.values())


def _listed(what: str, numbers: Collection[int]) -> str:
    return f", {what} {' '.join(map(str, numbers))}" if numbers else ""
