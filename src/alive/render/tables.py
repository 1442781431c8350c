"""A plain table: names of columns, rows of text, and how they are set."""

from __future__ import annotations

from typing import NamedTuple


class Table(NamedTuple):
    """Columns, rows, and for each column left or right."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    sides: tuple[str, ...]

    def markdown(self) -> str:
        """As Markdown has it.

        >>> print(Table(("a", "b"), (("x", "1"),), ("left", "right")).markdown())
        | a | b |
        |---|--:|
        | x | 1 |
        """
        rule = "".join("--:|" if side == "right" else "---|" for side in self.sides)
        return "\n".join([_row(self.columns), f"|{rule}", *map(_row, self.rows)])


def _row(cells: tuple[str, ...]) -> str:
    return f"| {' | '.join(map(cell, cells))} |"


def cell(text: str) -> str:
    """Text that stays as it is in Markdown: no bar ends a cell, no bracket begins a tag, nothing is emphasised."""
    for mark in "\\`*_<>[]|":
        text = text.replace(mark, f"\\{mark}")
    return " ".join(text.split())
