"""A census as HTML: a fragment for notebooks, and a self-contained page to send."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date
from math import floor, inf, isnan, log10
from typing import Any

import torch
from jinja2 import Environment, PackageLoader

from .._version import __version__
from ..diagnosis.rates import BINS
from ..diagnosis.record import BY_POSITION, Census, Tally
from ..findings.rules import verdict
from ..functional.signals import MERGED, RESOLVED
from .rows import HEALTHY, LayerRow, number, rows, worst_first
from .terminal import MOST


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a census comes from, as its page says it; what is not known is left out.

    command  as it was typed
    sample   which points were seen, where not all were: "10,000 of 60,000, drawn at random"
    """

    command: str = ""
    model: str = ""
    data: str = ""
    sample: str = ""
    date: str = field(default_factory=lambda: date.today().isoformat())


@dataclass(frozen=True, slots=True)
class Curve:
    """A number over the depth of a network, ready to draw in a box of 100 x 40.

    lines  runs of layers that have the number, as the points of a polyline
    """

    name: str
    says: str
    lines: tuple[str, ...]
    top: str
    bottom: str


def fragment(census: Census) -> str:
    """The census as HTML, for a notebook."""
    return _html("census.html", census)


def page(census: Census, title: str, origin: Origin | None = None) -> str:
    """The census as one self-contained HTML page, with its origin and the meaning of every word."""
    known = {"merged": number(MERGED), "resolved": number(RESOLVED), "inverse": number(1 / RESOLVED)}
    versions = f"alive {__version__}, torch {torch.__version__}"
    return _html("page.html", census, title=title, origin=origin or Origin(), versions=versions, **known)


def _html(template: str, census: Census, **more: Any) -> str:
    environment = Environment(loader=PackageLoader("alive.render", "templates"), autoescape=True)
    found = rows(census)
    tallies = (census.units, census.points)
    return environment.get_template(template).render(
        census=census,
        rows=found,
        sick=worst_first([row for row in found if row.severity < HEALTHY]),
        curves=curves(found),
        tallies=tuple(zip(("Units", "Points"), tallies, strict=True)),
        columns=[
            name for name in ("spread", "rank", "gradient") if any(getattr(row, name) is not None for row in found)
        ],
        bins=BINS,
        measures=lambda row: [(name, number(value)) for name, value in row.measures(census.rare) if value],
        deaths=any(row.layer.first_deaths for row in found),
        kinds=kinds,
        shown=number,
        by_position=BY_POSITION,
        verdict=verdict(census),
        most=MOST,
        **more,
    )


def kinds(tally: Tally, *, usual: bool = False) -> list[tuple[str, int]]:
    """The states that some are in, with how many; the `usual` three also where none is.

    >>> kinds(Tally(linear=2, broken=1)), kinds(Tally(), usual=True)
    ([('linear', 2), ('broken', 1)], [('dead', 0), ('linear', 0), ('nonlinear', 0)])
    """
    return [(state, n) for state, n in tally._asdict().items() if n or (usual and state not in ("broken", "unknown"))]


def curves(found: Sequence[LayerRow]) -> list[Curve]:
    """Dead units, dead points, spread and gradient over the layers, where there are at least two to compare."""
    if len(found) < 2:
        return []
    shares = {
        "dead units": [_share(row.units.dead, row.units.total) for row in found],
        "dead points": [_share(row.points.dead, row.points.total) for row in found],
    }
    made = [_curve(name, values, log=False) for name, values in shares.items() if any(values)]
    signals = {"spread": [row.spread for row in found], "gradient": [row.gradient for row in found]}
    return made + [
        _curve(name, values, log=True)
        for name, values in signals.items()
        if any(value == value for value in values if value)
    ]


def _share(count: int, total: int) -> float | None:
    return count / total if total else None


def _curve(name: str, values: Sequence[float | None], *, log: bool) -> Curve:
    """A share on a scale from 0 to 1, or a signal on one of powers of ten; NaN is a gap."""
    known = [None if value is None or isnan(value) else value for value in values]
    told = [value for value in known if value is not None]
    low, high = _decades(told) if log else (0.0, 1.0)
    lines: list[list[str]] = [[]]
    for place, value in enumerate(known):
        if value is None:
            lines.append([])
            continue
        height = _power(value, low, high) if log else value
        lines[-1].append(f"{100 * place / (len(values) - 1):.2f},{40 - 40 * (height - low) / (high - low):.2f}")
    runs = tuple(" ".join(line * (2 if len(line) == 1 else 1)) for line in lines if line)
    shown = number if log else "{:.0%}".format
    worst = f"least {shown(min(told))}" if log else f"most {shown(max(told))}"
    says = f"{shown(told[0])} in the first layer, {shown(told[-1])} in the last, {worst}"
    ends = (f"1e{high:.0f}", f"1e{low:.0f}") if log else ("100%", "0%")
    return Curve(name, says, runs, *ends)


def _power(value: float, low: float, high: float) -> float:
    """The power of ten of a number that is not negative, within bounds."""
    return min(max(log10(value), low), high) if value > 0 else low


def _decades(values: Sequence[float]) -> tuple[float, float]:
    """Whole powers of ten around the positive finite values, at least one apart; 0 runs along the floor."""
    powers = [log10(value) for value in values if 0 < value < inf] or [0.0]
    low, high = floor(min(powers)), -floor(-max(powers))
    return float(low), float(max(high, low + 1))
