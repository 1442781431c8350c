"""Pictures of the study on tables: who ranks where, and what depth does."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from pathlib import Path

from ..experiments import Row
from ..experiments.ours.tables import Scores, scores
from .save import save_figure

# Of the studentised range at .05 over √2, for 2, 3, 4 ... methods (Demšar 2006, Table 5).
NEMENYI = (1.960, 2.343, 2.569, 2.728, 2.850, 2.949, 3.031, 3.102, 3.164)
COLOURS = ("#56616a", "#9a3b26", "#b07c1f", "#1f6b4a", "#2b5f86", "#5c4a8a", "#8a8f94", "#25313b")


def average_ranks(found: Scores, depth: int) -> tuple[dict[str, float], int]:
    """Of the methods at a depth, and those that have none: mean rank over the tables that all have; and how many.

    Equal scores share their ranks.

    >>> found = {("a", "x", 2): 0.9, ("a", "y", 2): 0.8, ("b", "x", 2): 0.7, ("b", "y", 2): 0.7}
    >>> average_ranks(found, 2)
    ({'x': 1.25, 'y': 1.75}, 2)
    """
    some = {(table, label): score for (table, label, at), score in found.items() if at in (0, depth)}
    labels = list(dict.fromkeys(label for _, label in some))
    tables = [t for t in dict.fromkeys(table for table, _ in some) if all((t, label) in some for label in labels)]
    ranks: dict[str, list[float]] = {label: [] for label in labels}
    for table in tables:
        row = [some[table, label] for label in labels]
        for label, score in zip(labels, row, strict=True):
            ranks[label].append(1 + sum(other > score for other in row) + (row.count(score) - 1) / 2)
    return {label: statistics.fmean(each) for label, each in ranks.items() if each}, len(tables)


def critical_difference(methods: int, tables: int) -> float:
    """How far two average ranks must lie apart to be told apart (Nemenyi's test at .05).

    >>> round(critical_difference(4, 14), 2)
    1.25
    """
    return NEMENYI[methods - 2] * math.sqrt(methods * (methods + 1) / (6 * tables))


def ranks(rows: Sequence[Row], path: Path) -> None:
    """Draw a line of average ranks for each depth, bars joining what is not told apart."""
    from matplotlib.figure import Figure

    found = scores(rows)
    depths = sorted({depth for _, _, depth in found} - {0})
    figure = Figure(figsize=(7.6, 2.3 * len(depths)))
    for axis, depth in zip(figure.subplots(len(depths), 1, squeeze=False)[:, 0], depths, strict=True):
        means, tables = average_ranks(found, depth)
        order = sorted(means, key=lambda label: means[label])
        apart = critical_difference(len(order), tables)
        half = (len(order) + 1) // 2
        for place, label in enumerate(order):
            left = place < half
            height = 1.0 + (place if left else len(order) - 1 - place)
            x, end = means[label], 0.6 if left else len(order) + 0.4
            axis.plot([x, x, end], [0, height, height], color="#56616a", linewidth=0.9)
            axis.text(end, height, f" {label} {x:.2f} ", ha="right" if left else "left", va="center", fontsize=8)
        for level, (first, last) in enumerate(_joined([means[label] for label in order], apart)):
            axis.plot([first - 0.05, last + 0.05], [-0.5 - 0.45 * level] * 2, color="#25313b", linewidth=3)
        axis.plot([1, len(order)], [0, 0], color="#25313b", linewidth=1)
        axis.set_xlim(-1.6, len(order) + 2.8)
        axis.set_ylim(-2.6, half + 0.8)
        axis.set_title(f"{depth} layers: {tables} tables, critical difference {apart:.2f}", fontsize=9, loc="left")
        axis.axis("off")
    save_figure(figure, path)


def _joined(means: Sequence[float], apart: float) -> list[tuple[float, float]]:
    """The longest runs of ranks that lie within a critical difference; none inside another."""
    runs = [(first, max(each for each in means if each - first <= apart)) for first in means]
    return [run for i, run in enumerate(runs) if run[1] > run[0] and (i == 0 or run[1] > runs[i - 1][1])]


def depths(rows: Sequence[Row], path: Path) -> None:
    """Draw accuracy against depth, a line a method; what has no depth is a level."""
    from matplotlib.figure import Figure

    found = scores(rows)
    figure = Figure(figsize=(7.0, 4.0))
    axis = figure.subplots()
    labels = list(dict.fromkeys(label for _, label, _ in found))
    for colour, mark, label in zip(COLOURS, "so^vDP..", labels, strict=False):
        places = sorted({depth for _, one, depth in found if one == label})
        means = [statistics.fmean(s for (_, one, at), s in found.items() if (one, at) == (label, d)) for d in places]
        if places == [0]:
            axis.axhline(means[0], color=colour, linestyle="--", linewidth=1.2, label=label)
        else:
            axis.plot(places, means, color=colour, marker=mark, markersize=5, label=label)
    axis.set_xlabel("layers")
    axis.set_ylabel("test accuracy, mean over tables")
    axis.legend(fontsize=8, ncols=2)
    axis.grid(alpha=0.3)
    save_figure(figure, path)
