"""A race as one self-contained page: verdict, table, what happened over the steps, and the lines to take over."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

import torch
from jinja2 import Environment, PackageLoader

from .._version import __version__
from ..cures import AS_IS, changes, words
from .laps import Lap, Mark
from .result import Arm, Outcome, cells, number


@dataclass(frozen=True, slots=True)
class Line:
    """One arm in a chart: the points of a polyline in a box of 100 x 60."""

    arm: str
    points: str


@dataclass(frozen=True, slots=True)
class Chart:
    """A number over the steps, a line an arm; `says` tells it to those who do not see it."""

    name: str
    says: str
    lines: tuple[Line, ...]
    top: str
    bottom: str


def page(outcome: Outcome, command: str = "") -> str:
    """The page."""
    ran = [arm for arm in outcome.arms if not arm.refused]
    environment = Environment(loader=PackageLoader("alive.race", "templates"), autoescape=True)
    return environment.get_template("cure.html").render(
        outcome=outcome,
        title=f"Cures for {outcome.model} on {outcome.data}",
        columns=("cure", outcome.measure, "trains", "steps", "dead units", "dead points"),
        rows=[(cells(arm), words(arm.name), changes(arm.name)) for arm in ran],
        refused=[arm for arm in outcome.arms if arm.refused],
        charts=charts(outcome, ran),
        colours={arm.name: place for place, arm in enumerate(ran)},
        censuses=_censuses(outcome),
        winner=words(outcome.winner),
        shown=number,
        command=command,
        made=f"{date.today().isoformat()} by alive {__version__}, torch {torch.__version__}",
    )


Value = Callable[[Mark], float | None]


def charts(outcome: Outcome, ran: Sequence[Arm]) -> list[Chart]:
    """Loss, score, dead points and dead units over the steps: the mean over seeds of each arm."""
    wanted: list[tuple[str, Value, str]] = [
        ("training loss", lambda mark: mark.loss, "log"),
        (outcome.measure, lambda mark: mark.score, "free"),
        ("dead points", lambda mark: mark.dead_points, "share"),
        ("dead units", lambda mark: mark.dead_units, "share"),
    ]
    made = (_chart(name, value, scale, outcome.steps, ran) for name, value, scale in wanted if name != "loss")
    return [chart for chart in made if chart is not None]


def _chart(name: str, value: Value, scale: str, steps: int, ran: Sequence[Arm]) -> Chart | None:
    found = {arm.name: _means(arm.laps, value) for arm in ran}
    known = [each for line in found.values() for _, each in line]
    if not known:
        return None
    low, high = (0.0, 1.0) if scale == "share" else _ends(known, log=scale == "log")

    def height(each: float) -> float:
        if scale == "log":
            each, bottom, top = math.log(max(each, low)), math.log(low), math.log(high)
        else:
            bottom, top = low, high
        return 60 - 60 * (min(max(each, bottom), top) - bottom) / (top - bottom)

    lines = tuple(
        Line(arm, " ".join(f"{100 * step / steps:.2f},{height(each):.2f}" for step, each in line))
        for arm, line in found.items()
        if line
    )
    shown = "{:.0%}".format if scale == "share" else number
    says = "; ".join(f"{arm} from {shown(line[0][1])} to {shown(line[-1][1])}" for arm, line in found.items() if line)
    return Chart(name, says, lines, shown(high), shown(low))


def _means(laps: Sequence[Lap], value: Value) -> list[tuple[int, float]]:
    """Of each step at which every network that is still going was looked at."""
    steps = sorted({mark.step for lap in laps for mark in lap.marks})
    found = []
    for step in steps:
        at = [value(mark) for lap in laps for mark in lap.marks if mark.step == step]
        known = [each for each in at if each is not None and math.isfinite(each)]
        if known and len(known) == len(at):
            found.append((step, statistics.fmean(known)))
    return found


def _ends(values: Sequence[float], *, log: bool) -> tuple[float, float]:
    """The range of a chart: few wild values, as of a loss that exploded, do not flatten all others."""
    ordered = sorted(each for each in values if each > 0 or not log) or [1.0]
    if log:
        low, high = max(ordered[0], 1e-12), ordered[-1 - len(ordered) // 20]
        return low, max(high, 1.01 * low)
    low, high = ordered[len(ordered) // 20], ordered[-1]
    return low, high if high > low else low + 1.0


def _censuses(outcome: Outcome) -> list[dict[str, Any]]:
    """What a census says of the first network, as it is and under the winner, before and after."""
    told = []
    for name in dict.fromkeys((AS_IS, outcome.winner)):
        lap = outcome[name].laps[0]
        ends = [(when, found) for when, found in (("before", lap.before), ("after", lap.after)) if found is not None]
        told += [{"arm": name, "when": when, **found} for when, found in ends]
    return told
