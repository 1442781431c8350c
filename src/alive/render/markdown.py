"""Findings as Markdown: for a summary or a comment of a CI run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .tables import Table, cell

if TYPE_CHECKING:
    from .sheet import Sheet

MARKS = {"error": "❌", "warning": "⚠️", "note": "ℹ️"}


def markdown(sheet: Sheet) -> str:
    """The verdict, the findings and the layers."""
    data = f" on {cell(sheet.data)}" if sheet.data else ""
    parts = [f"## alive {sheet.by}: {cell(sheet.model)}{data}", cell(sheet.headline)]
    parts += [f"**Fails:** {cell(why)}." for why in sheet.failed.values()]
    rows = tuple(
        (f"{MARKS[a.level]} {a.rule}", a.label, a.where, f"{a.message}. What to do: {a.do}." if a.do else a.message)
        for a in sheet.findings
    )
    found = Table(("rule", "layer", "line", "what, and what to do"), rows, ("left",) * 4)
    parts.append(found.markdown() if rows else "Nothing was found.")
    if sheet.unsure:
        rest = ", ".join(sheet.unsure)
        parts.append(f"Not found, and not ruled out, because not everything is known or measured: {rest}.")
    parts.append(
        f"<details><summary>{len(sheet.table.rows)} layers</summary>\n\n{sheet.table.markdown()}\n\n</details>"
    )
    return "\n\n".join(parts) + "\n"
