"""Curves of image experiments: accuracy against depth, and over epochs."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..experiments import Row
from .save import save_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLUMNS = 3
MARKS = "osD^vP*"


def curves(rows: Sequence[Row], path: Path) -> None:
    """Draw best test accuracy against depth, a line a method with its spread; a panel a data set, width and rate."""
    from matplotlib.figure import Figure

    panels = sorted({(row.cell.data, row.member.width, row.member.lr) for row in rows})
    across = min(len(panels), COLUMNS)
    down = -(-len(panels) // COLUMNS)
    figure = Figure(figsize=(4.4 * across + 0.4, 3.2 * down + 0.8))
    axes = figure.subplots(down, across, squeeze=False, sharey=True).flatten()
    labels = list(dict.fromkeys(row.cell.label for row in rows))
    for axis, panel in zip(axes, panels, strict=False):
        some = [row for row in rows if (row.cell.data, row.member.width, row.member.lr) == panel]
        for number, label in enumerate(labels):
            _line(axis, [row for row in some if row.cell.label == label], label, number)
        axis.set_xticks(*_ticks({row.member.depth for row in some}), fontsize=8)
        axis.set_title(_titled(panel, panels), fontsize=9)
        axis.set_xlabel("depth")
        axis.set_ylim(0, 1.02)
        axis.grid(alpha=0.25)
    for spare in axes[len(panels) :]:
        spare.remove()
    axes[0].set_ylabel("best test accuracy")
    _legend(figure, axes[0], len(labels))
    save_figure(figure, path, bottom=0.12 / down)


def rates(rows: Sequence[Row], path: Path) -> None:
    """Draw best test accuracy against the learning rate, a line a method with its spread; a panel a depth."""
    from matplotlib.figure import Figure

    depths = sorted({row.member.depth for row in rows})
    figure = Figure(figsize=(4.6 * len(depths) + 0.6, 3.8))
    axes = figure.subplots(1, len(depths), squeeze=False, sharey=True)[0]
    labels = list(dict.fromkeys(row.cell.label for row in rows))
    for axis, depth in zip(axes, depths, strict=True):
        for number, label in enumerate(labels):
            found: dict[float, list[float]] = defaultdict(list)
            for row in rows:
                if (row.member.depth, row.cell.label) == (depth, label):
                    found[row.member.lr].append(row.best_test or 0.0)
            some = sorted(found)
            axis.errorbar(
                [lr * 1.03**number for lr in some],
                [statistics.fmean(found[lr]) for lr in some],
                [statistics.pstdev(found[lr]) for lr in some],
                marker=MARKS[number % len(MARKS)],
                capsize=3,
                label=label,
            )
        axis.set_xscale("log")
        axis.set_xticks(
            sorted({row.member.lr for row in rows}), [f"{lr:g}" for lr in sorted({r.member.lr for r in rows})]
        )
        axis.set_xlabel("rate")
        axis.set_ylim(0, 1.02)
        axis.set_title(f"{rows[0].cell.data}, depth {depth}", fontsize=9)
        axis.grid(alpha=0.25)
    axes[0].set_ylabel("best test accuracy")
    axes[0].legend(fontsize=8)
    save_figure(figure, path)


def learning(rows: Sequence[Row], path: Path) -> None:
    """Draw test accuracy over epochs on the first data at their greatest depth, and the gates' residual, if any.

    A thin line for each seed, and their mean over the epochs that all have: a run that broke down ends early.
    """
    from matplotlib.figure import Figure

    data = rows[0].cell.data
    deepest = max(row.member.depth for row in rows if row.cell.data == data)
    some = [row for row in rows if (row.member.depth, row.cell.data) == (deepest, data)]
    gated = any(row.trace.get("residual") for row in some)
    figure = Figure(figsize=(6.4, 5.6 if gated else 3.8))
    axes = figure.subplots(1 + gated, 1, squeeze=False, sharex=True).flatten()
    labels = list(dict.fromkeys(row.cell.label for row in some))
    for number, label in enumerate(labels):
        own = [row for row in some if row.cell.label == label]
        _course(axes[0], own, "test_accuracy", label, number)
        if gated and own[0].trace.get("residual"):
            _course(axes[1], own, "residual", label, number)
    seeds = len({row.member.seed for row in some})
    axes[0].set_title(f"{data}, depth {deepest}, {seeds} seed{'s' * (seeds > 1)}", fontsize=9)
    axes[0].set_ylabel("test accuracy")
    axes[0].set_ylim(0, 1.02)
    axes[-1].set_xlabel("epoch")
    for axis in axes:
        axis.grid(alpha=0.25)
    if gated:
        axes[1].set_ylabel("mean (1 − α)²")
        axes[1].set_ylim(-0.02, 1.02)
    _legend(figure, axes[0], len(labels))
    save_figure(figure, path, bottom=0.1)


def _line(axis: Axes, rows: Sequence[Row], label: str, number: int) -> None:
    at: dict[int, list[float]] = defaultdict(list)
    for row in rows:
        at[row.member.depth].append(row.best_test or 0.0)
    if at:
        depths = sorted(at)
        means = [statistics.fmean(at[depth]) for depth in depths]
        spreads = [statistics.stdev(at[depth]) if len(at[depth]) > 1 else 0.0 for depth in depths]
        axis.errorbar(
            depths, means, yerr=spreads, label=label, color=f"C{number}", marker=MARKS[number % len(MARKS)],
            markersize=4, linewidth=1.4, capsize=2,
        )  # fmt: skip


def _course(axis: Axes, rows: Sequence[Row], column: str, label: str, number: int) -> None:
    """Each seed, and the mean over seeds at the epochs all of them have."""
    courses = [dict(zip(row.trace["epoch"], row.trace[column], strict=True)) for row in rows if column in row.trace]
    for course in courses if len(courses) > 1 else ():
        axis.plot([epoch + 1 for epoch in course], list(course.values()), color=f"C{number}", linewidth=0.6, alpha=0.45)
    shared = shared_epochs(courses)
    means = [statistics.fmean(course[epoch] for course in courses) for epoch in shared]
    axis.plot(
        [epoch + 1 for epoch in shared], means, label=label, color=f"C{number}", linewidth=1.6,
        marker=MARKS[number % len(MARKS)], markersize=3.5, markevery=max(1, len(shared) // 10),
    )  # fmt: skip


def shared_epochs(courses: Sequence[Mapping[float, float]]) -> list[float]:
    """The epochs for which all have a value: traces are thinned by length, so that two may step differently.

    >>> shared_epochs([{0: 0.1, 4: 0.2, 8: 0.3}, {0: 0.1, 1: 0.1, 2: 0.1, 3: 0.1, 4: 0.2}])
    [0, 4]
    """
    return sorted(set.intersection(*(set(course) for course in courses))) if courses else []


def _ticks(depths: Iterable[int]) -> tuple[list[int], list[str]]:
    """A tick a depth, named where there is room for it."""
    some = sorted(depths)
    apart = (some[-1] - some[0]) / 14
    named = [some[0]]
    for depth in some[1:]:
        named += [depth] * (depth - named[-1] >= apart)
    return some, [str(depth) if depth in named else "" for depth in some]


def _titled(panel: tuple[str, int, float], panels: Sequence[tuple[str, int, float]]) -> str:
    data, width, lr = panel
    rate = f", lr {lr:g}" if len({other[2] for other in panels}) > 1 else ""
    return f"{data}, width {width}{rate}"


def _legend(figure: object, axis: Axes, labels: int) -> None:
    handles, names = axis.get_legend_handles_labels()
    figure.legend(handles, names, loc="lower center", ncols=min(labels, 4), frameon=False, fontsize=9)  # type: ignore[attr-defined]
