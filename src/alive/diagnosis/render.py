"""A census for people: a terminal table, plain text, and HTML."""

from __future__ import annotations

from io import StringIO
from typing import Any

from jinja2 import Environment, PackageLoader
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from .advice import advise
from .census import Census, Tally

LONG = 40  # layers beyond which only the troubled ones are listed
COLOURS = {"dead": "red", "linear": "yellow", "nonlinear": "green", "broken": "bold magenta", "unknown": "cyan"}


def table(census: Census) -> Group:
    """The layers, the sums and the advice, for a terminal."""
    shown = _shown(census)
    grid = Table(title=None, header_style="bold", pad_edge=False)
    grid.add_column("layer")
    for what in ("units", "points"):
        for state in shown:
            grid.add_column(f"{state}\n{what}", justify="right")
    grid.add_column("died here\nfirst", justify="right")
    for layer in _listed(census):
        grid.add_row(
            Text(layer.name),  # a name is not markup
            *_cells(layer.units, shown),
            *(_cells(layer.points, shown) if layer.points.total else ["·"] * len(shown)),
            Text(str(layer.first_deaths or ""), style="red"),
        )
    grid.add_section()
    grid.add_row("all", *_cells(census.units, shown), *_cells(census.points, shown), "", style="bold")
    hidden = len(census.layers) - len(_listed(census))
    note = [Text(f"({hidden} layers not shown)", style="dim")] if hidden else []
    advice = [_spoken(a) for a in advise(census)]
    return Group(grid, *note, *(advice or [Text("Every unit and every point is alive.", style="green")]))


def text(census: Census) -> str:
    """The same without colours, 120 columns wide."""
    console = Console(file=StringIO(), width=120, no_color=True, color_system=None)
    console.print(table(census))
    return console.file.getvalue().rstrip()  # type: ignore[attr-defined,no-any-return]


def fragment(census: Census) -> str:
    """The same as HTML, for a notebook."""
    return _html("census.html", census)


def page(census: Census, title: str) -> str:
    """The same as one self-contained HTML page."""
    return _html("page.html", census, title=title)


def _html(template: str, census: Census, **more: Any) -> str:
    environment = Environment(loader=PackageLoader("alive.diagnosis", "templates"), autoescape=True)
    return environment.get_template(template).render(
        census=census, listed=_listed(census), states=_shown(census), names=Tally._fields, advice=advise(census), **more
    )


def _shown(census: Census) -> list[str]:
    """The states worth a column: broken and unknown only where something is."""
    rare = [s for s in ("broken", "unknown") if getattr(census.units, s) or getattr(census.points, s)]
    return ["dead", "linear", "nonlinear", *rare]


def _listed(census: Census) -> list[Any]:
    if len(census.layers) <= LONG:
        return list(census.layers)
    return [a for a in census.layers if any(t.dead or t.broken or t.unknown for t in (a.units, a.points))][:LONG]


def _cells(tally: Tally, shown: list[str]) -> list[Text]:
    return [
        Text(str(count), style=COLOURS[state]) if (count := getattr(tally, state)) else Text("0", style="dim")
        for state in shown
    ]


def _spoken(advice: Any) -> Text:
    style = "bold red" if advice.grave else "yellow"
    return Text.assemble(("▸ ", style), f"{advice.found}. ", ("What to do: ", "bold"), f"{advice.do}.")
