"""A census as a terminal table and as plain text; `page` has it as HTML."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from io import StringIO

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from ..diagnosis.rates import BINS
from ..diagnosis.record import BY_POSITION, Census
from ..findings.finding import Finding
from ..findings.rules import verdict
from ..screen import Screen
from .grid import LINE, OFTEN, grid
from .rows import HEALTHY, LayerRow, rows, worst_first

SCREENFUL, MOST = 15, 3  # layers in a table, and findings, where not all of them are asked for


def table(census: Census, *, everything: bool = False) -> Shown:
    """The verdict, the findings, the layers and the sums, for a terminal of any width.

    The gravest findings and the worst layers come first, and no more of them than a screen holds; `everything`: all of
    them, the layers in the network's order.
    """
    return Shown(census, everything, "alive census -v", "a wider terminal or --json")


def text(census: Census, *, everything: bool = False) -> str:
    """The same without colours, 120 columns wide."""
    console = Screen(file=StringIO(), width=120, no_color=True, color_system=None)
    more = "alive.render.text(census, everything=True)"
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
        yield from _judge(self.census, None if self.everything else MOST, self.more)
        found = rows(self.census)
        listed = found if self.everything else worst_first(found)[:SCREENFUL]
        whole = grid(self.census, found, listed, often=self.everything)
        left_out = whole.left_out(options.max_width)
        yield whole.table(left_out)
        yield from _tell_hidden(found, listed, self.more)
        if any(column.name == OFTEN for column in whole.columns) and OFTEN not in left_out:
            yield Text(f"({OFTEN}, from left to right: {', '.join(BINS)}, as a share of the values)", style="dim")
        if self.census.units.dead and self.census.never:
            yield Text(f"({self.census.never})", style="dim")
        missing = [column.name for column in whole.columns if column.name in left_out and column.name != LINE]
        if missing:
            yield Text(f"(no room for: {', '.join(missing)}; {self.rest} has them)", style="dim")
        if self.census.paired:
            yield Text(f"({BY_POSITION}: {', '.join(self.census.paired)})", style="dim")


def _tell_hidden(found: Sequence[LayerRow], listed: Sequence[LayerRow], more: str) -> RenderResult:
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


def _judge(census: Census, most: int | None, more: str) -> RenderResult:
    (said, grave), found = verdict(census), census.findings
    yield Text(said, style="bold red" if grave else "yellow" if found else "green")
    for each in found[:most]:
        yield from _spoken(each)
    if hidden := found[most:] if most is not None else ():
        yield Text(f"({len(hidden)} more: {more})", style="dim")


def _spoken(finding: Finding) -> RenderResult:
    """What was found, and what to do: code to copy on lines of its own."""
    mark = ("▸ ", "bold red" if finding.grave else "yellow")
    yield Text.assemble(mark, f"{finding.found}.", (f" [{finding.rule}]", "dim"))
    for number, (words, code) in enumerate(finding.options):
        yield Text.assemble(("  Or else " if number else "  What to do: ", "bold"), words, ":" if code else ".")
        yield from (Text(f"      {line}") for line in code)
