"""The commands that explain findings: the rules, and the schemas of JSON."""

from __future__ import annotations

from typing import Annotated

import typer

from . import values
from .words import completing, put, show


def rules(
    name: Annotated[
        str | None, typer.Argument(metavar="ID", help="Such as ALV001; without one, a list of all.",
                                   autocompletion=completing(values.RULES))
    ] = None,
    as_markdown: Annotated[bool, typer.Option("--markdown", help="As Markdown, as docs/rules has it.")] = False,
) -> None:  # fmt: skip
    """List the rules behind findings, or explain one: cause, how it is counted, cure, how to silence it."""
    from ..findings.rules import RULES, index, page, rule

    if as_markdown:
        put(index(RULES.values()) if name is None else page(rule(name)), end="\n" if name is None else "")
        return
    if name is not None:
        from rich.markdown import Markdown

        show(Markdown(page(rule(name)), code_theme="ansi_dark"))
        return
    from rich.table import Table

    grid = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("id", "level", "by", "what is found"):
        grid.add_column(column)
    for each in RULES.values():
        grid.add_row(each.id, each.level, each.by, each.short)
    show(grid)
    show("alive rules ALV001 explains one.")


def schema(
    name: Annotated[str, typer.Argument(metavar="COMMAND", help="census or shrink.",
                                        autocompletion=completing(values.SCHEMAS))],
) -> None:  # fmt: skip
    """Print the JSON schema of what a command writes with --format json."""
    from ..render.schemas import schema as published

    put(published(name), end="")
