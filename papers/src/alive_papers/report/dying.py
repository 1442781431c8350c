"""Pictures of the studies: measures of every method in every setting, and their course over tasks."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..experiments import Row
from ..experiments.ours.dying import setting
from .save import save_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WORDS = {
    "dead": "dead",
    "bits": "bits a byte",
    "off": "tokens with all units off",
    "unexplained": "variance unexplained",
    "found": "features found",
    "perplexity": "codes used as if alike",
    "accuracy": "accuracy while learning",
    "explained": "variance explained while learning",
    "balanced": "balanced, of what is possible",
    "rare": "rarely on",
    "matched": "columns like features (MCC)",
    "seconds": "seconds of a processor",
    "removed": "units removed in the end",
    "dormant": "dormant, τ = 0.1",
    "rank": "effective rank",
    "weight_norm": "norm of the weights",
}
SHARES = ("dead", "rare", "off", "found", "matched", "dormant")


def measures(rows: Sequence[Row], path: Path) -> None:
    """Draw each measure at the end: a row a measure, a column a setting, a dot a method with its spread over seeds."""
    from matplotlib.figure import Figure

    settings = list(dict.fromkeys(map(setting, rows)))
    methods = list(dict.fromkeys(row.cell.label for row in rows))
    columns = [name for name in WORDS if name in rows[0].trace]
    figure = Figure(figsize=(max(5.5, 2.0 * len(settings) + 1.6), 0.26 * len(methods) * len(columns) + 1.6))
    axes = figure.subplots(len(columns), len(settings), squeeze=False, sharey=True)
    for down, column in enumerate(columns):
        for across, where in enumerate(settings):
            own = [row for row in rows if setting(row) == where]
            known = column != "found" or any("gamma" in row.member.settings["options"] for row in own)
            _dots(axes[down, across], own if known else [], methods, column)
            if not known:
                axes[down, across].text(0.5, len(methods) / 2 - 0.5, "not known", ha="center", fontsize=7)
            if not down:
                axes[down, across].set_title(where, fontsize=8)
            axes[down, across].set_xlabel(WORDS[column], fontsize=7, labelpad=1)
    figure.align_ylabels()
    save_figure(figure, path)


def _dots(axis: Axes, rows: Sequence[Row], methods: Sequence[str], column: str) -> None:
    values: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        values[row.cell.label].append(row.trace[column][-1])
    for place, method in enumerate(methods):
        own = values[method]
        if own:
            spread = statistics.stdev(own) if len(own) > 1 else 0.0
            axis.errorbar(
                statistics.fmean(own), place, xerr=spread, fmt="o", color=f"C{place}", markersize=4, capsize=2
            )
    axis.set_yticks(range(len(methods)), methods, fontsize=7)
    axis.set_ylim(len(methods) - 0.5, -0.5)
    axis.tick_params(axis="x", labelsize=6)
    axis.locator_params(axis="x", nbins=6)
    axis.grid(alpha=0.25)
    if column in SHARES:
        axis.set_xlim(-0.04, 1.04)
    else:
        axis.set_xlim(0, 1.06 * max((max(own) for own in values.values() if own), default=1.0))


def courses(rows: Sequence[Row], path: Path) -> None:
    """Draw each measure over the tasks: a line a method, the mean over seeds, a band of one standard deviation."""
    from matplotlib.figure import Figure

    columns = [name for name in WORDS if all(name in row.trace for row in rows)]
    figure = Figure(figsize=(3.4 * min(3, len(columns)) + 0.4, 2.7 * -(-len(columns) // 3) + 0.6))
    axes = figure.subplots(-(-len(columns) // 3), min(3, len(columns)), squeeze=False).flatten()
    by_tasks = all("tasks" in row.member.settings["options"] for row in rows)
    several = len(set(map(setting, rows))) > 1
    names = [f"{setting(row)}, {row.cell.label}" if several else row.cell.label for row in rows]
    methods = list(dict.fromkeys(names))
    for axis, column in zip(axes, columns, strict=False):
        for number, method in enumerate(methods):
            own = [row for row, name in zip(rows, names, strict=True) if name == method]
            _course(axis, own, column, f"C{number}", method)
        axis.set_title(WORDS[column], fontsize=9)
        axis.set_xlabel("task" if by_tasks else "step", fontsize=8)
        axis.tick_params(labelsize=7)
        axis.grid(alpha=0.25)
    for spare in axes[len(columns) :]:
        spare.set_axis_off()
    handles, labels = axes[0].get_legend_handles_labels()
    columns_of_names = min(4 if several else 6, len(methods))
    figure.legend(handles, labels, loc="lower center", ncols=columns_of_names, frameon=False, fontsize=8)
    save_figure(figure, path, bottom=0.06)


def _course(axis: Axes, rows: Sequence[Row], column: str, colour: str, label: str) -> None:
    at: dict[float, list[float]] = defaultdict(list)
    for row in rows:
        for task, value in zip(row.trace["epoch"], row.trace[column], strict=True):
            at[task].append(value)
    tasks = sorted(at)
    means = [statistics.fmean(at[task]) for task in tasks]
    spreads = [statistics.stdev(at[task]) if len(at[task]) > 1 else 0.0 for task in tasks]
    axis.plot([task + 1 for task in tasks], means, color=colour, label=label, linewidth=1.3)
    low, high = ([m + sign * s for m, s in zip(means, spreads, strict=True)] for sign in (-1, 1))
    axis.fill_between([task + 1 for task in tasks], low, high, color=colour, alpha=0.12, linewidth=0)
