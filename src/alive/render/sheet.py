"""A sheet: what a command found, with all that the written formats need."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any

from .._version import __version__
from ..diagnosis.record import Census
from ..findings.conditions import Condition, is_open
from ..findings.finding import Place
from ..findings.policy import Policy, places
from ..findings.rules import rules_of, verdict
from ..findings.shrunk import see_removed
from .rows import number, rows
from .tables import Table

if TYPE_CHECKING:
    from ..surgery.shrink.record import Report as Shrinking


FORMATS = ("json", "sarif", "junit", "markdown")  # each a file of this room but the first


@dataclass(frozen=True, slots=True, eq=False)
class Sheet:
    """The findings of one command on one model.

    by        census or shrink
    command   as it was typed
    headline  the verdict in a sentence
    table     layer by layer
    record    everything that was counted, as plain numbers
    failed    why the command fails: each condition that does, and its words
    unsure    rules that were not found and cannot be ruled out either, because not everything is known or measured
    ignored   rules that are left out altogether
    """

    by: str
    model: str
    data: str
    command: str
    findings: tuple[Place, ...]
    headline: str
    table: Table
    record: Mapping[str, Any]
    conditions: tuple[Condition, ...] = ()
    failed: Mapping[str, str] = field(default_factory=dict)
    unsure: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()

    def text(self, form: str) -> str:
        """The sheet in a format: json, sarif, junit or markdown."""
        if form == "json":
            return _json(self)
        write: Callable[[Sheet], str] = getattr(import_module(f".{form}", __package__), form)
        return write(self)


def census_sheet(
    census: Census, *, model: str, data: str = "", command: str = "", policy: Policy | None = None,
    conditions: tuple[Condition, ...] = (), made_at: str = "",
) -> Sheet:  # fmt: skip
    """The sheet of a census."""
    policy = policy or Policy()
    found = places(census.findings, policy, made_at=made_at)
    said = {c.text: c.failed(found, census, policy) for c in conditions}
    seen = {a.rule for a in found}
    unsure = tuple(r.id for r in rules_of("census") if r.id not in seen and is_open(r, census, policy))
    return Sheet(
        "census", model, data, command, found, verdict(census)[0], _layers(census), census.to_dict(), conditions,
        {text: why for text, why in said.items() if why}, unsure, policy.dropped,
    )  # fmt: skip


def shrink_sheet(
    report: Shrinking, *, model: str, data: str = "", command: str = "", policy: Policy | None = None,
    conditions: tuple[Condition, ...] = (), made_at: str = "",
) -> Sheet:  # fmt: skip
    """The sheet of what `shrink` did."""
    policy = policy or Policy()
    found = places(see_removed(report), policy, made_at=made_at)
    said = {c.text: c.failed(found, None, policy) for c in conditions}
    body = tuple(
        (a.layer, f"{a.units:,} to {a.units_left:,}", f"{a.connections:,} to {a.connections_left:,}", a.in_words)
        for a in report.layers
    )
    table = Table(("layer", "units", "connections", "why"), body, ("left", "right", "right", "left"))
    headline = ". ".join((report.ground_in_words, *report.lines)) + "."
    return Sheet(
        "shrink", model, data, command, found, headline, table, report.to_dict(), conditions,
        {text: why for text, why in said.items() if why}, (), policy.dropped,
    )  # fmt: skip


def _layers(census: Census) -> Table:
    columns = ("layer", "line", "dead units", "linear units", "units", "dead points", "died here first", "spread",
               "gradient", "signal")  # fmt: skip
    body = tuple(
        (row.label, row.layer.where, _of(row.units.dead, row.units.unknown), _of(row.units.linear, row.units.unknown),
         str(row.units.total), str(row.points.dead) if row.points.total else "·", str(row.layer.first_deaths),
         number(row.spread), number(row.gradient), ", ".join(row.words))
        for row in rows(census)
    )  # fmt: skip
    return Table(columns, body, ("left", "left", *["right"] * 7, "left"))


def _of(count: int, unknown: int) -> str:
    return f"{count} (of {unknown} it is unknown)" if unknown else str(count)


def _json(sheet: Sheet) -> str:
    """Everything that was counted, and the findings; census.schema.json and shrink.schema.json describe it."""
    head = {
        "format": f"alive {sheet.by} {2 if sheet.by == 'census' else 1}",
        "version": __version__,
        "model": sheet.model,
        "data": sheet.data,
    }
    tail = {
        "findings": [asdict(a) for a in sheet.findings],
        "unsure": list(sheet.unsure),
        "failed": dict(sheet.failed),
    }
    return json.dumps({**head, **_finite(sheet.record), **tail}, indent=2, allow_nan=False)


def _finite(value: Any) -> Any:
    """Plain values without NaN and infinity, which are not JSON: null in their place."""
    if isinstance(value, float):
        return value if value - value == 0 else None
    if isinstance(value, Mapping):
        return {name: _finite(inner) for name, inner in value.items()}
    return [_finite(inner) for inner in value] if isinstance(value, list | tuple) else value
