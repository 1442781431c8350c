"""A history as one self-contained HTML page: every unit a line, its colour what it was at each step."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from itertools import groupby

from jinja2 import Environment, PackageLoader

from .._version import __version__
from ..errors import AliveError
from .record import NAMES, NEVER, History, Layer, Moment, Seen

ROWS = 64  # units of a layer that are drawn one by one; beyond, their shares
WIDE, UNIT = 1000, 7  # the drawing in its own units; pixels a unit is high


@dataclass(frozen=True, slots=True)
class Band:
    """One layer: rectangles (x, y, width, height, state) in a box WIDE x `high`, and a sentence of it."""

    label: str
    where: str
    says: str
    high: int
    rectangles: tuple[tuple[float, float, float, float, str], ...]
    by_unit: bool


@dataclass(frozen=True, slots=True)
class Curve:
    """A number over the steps, in a box WIDE x 100."""

    name: str
    says: str
    lines: tuple[str, ...]
    top: str
    bottom: str


def page(history: History, title: str, *, source: str = "") -> str:
    """The page."""
    if not history.moments:
        raise AliveError("the history has no moment yet", "Train on, and call the watcher at every step")
    moments, edges = history.moments, _edges(history.moments)
    environment = Environment(loader=PackageLoader("alive.history", "templates"), autoescape=True)
    last = moments[-1]
    return environment.get_template("watch.html").render(
        title=title,
        source=source,
        bands=[_band(layer, moments, edges) for layer in history.layers],
        curves=_curves(moments, edges),
        first=moments[0],
        last=last,
        censuses=len(moments),
        dead=last.units("d"),
        linear=last.units("l"),
        wide=WIDE,
        states=tuple(NAMES.values()),
        versions=f"alive {__version__}",
        date=date.today().isoformat(),
    )


def _edges(moments: tuple[Moment, ...]) -> list[float]:
    """Where each moment begins and the last one ends: to scale with the steps."""
    steps = [moment.step for moment in moments]
    end = steps[-1] + (steps[-1] - steps[-2] if len(steps) > 1 else 1)
    return [WIDE * (step - steps[0]) / (end - steps[0]) for step in (*steps, end)]


def _band(layer: Layer, moments: tuple[Moment, ...], edges: list[float]) -> Band:
    seen = [moment.layers.get(layer.name) for moment in moments]
    units = max((len(s.units) for s in seen if s is not None), default=0)
    by_unit = 0 < units <= ROWS
    drawn = _lines(seen, edges, units) if by_unit else _stacks(seen, edges)
    return Band(layer.label, layer.where, _sentence(seen), units * UNIT if by_unit else 90, tuple(drawn), by_unit)


def _lines(seen: list[Seen | None], edges: list[float], units: int) -> list[tuple[float, float, float, float, str]]:
    """Each unit a row, equal states in a stretch one rectangle."""
    drawn: list[tuple[float, float, float, float, str]] = []
    for unit in range(units):
        letters = [s.units[unit] if s is not None and unit < len(s.units) else NEVER for s in seen]
        for letter, run in groupby(range(len(letters)), key=letters.__getitem__):
            places = list(run)
            if letter != NEVER:
                left, right = edges[places[0]], edges[places[-1] + 1]
                drawn.append((round(left, 2), unit * UNIT, round(right - left, 2), UNIT - 1, NAMES[letter]))
    return drawn


def _stacks(seen: list[Seen | None], edges: list[float]) -> list[tuple[float, float, float, float, str]]:
    """The share of each state at each moment, the dead at the bottom."""
    drawn = []
    for place, each in enumerate(seen):
        if each is None or not each.total:
            continue
        bottom = 90.0
        for letter in "dblun":
            high = 90.0 * each.count(letter) / each.total
            if high:
                bottom -= high
                wide = edges[place + 1] - edges[place]
                drawn.append((round(edges[place], 2), round(bottom, 2), round(wide, 2), round(high, 2), NAMES[letter]))
    return drawn


def _sentence(seen: list[Seen | None]) -> str:
    known = [s for s in seen if s is not None]
    if not known:
        return "never reached"
    first, last = known[0], known[-1]
    if last.count("u"):
        return "which numbers are whose unit is unknown"
    most = max(s.count("d") for s in known)
    told = f"{first.count('d')} dead of {first.total} at first, {last.count('d')} at the end, at most {most}"
    return told + f"; {last.count('l')} linear at the end" * bool(last.count("l"))


def _curves(moments: tuple[Moment, ...], edges: list[float]) -> list[Curve]:
    """Dead points, units that are rarely on, then each number of the user's own."""
    made = []
    if any(moment.points.total for moment in moments):
        shares: list[float | None] = [m.points.dead / m.points.total if m.points.total else None for m in moments]
        made.append(_curve("dead points", shares, edges, share=True))
    rare = [m.sums.get("alive/rare_units") for m in moments]
    made += [_curve("rare units", rare, edges, share=True)] if any(rare) else []
    names = dict.fromkeys(name for moment in moments for name in moment.numbers)
    return made + [_curve(name, [m.numbers.get(name) for m in moments], edges, share=False) for name in names]


def _curve(name: str, values: list[float | None], edges: list[float], *, share: bool) -> Curve:
    known = [value for value in values if value is not None]
    low, high = (0.0, 1.0) if share else (min(known, default=0.0), max(known, default=1.0))
    room = high - low or 1.0
    runs: list[list[str]] = [[]]
    for place, value in enumerate(values):
        if value is None:
            runs.append([])
        else:
            runs[-1].append(f"{edges[place]:.2f},{100 - 100 * (value - low) / room:.2f}")
    lines = tuple(" ".join(run * (2 if len(run) == 1 else 1)) for run in runs if run)
    figures = 3 if f"{low:.3g}" != f"{high:.3g}" else 8  # as many as tell the ends apart
    shown = "{:.0%}".format if share else f"{{:.{figures}g}}".format
    says = f"{shown(known[0])} at first, {shown(known[-1])} at the end" if known else "never finite"
    return Curve(name, says, lines, shown(high), shown(low))
