"""The report as one self-contained HTML page that shows which units went, and why."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date

import torch
from jinja2 import Environment, PackageLoader

from ..._version import __version__
from .record import REASONS, LayerChange, Report, share

CELLS = 4096  # units of a layer that are drawn one by one


@dataclass(frozen=True, slots=True)
class Source:
    """Where a report comes from, as its page says it; what is not known is left out."""

    command: str = ""
    model: str = ""
    data: str = ""
    date: str = field(default_factory=lambda: date.today().isoformat())


def page(report: Report, title: str, source: Source | None = None) -> str:
    """The page."""
    environment = Environment(loader=PackageLoader("alive.surgery.shrink", "templates"), autoescape=True)
    return environment.get_template("shrink.html").render(
        report=report,
        title=title,
        source=source or Source(),
        cells=cells,
        share=share,
        meaning={why: report.meaning(why) for why in REASONS if why in report.reasons},
        versions=f"alive {__version__}, torch {torch.__version__}",
    )


def cells(layer: LayerChange) -> list[tuple[str, str]]:
    """Every unit of a layer as its state and a sentence; none of a layer that has too many to draw."""
    if layer.units > CELLS:
        return []
    gone = {unit.unit: unit for unit in layer.gone}
    return [
        (gone[number].why, f"unit {number}: {gone[number].why}{'; ' * bool(gone[number].said)}{gone[number].said}")
        if number in gone
        else ("kept", f"unit {number}: kept")
        for number in range(layer.units)
    ]
