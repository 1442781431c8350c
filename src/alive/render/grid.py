"""The table of a census: all its columns, and as many of them as a terminal has room for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, NamedTuple

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from ..diagnosis.record import BENDS_NOTHING, Census, Tally
from ..taps.selections import UNIT
from .rows import LayerRow, number

NARROW, WORDS = 26, 22  # what long labels and words are folded to before columns are left out
COLOURS = {"dead": "red", "linear": "yellow", "nonlinear": "green", "broken": "bold magenta", "unknown": "cyan"}
FOLD, LINE, KIND = "fold", "line", "kind"
OFTEN, RATES = "how often on", ("rare units", "nearly linear", "perplexity", "used", "load", "variation")
LEAST_MISSED = (
    *("variation", "used", OFTEN),
    *("nonlinear points", "linear points", FOLD, LINE, "rank"),
    *("nonlinear units", "died here first", "linear units", "gradient", "spread"),
)  # left out one after the other where there is no room


class Column(NamedTuple):
    """A column: its name, a cell a layer, those of the last lines, and whether it is of words, to the left."""

    name: str
    cells: tuple[Text, ...]
    ends: tuple[Text, ...]
    words: bool = False

    @property
    def heading(self) -> str:
        """The name in two lines."""
        words = self.name.split(" ")
        return "\n".join(words) if len(words) < 3 else "\n".join((" ".join(words[:2]), words[2]))

    @property
    def width(self) -> int:
        """What it takes, unfolded."""
        return max(map(_wide, (Text(self.heading), *self.cells, *self.ends)))


@dataclass(frozen=True, slots=True)
class Grid:
    """The listed layers and, below them, the sums and the signal at both ends."""

    labels: tuple[Text, ...]
    ends: tuple[str, ...]
    columns: tuple[Column, ...]

    def left_out(self, room: int) -> list[str]:
        """What to leave out until the rest fits, the least missed first; and of that, what has room after all stays."""
        widths = {column.name: column.width for column in self.columns}
        left_out: list[str] = []
        for name in LEAST_MISSED:
            if self._width(left_out, widths) <= room:
                break
            left_out.append(name)
        for name in reversed(left_out):
            without = [other for other in left_out if other != name]
            left_out = without if self._width(without, widths) <= room else left_out
        return left_out

    def table(self, left_out: Sequence[str] = ()) -> Table:
        """As rich draws it; lines that have no column of their own stand below the labels."""
        kept, folded = [column for column in self.columns if column.name not in left_out], FOLD in left_out
        grid = Table(header_style="bold", box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
        grid.add_column("layer", overflow="fold")
        for column in kept:
            least = _wide(Text(column.heading))
            widest = max(WORDS, least) if folded and column.words else None
            justify: Any = "left" if column.words else "right"
            grid.add_column(column.heading, justify=justify, overflow="fold", min_width=least, max_width=widest)
        for place, label in enumerate(self._labels(left_out)):
            grid.add_row(label, *(column.cells[place] for column in kept))
        grid.add_section()
        for place, name in enumerate(self.ends):
            grid.add_row(name, *(column.ends[place] for column in kept), style="dim" if place else "bold")
        return grid

    def _labels(self, left_out: Sequence[str]) -> tuple[Text, ...]:
        labels = (
            tuple(map(Text, shortened([label.plain for label in self.labels]))) if FOLD in left_out else self.labels
        )
        lines = next((column for column in self.columns if column.name == LINE), None)
        if lines is None or LINE not in left_out:
            return labels
        pairs = zip(labels, lines.cells, strict=True)
        return tuple(Text.assemble(label, "\n", line) if line else label for label, line in pairs)

    def _width(self, left_out: Sequence[str], widths: dict[str, int]) -> int:
        """How wide a table without these would be: its columns, two between each pair and one at either side."""
        folded = FOLD in left_out
        label = max(map(_wide, (Text("layer"), *self._labels(left_out), *map(Text, self.ends))))
        taken = [label]
        for column in self.columns:
            if column.name not in left_out:
                wide = widths[column.name]
                taken.append(min(wide, max(WORDS, len(column.name))) if folded and column.words else wide)
        return sum(taken) + 2 * len(taken)


def shortened(names: Sequence[str], room: int = NARROW) -> list[str]:
    """Names with their middle left out, where they are too long: what tells them apart stays.

    >>> shortened(["encoder.layer.6.intermediate.dense → act", "encoder.layer.11.intermediate.dense → act"])
    ['encoder.lay…6…dense → act', 'encoder.lay…11…dense → act']
    """
    before = _shared(names)
    after = _shared([name[before:][::-1] for name in names])
    return [_cut(name, before, len(name) - after, room) for name in names]


def _shared(names: Sequence[str]) -> int:
    """How many letters all begin with."""
    return next(
        (k for k, letters in enumerate(zip(*names, strict=False)) if len(set(letters)) > 1),
        min(map(len, names), default=0),
    )


def _cut(name: str, start: int, end: int, room: int) -> str:
    """A name with its own part, from start to end, and as much as has room of what it shares with others."""
    if len(name) <= room or len(name) - end + start == len(name):
        return name if len(name) <= room else f"{name[: room // 2]}…{name[-(room - room // 2 - 1) :]}"
    own = name[start:end]
    if len(own) > room - 2:
        own = f"{own[: room // 2]}…{own[-(room - room // 2 - 3) :]}"
    half = (room - len(own) - 2) // 2
    left = name[:start] if start <= half else f"{name[:half]}…"
    right = name[end:] if len(name) - end <= half else f"…{name[len(name) - half :] if half else ''}"
    return f"{left}{own}{right}"


def grid(census: Census, found: Sequence[LayerRow], listed: Sequence[LayerRow], *, often: bool = False) -> Grid:
    """The table of the listed layers, with all columns that say something of any layer; `often` also the rates."""
    labels = tuple(Text(row.label) for row in listed)  # a name is not markup
    signals = {"input": census.input, "output": census.output}
    told = {name: signal for name, signal in signals.items() if signal is not None and signal.spread is not None}
    units = reduce(Tally.plus, (row.units for row in found), Tally())
    ends = ("all", *told)

    def column(
        name: str, cell: Callable[[LayerRow], Text], total: Text | None = None, *, words: bool = False
    ) -> Column:
        rest = [Text(number(getattr(s, name))) if name in ("spread", "rank") else Text() for s in told.values()]
        return Column(name, tuple(map(cell, listed)), (total or Text(), *rest), words)

    states = shown_states(units, census.points)
    columns = [column(LINE, lambda row: Text(row.layer.where, "dim"), words=True)]
    columns += [column(KIND, lambda row: Text(f"{row.layer.noun}s"), Text("units"), words=True)]
    columns += [column(f"{s} units", lambda row, s=s: _count(row.units, s), _count(units, s)) for s in states]  # type: ignore[misc]
    columns += [
        column(f"{s} points", lambda row, s=s: _count(row.points, s), _count(census.points, s))  # type: ignore[misc]
        for s in states
    ]
    columns += [
        *(
            column(name, lambda row, name=name: _measure(dict(row.measures(census.rare)).get(name)))  # type: ignore[misc]
            for name in RATES
        ),
        column(OFTEN, lambda row: Text(row.layer.rates.bars if row.layer.rates else "", "dim"), words=True),
    ]
    columns += [
        column("died here first", lambda row: Text(str(row.layer.first_deaths or ""), "red")),
        column("spread", lambda row: Text(number(row.spread))),
        column("rank", lambda row: Text(number(row.rank))),
        column("gradient", lambda row: Text(number(row.gradient))),
        column("signal", _words, words=True),
    ]
    silent = _silent(found) | _even(census, found, often)
    return Grid(labels, ends, tuple(column for column in columns if column.name not in silent))


def _silent(found: Sequence[LayerRow]) -> set[str]:
    """The columns that would say nothing, of no layer, or the same of all."""
    says = {
        LINE: len({row.layer.where for row in found}) > 1,
        KIND: any(row.layer.noun != "unit" for row in found),
        "died here first": any(row.layer.first_deaths for row in found),
        "spread": any(row.spread is not None for row in found),
        "rank": any(row.rank is not None for row in found),
        "gradient": any(row.gradient is not None for row in found),
        "signal": any(row.words for row in found),
    }
    return {name for name, does in says.items() if not does}


def _measure(value: float | None) -> Text:
    return Text("" if value is None else number(value), "yellow" if value else "dim")


def _even(census: Census, found: Sequence[LayerRow], often: bool) -> set[str]:
    """The columns of rates that would say nothing."""
    told = [dict(row.measures(census.rare)) for row in found]
    says = {name: any(row.get(name) for row in told) for name in RATES}
    some = often or says["rare units"] or says["nearly linear"] or any(row.layer.noun != UNIT for row in found)
    return {name for name, does in (says | {OFTEN: some}).items() if not does}


def shown_states(*tallies: Tally) -> list[str]:
    """The states worth a column: broken and unknown only where something is."""
    rare = [state for state in ("broken", "unknown") if any(getattr(tally, state) for tally in tallies)]
    return ["dead", "linear", "nonlinear", *rare]


def _count(tally: Tally, state: str) -> Text:
    if not tally.total:
        return Text("·", "dim")
    count = getattr(tally, state)
    return Text(str(count), COLOURS[state]) if count else Text("0", "dim")


def _words(row: LayerRow) -> Text:
    return Text(", ").join(Text(word, "yellow" if word == BENDS_NOTHING else "bold red") for word in row.words)


def _wide(text: Text) -> int:
    return max(map(cell_len, text.plain.split("\n")))
