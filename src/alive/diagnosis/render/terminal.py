"""A census as a terminal table and as plain text; `page` has it as HTML."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from io import StringIO

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from ...screen import Screen
from ..advice import Advice, advise
from ..record import BY_POSITION, Census
from .grid import LINE, grid
from .rows import HEALTHY, LayerRow, rows, worst_first
from .verdict import verdict

SCREENFUL = 15  # layers in a table that is not asked for all of them


def table(census: Census, *, everything: bool = False) -> Shown:
    """The layers, the sums, the verdict and the advice, for a terminal of any width.

    The worst layers come first, a screenful of them; `everything`: all of them, in the network's order.
    """
    return Shown(census, everything, "alive census --all", "a wider terminal or --json")


def text(census: Census, *, everything: bool = False) -> str:
    """The same without colours, 120 columns wide."""
    console = Screen(file=StringIO(), width=120, no_color=True, color_system=None)
    more = "alive.diagnosis.render.text(census, everything=True)"
    console.print(Shown(census, everything, more, "census.to_json()"))
    return console.file.getvalue().rstrip()  # type: ignore[attr-defined,no-any-return]


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
        whole = grid(self.census, found, listed)
        left_out = whole.left_out(options.max_width)
        yield whole.table(left_out)
        yield from _hidden(found, listed, self.more)
        missing = [column.name for column in whole.columns if column.name in left_out and column.name != LINE]
        if missing:
            yield Text(f"(no room for: {', '.join(missing)}; {self.rest} has them)", style="dim")
        if self.census.paired:
            yield Text(f"({BY_POSITION}: {', '.join(self.census.paired)})", style="dim")
        yield from _judged(self.census)


def _hidden(found: Sequence[LayerRow], listed: Sequence[LayerRow], more: str) -> RenderResult:
    """Remarks on all layers together, and how many are not shown."""
    lines = {row.layer.where for row in found}
    if len(lines) == 1 and "" not in lines:
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
    rule = (f" [{advice.rule}]", "dim") if advice.rule else ""
    return Text.assemble(("▸ ", style), f"{advice.found}. ", ("What to do: ", "bold"), f"{advice.do}.", rule)
