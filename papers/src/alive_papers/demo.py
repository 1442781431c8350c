"""What `alive demo` shows of the experiment "demo", 001-T1 and the mirrored start: a table, two pictures, numbers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.table import Table

from alive.files import expect_writable, write_atomically

from .experiments import Measured, Row
from .experiments.measure import mean
from .experiments.p001_separation.fifty import DEMO, PUBLISHED, above_chance
from .report.moons import NOTES, decisions, in_short, lives

NUMBERS = "results.json"
OPENING, A_SECOND = 10, 20  # seconds to load and draw; networks trained a second on two cores


@dataclass(frozen=True, slots=True)
class Summary:
    """One method over all seeds; `trained` counts the seeds that were ever above chance.

    Units and points are counted after the last epoch. A network that broke in its first step has no such numbers.
    """

    method: str
    seeds: int
    trained: int
    best_train: Measured | None
    best_test: Measured | None
    last_train: Measured | None
    dead_units: Measured | None
    linear_units: Measured | None
    dead_points: Measured | None
    published: tuple[float, float] | None


def prepare(folder: Path, *, seeds: int) -> str:
    """Make the folder; returns what will be done, in words. Refuses bad numbers and a folder that cannot be written."""
    networks = len(DEMO.cells(seeds=seeds))
    with suppress(OSError):  # the next line has the better message
        folder.mkdir(parents=True, exist_ok=True)
    expect_writable(folder / NUMBERS)
    seconds = OPENING + networks // A_SECOND
    return f"{networks} networks: about {seconds} seconds; the first time 20 more, to compile the training code"


def summarise(rows: Sequence[Row]) -> list[Summary]:
    """The methods in their order, over their seeds."""
    return [_summary([row for row in rows if row.cell.label == label]) for label in _labels(rows)]


def _labels(rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(row.cell.label for row in rows))


def _summary(rows: Sequence[Row]) -> Summary:
    """The rows of one method."""
    label = rows[0].cell.label

    def at_end(column: str) -> Measured | None:
        return mean([getattr(row.last, column) for row in rows if row.last is not None])

    return Summary(
        label,
        len(rows),
        sum(map(above_chance, rows)),
        mean([row.best_train for row in rows]),
        mean([row.best_test for row in rows if row.best_test is not None]),
        at_end("train_accuracy"),
        at_end("dead_units"),
        at_end("linear_units"),
        at_end("dead_points"),
        PUBLISHED.get(label),
    )


def table(rows: Sequence[Row]) -> Table:
    """The methods for a terminal, beside the published figures."""
    net, summaries = rows[0].member, summarise(rows)
    seeds = max(s.seeds for s in summaries)
    over = "one seed" if seeds == 1 else f"mean ± standard deviation over {seeds} seeds"
    size = f"{net.depth}x{net.width}"
    grid = Table(title=f"{size} network on MOONS, {over}; accuracies are the best over epochs, as in the paper")
    grid.caption = "; ".join(f"{s.method}: {NOTES[s.method]}" for s in summaries)
    counts = ("dead\nunits", "linear\nunits", "dead\npoints")
    for column in ("method", "above\nchance", "train", "test", "published\ntrain / test", *counts):
        grid.add_column(column, justify="left" if column == "method" else "right")
    for s in summaries:
        grid.add_row(*_line(s))
    return grid


def _line(s: Summary) -> list[str]:
    """One method as the table has it: a single seed to the last digit, means shorter."""
    one = s.seeds == 1
    trained = ("no", "yes")[s.trained] if one else f"{s.trained} of {s.seeds}"
    digits = 4 if one else 3
    accuracies = [_shown(value, digits) for value in (s.best_train, s.best_test)]
    published = "·" if s.published is None else " / ".join(f"{value:.{digits}f}" for value in s.published)
    counts = [_shown(value, 0 if one else 1) for value in (s.dead_units, s.linear_units, s.dead_points)]
    return [s.method, trained, *accuracies, published, *counts]


def _shown(value: Measured | None, digits: int) -> str:
    if value is None:
        return "·"
    spread = f" ± {value.spread:.{digits}f}" if value.spread else ""
    return f"{value.ours:.{digits}f}{spread}"


def write(rows: Sequence[Row], folder: Path) -> list[Path]:
    """Write the pictures (of the first seed) and all numbers; returns the files."""
    pictures = {"decision-maps.png": decisions, "alive-over-time.png": lives, "in-short.svg": in_short}
    for name, draw in pictures.items():
        draw(rows, folder / name)
    numbers = {
        "summaries": [asdict(summary) for summary in summarise(rows)],
        "networks": [_numbers(row) for row in rows],
    }
    write_atomically(folder / NUMBERS, json.dumps(numbers, indent=2).encode())
    return [*(folder / name for name in pictures), folder / NUMBERS]


def _numbers(row: Row) -> dict[str, object]:
    """What the store has of one network, except its trace and weights."""
    found = {
        name: value for name, value in row.result.items() if name in ("best_train", "best_test", "last", "stopped")
    }
    return {"method": row.cell.label, "seed": row.member.seed, **found}
