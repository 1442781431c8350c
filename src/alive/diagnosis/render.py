"""A census for people: a terminal table and plain text; `page` has it as HTML."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from io import StringIO
from typing import Any, NamedTuple

from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from .advice import Advice, advise
from .page import Origin, fragment, page
from .record import BENDS_NOTHING, Census, Tally
from .rows import HEALTHY, Row, number, rows, worst_first
from .verdict import verdict

__all__ = ["SCREENFUL", "Origin", "fragment", "page", "table", "text"]

SCREENFUL = 15  # layers in a table that is not asked for all of them
WIDEST = 10_000  # columns, when we ask how many a table would take
NARROW, WORDS = 26, 22  # columns that long labels and words are folded to before others are left out
COLOURS = {"dead": "red", "linear": "yellow", "nonlinear": "green", "broken": "bold magenta", "unknown": "cyan"}
FOLD, LINE = "fold", "line"
LEAST_MISSED = (
    *("nonlinear points", "linear points", FOLD, LINE, "rank"),
    *("nonlinear units", "died here first", "linear units", "gradient", "spread"),
)  # what goes where there is no room, one after the other


def table(census: Census, *, everything: bool = False) -> Shown:
    """The layers, the sums, the verdict and the advice, for a terminal of any width.

    The worst layers come first, a screenful of them; `everything`: all of them, in the network's order.
    """
    return Shown(census, everything, "alive census --all", "a wider terminal or --json")


def text(census: Census, *, everything: bool = False) -> str:
    """The same without colours, 120 columns wide."""
    console = Console(file=StringIO(), width=120, no_color=True, color_system=None)
    more = "alive.diagnosis.render.text(census, everything=True)"
    console.print(Shown(census, everything, more, "census.to_json()"))
    return console.file.getvalue().rstrip()  # type: ignore[attr-defined,no-any-return]


class Column(NamedTuple):
    """A column: its heading, the cell of a layer, that of the sums, and whether it is left-aligned words."""

    name: str
    cell: Callable[[Row], Text]
    total: Text
    words: bool = False

    @property
    def heading(self) -> str:
        """The name in two lines."""
        return self.name.replace(" ", "\n") if self.name != "died here first" else "died here\nfirst"


@dataclass(frozen=True, slots=True, eq=False)
class Shown:
    """A census as it is printed: as many columns as the terminal has room for, and words on those left out."""

    census: Census
    everything: bool
    more: str  # what shows the layers that are left out
    rest: str  # what has the columns that are

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        found = rows(self.census)
        listed = found if self.everything else worst_first(found)[:SCREENFUL]
        columns, wide = _columns(self.census, found), options.update_width(WIDEST)

        def grid(left_out: Sequence[str]) -> Table:
            kept = [column for column in columns if column.name not in left_out]
            return _grid(self.census, listed, kept, folded=FOLD in left_out)

        left_out = _left_out(lambda some: Measurement.get(console, wide, grid(some)).maximum <= options.max_width)
        yield grid(left_out)
        yield from _hidden(found, listed, self.more)
        missing = [column.name for column in columns if column.name in left_out and column.name != LINE]
        if missing:
            yield Text(f"(no room for: {', '.join(missing)}; {self.rest} has them)", style="dim")
        yield from _judged(self.census)


def _left_out(fits: Callable[[Sequence[str]], bool]) -> list[str]:
    """What to leave out until the rest fits, the least missed first; and of that, what has room after all stays."""
    left_out: list[str] = []
    for name in LEAST_MISSED:
        if fits(left_out):
            break
        left_out.append(name)
    for name in reversed(left_out):
        without = [other for other in left_out if other != name]
        left_out = without if fits(without) else left_out
    return left_out


def _columns(census: Census, found: Sequence[Row]) -> list[Column]:
    """All columns that have something to say."""
    states = shown_states(census)
    columns = [Column(LINE, lambda row: Text(row.layer.where, "dim"), Text(), True)]
    columns += [_count(f"{state} units", state, lambda row: row.units, census.units) for state in states]
    columns += [_count(f"{state} points", state, lambda row: row.points, census.points) for state in states]
    columns += [
        Column("died here first", lambda row: Text(str(row.layer.first_deaths or ""), "red"), Text()),
        Column("spread", lambda row: Text(number(row.spread)), Text()),
        Column("rank", lambda row: Text(number(row.rank)), Text()),
        Column("gradient", lambda row: Text(number(row.gradient)), Text()),
        Column("signal", _words, Text(), True),
    ]
    empty = {LINE: len(_lines(found)) < 2, "signal": not any(row.words for row in found)}
    empty["died here first"] = not any(row.layer.first_deaths for row in found)
    empty |= {name: all(getattr(row, name) is None for row in found) for name in ("spread", "rank", "gradient")}
    return [column for column in columns if not empty.get(column.name, False)]


def _count(name: str, state: str, tally: Callable[[Row], Tally], total: Tally) -> Column:
    def shown(counts: Tally) -> Text:
        if not counts.total:
            return Text("·", "dim")
        count = getattr(counts, state)
        return Text(str(count), COLOURS[state]) if count else Text("0", "dim")

    return Column(name, lambda row: shown(tally(row)), shown(total))


def _words(row: Row) -> Text:
    return Text(", ").join(Text(word, "yellow" if word == BENDS_NOTHING else "bold red") for word in row.words)


def _lines(found: Sequence[Row]) -> set[str]:
    """The lines that call the activations; "" where one is not known."""
    return {row.layer.where for row in found}


def _grid(census: Census, listed: Sequence[Row], columns: Sequence[Column], *, folded: bool) -> Table:
    """The layers, their sums, and the signal at both ends; long words `folded` or not."""
    grid = Table(header_style="bold", box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    grid.add_column("layer", overflow="fold", max_width=NARROW if folded else None)
    for column in columns:
        least = max(map(len, column.heading.split("\n")))
        widest = WORDS if folded and column.words else None
        justify: Any = "left" if column.words else "right"
        grid.add_column(column.heading, justify=justify, overflow="fold", min_width=least, max_width=widest)
    below = columns[0].name != LINE and len(_lines(listed)) > 1  # where there is no room for a column of them
    for row in listed:
        label = Text(row.label)  # a name is not markup
        if below and row.layer.where:
            label.append(f"\n{row.layer.where}", "dim")
        grid.add_row(label, *(column.cell(row) for column in columns))
    grid.add_section()
    grid.add_row("all", *(column.total for column in columns), style="bold")
    for name, signal in (("input", census.input), ("output", census.output)):
        told = {} if signal is None else {"spread": signal.spread, "rank": signal.rank}
        if any(told.get(column.name) is not None for column in columns):
            grid.add_row(name, *(number(told[c.name]) if c.name in told else "" for c in columns), style="dim")
    return grid


def _hidden(found: Sequence[Row], listed: Sequence[Row], more: str) -> RenderResult:
    """What is said of all layers at once, and how many are not shown."""
    if len(lines := _lines(found)) == 1 and "" not in lines:
        yield Text(f"(all called at {lines.pop()})", style="dim")
    numbers = {row.number for row in listed}
    if hidden := [row for row in found if row.number not in numbers]:
        sick = sum(row.severity < HEALTHY for row in hidden)
        layers = f"{len(hidden)} layer{'s' * (len(hidden) > 1)} not shown"
        how = f"none worse than these, {sick} not healthy" if sick else "all healthy"
        yield Text(f"({layers}, {how}; all, in the network's order: {more})", style="dim")


def _judged(census: Census) -> RenderResult:
    advice = advise(census)
    judged = verdict(census, advice)
    yield Text(judged.text, style="bold red" if judged.grave else "yellow" if advice else "green")
    for each in advice:
        yield _spoken(each)


def _spoken(advice: Advice) -> Text:
    style = "bold red" if advice.grave else "yellow"
    return Text.assemble(("▸ ", style), f"{advice.found}. ", ("What to do: ", "bold"), f"{advice.do}.")


def shown_states(census: Census) -> list[str]:
    """The states worth a column: broken and unknown only where something is."""
    rare = [s for s in ("broken", "unknown") if getattr(census.units, s) or getattr(census.points, s)]
    return ["dead", "linear", "nonlinear", *rare]
