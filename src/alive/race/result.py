"""What came of a race: each arm over its seeds, the winner, and a verdict that is no better than what was measured."""

from __future__ import annotations

import json
import statistics
from dataclasses import asdict, dataclass
from io import StringIO
from typing import Any

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from ..cures import changes, lines, words
from ..screen import Screen
from .laps import Lap

WELL, BETTER, CURED, IN_VAIN = "nothing is wrong", "can be better", "cured", "nothing helps"
UNKNOWN = "cannot tell"  # nothing is clearly better than as it is, and what chance reaches is not known


@dataclass(frozen=True, slots=True)
class Arm:
    """One arm over its seeds, as far as it was run.

    steps   after which it was judged; fewer than all where it was stopped as a loser
    trains  of its networks, those at least half way from chance to the winner; None where chance is not known
    """

    name: str
    laps: tuple[Lap, ...]
    steps: int
    trains: int | None = 0

    @property
    def refused(self) -> str:
        """Why it cannot be applied."""
        return next((lap.refused for lap in self.laps if lap.refused), "")

    @property
    def scores(self) -> list[float]:
        """Of the networks that reached the end."""
        return [lap.score for lap in self.laps if lap.score is not None]

    @property
    def stopped(self) -> int:
        """Networks whose loss was not finite on the way."""
        return sum(bool(lap.stopped) for lap in self.laps)

    @property
    def mean(self) -> float | None:
        """The mean score."""
        return statistics.fmean(self.scores) if self.scores else None

    @property
    def spread(self) -> float:
        """The standard deviation over seeds; 0 for one."""
        return statistics.stdev(self.scores) if len(self.scores) > 1 else 0.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """A finished race.

    kind     nothing is wrong | can be better | cured | nothing helps | cannot tell
    winner   the arm that won; "as it is" where nothing is better
    measure  what a score is: accuracy, r2 or loss
    arms     the best first
    """

    kind: str
    winner: str
    verdict: str
    model: str
    data: str
    measure: str
    chance: float | None
    points: int
    judges: int
    steps: int
    seeds: tuple[int, ...]
    settings: str
    arms: tuple[Arm, ...]
    notes: tuple[str, ...] = ()

    def __getitem__(self, name: str) -> Arm:
        return next(arm for arm in self.arms if arm.name == name)

    @property
    def code(self) -> str:
        """The lines that apply the winner; nothing where all stays as it is."""
        return lines(self.winner)

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain values."""
        told = {name: value for name, value in asdict(self).items() if name != "arms"}
        told["code"] = self.code
        told["arms"] = [_plain(arm) for arm in self.arms]
        return told

    def to_json(self, indent: int | None = 2) -> str:
        """The same as JSON."""
        return json.dumps(self.to_dict(), indent=indent, ensure_ascii=False, allow_nan=False)

    def to_html(self, command: str = "") -> str:
        """The same as one self-contained page."""
        from .page import page

        return page(self, command)

    def __str__(self) -> str:
        console = Screen(file=StringIO(), width=120, no_color=True, color_system=None)
        console.print(self)
        return console.file.getvalue().rstrip()  # type: ignore[attr-defined,no-any-return]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield table(self)
        for arm in self.arms:
            if arm.refused:
                yield Text(f"({arm.name} cannot be applied: {arm.refused})", style="dim")
        yield Text(
            self.verdict, style={CURED: "bold green", WELL: "green", IN_VAIN: "bold red"}.get(self.kind, "yellow")
        )
        if self.code:
            yield Text(f"{words(self.winner)}; {changes(self.winner)}. The lines to take over:")
            yield Text(self.code, style="cyan")


def table(outcome: Outcome) -> Table:
    """A lap an arm, the best first."""
    judge = f"{outcome.measure} on {outcome.judges} points" if outcome.judges else f"{outcome.measure} in training"
    n = len(outcome.seeds)
    over = f"mean ± spread over {n} seeds" if n > 1 else "one seed"
    caption = f"{over}; chance {number(outcome.chance)}; {outcome.settings}"
    title = Text(f"{outcome.model} on {outcome.data}", style="italic")  # no markup: :x: is no emoji
    grid = Table(caption=Text(caption, style="dim italic"), title=title)
    grid.add_column("cure")
    for name in (judge, "trains", "steps", "dead units", "dead points"):
        grid.add_column(name, justify="right")
    for arm in outcome.arms:
        if not arm.refused:
            grid.add_row(*cells(arm), style="bold" if arm.name == outcome.winner else None)
    return grid


def cells(arm: Arm) -> list[str]:
    """An arm in words: name, score, networks that train, steps, and who was dead before and after."""
    return [
        arm.name,
        scored(arm),
        UNKNOWN if arm.trains is None else f"{arm.trains} of {len(arm.laps)}",
        f"{arm.steps:,}",
        _way(arm, "units"),
        _way(arm, "points"),
    ]


def scored(arm: Arm) -> str:
    """Mean and spread, and how many did not reach the end.

    >>> scored(Arm("mirrored", (), 10))
    '·'
    """
    lost = f" ({arm.stopped} diverged)" if arm.stopped else ""
    if arm.mean is None:
        return "diverged" if arm.stopped else "·"
    mean = number(arm.mean)
    apart = f"{arm.spread:.3f}" if mean == f"{arm.mean:.3f}" and arm.spread < 1000 else f"{arm.spread:.3g}"
    return f"{mean}{f' ± {apart}' if len(arm.scores) > 1 else ''}{lost}"


def number(value: float | None) -> str:
    """A score in three digits.

    >>> number(0.98765), number(12345.6), number(None)
    ('0.988', '1.23e+04', 'unknown')
    """
    if value is None:
        return "unknown"
    return f"{value:.3g}" if abs(value) >= 1000 or 0 < abs(value) < 1e-4 else f"{value:.3f}"


def _way(arm: Arm, what: str) -> str:
    """Which share was dead before, and after."""
    ends = [_share([getattr(lap, end) for lap in arm.laps], what) for end in ("before", "after")]
    return " → ".join("·" if end is None else f"{end:.0%}" for end in ends)


def _share(found: list[dict[str, Any] | None], what: str) -> float | None:
    known = [each[what] for each in found if each is not None and each[what]["total"]]
    return statistics.fmean(each["dead"] / each["total"] for each in known) if known else None


def _plain(arm: Arm) -> dict[str, Any]:
    told: dict[str, Any] = {"name": arm.name, "steps": arm.steps, "trains": arm.trains, "mean": arm.mean}
    told |= {"spread": arm.spread, "scores": arm.scores, "refused": arm.refused, "diverged": arm.stopped}
    told["runs"] = [asdict(lap) | {"marks": [mark._asdict() for mark in lap.marks]} for lap in arm.laps]
    return told
