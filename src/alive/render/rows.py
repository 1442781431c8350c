"""The layers of a census as people read them: numbers ready to show, the worst first."""

from __future__ import annotations

from typing import NamedTuple

from ..diagnosis.record import BENDS_NOTHING, HAVE_MERGED, Census, LayerCensus, Tally
from ..taps.selections import CODE, EXPERT

SEVERITIES = (
    "broken",
    "all dead",
    "no signal",
    BENDS_NOTHING,
    "dead points",
    "dead units",
    "unknown",
    "linear units",
    "healthy",
)  # the worst first
HEALTHY = SEVERITIES.index("healthy")


class LayerRow(NamedTuple):
    """One layer; `number` is its place in the network, `severity` that of its worst trouble in SEVERITIES."""

    number: int
    layer: LayerCensus
    units: Tally
    points: Tally
    spread: float | None
    rank: float | None
    gradient: float | None
    words: tuple[str, ...]
    severity: int

    @property
    def label(self) -> str:
        """How to find the layer: what made its input, and the activation."""
        return self.layer.label or self.layer.name

    def measures(self, rare: float) -> tuple[tuple[str, float | None], ...]:
        """What its rates say of it in numbers: who is rare, and how evenly candidates are chosen."""
        rates, noun = self.layer.rates, self.layer.noun
        if rates is None:
            return ()
        told: list[tuple[str, float | None]] = [
            ("rare units", len(rates.rare(rare))), ("nearly linear", len(rates.nearly_linear(rare)))
        ]  # fmt: skip
        told += [("perplexity", rates.perplexity), ("used", rates.used)] if noun == CODE else []
        return (*told, *((("load", rates.load), ("variation", rates.variation)) if noun == EXPERT else ()))

    @property
    def trouble(self) -> str:
        """The worst of it, in a word."""
        return SEVERITIES[self.severity]


def rows(census: Census) -> list[LayerRow]:
    """Every layer, in the network's order."""
    return [_row(census, number, layer) for number, layer in enumerate(census.layers, start=1)]


def worst_first(found: list[LayerRow]) -> list[LayerRow]:
    """By severity, within it by how much is dead, linear or merged, then in the network's order."""
    return sorted(found, key=lambda row: (row.severity, -_amount(row), row.number))


def number(value: float | None) -> str:
    """Two figures, counts in full; a dot where nothing is known.

    >>> number(0.4321), number(4e-9), number(123456.0), number(3.26), number(0.0), number(None)
    ('0.43', '4.0e-9', '1.2e5', '3.3', '0', '·')
    """
    if value is None:
        return "·"
    if isinstance(value, int):
        return str(value)
    if value == 0:
        return "0"
    if 0.01 <= abs(value) < 1000:
        return f"{value:.2f}" if abs(value) < 1 else f"{value:.3g}" if abs(value) >= 10 else f"{value:.1f}"
    if value != value or abs(value) == float("inf"):
        return str(value)
    figures, exponent = f"{value:.1e}".split("e")
    return f"{figures}e{int(exponent)}"


def _row(census: Census, place: int, layer: LayerCensus) -> LayerRow:
    units, signal, words = layer.units, layer.signal, census.words(layer)
    told = (layer.points, signal.spread, signal.rank, signal.gradient, words)
    return LayerRow(place, layer, units, *told, _severity(layer, units, words))


def _severity(layer: LayerCensus, units: Tally, words: tuple[str, ...]) -> int:
    points = layer.points
    holds = {
        "broken": units.broken or points.broken,
        "all dead": units.dead == units.total > 0 or points.dead == points.total > 0,
        "no signal": set(words) - {BENDS_NOTHING},
        BENDS_NOTHING: BENDS_NOTHING in words,
        "dead points": points.dead or layer.first_deaths,
        "dead units": units.dead,
        "unknown": units.unknown or points.unknown or layer.unknown,
        "linear units": units.linear,
        "healthy": True,
    }
    return next(place for place, name in enumerate(SEVERITIES) if holds[name])


def _amount(row: LayerRow) -> float:
    """How much of the layer is in its trouble, where that differs from layer to layer."""
    if row.trouble == "no signal":
        return float(HAVE_MERGED in row.words)
    counts = {
        "dead points": (row.points.dead, row.points.total),
        "dead units": (row.units.dead, row.units.total),
        "linear units": (row.units.linear, row.units.total),
    }
    count, total = counts.get(row.trouble, (0, 0))
    return count / total if total else 0.0
