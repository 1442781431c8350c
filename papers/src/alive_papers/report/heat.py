"""Heat maps like the papers': depth against width, a panel a method."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..experiments import Row
from ..experiments.keras_grids import learnt
from ..experiments.measure import trains
from .save import save_figure

ACROSS = 3  # panels a row
Size = tuple[int, int]


def heat(rows: Sequence[Row], path: Path) -> None:
    """Draw a panel for training and one for test accuracy of each method: mean of the best over seeds.

    The number in a cell is how many seeds train: learn MOONS, or clearly beat the largest class of images.
    Where a method was tried at several learning rates, the better counts.
    """
    from matplotlib.figure import Figure

    labels = list(dict.fromkeys(row.cell.label for row in rows))
    depths = sorted({row.member.depth for row in rows})
    widths = sorted({row.member.width for row in rows})
    across = min(ACROSS, len(labels))
    down = -(-len(labels) // across)
    size = (1.6 + across * (0.7 + 0.36 * len(depths)), 0.7 + 2 * down * (0.9 + 0.3 * len(widths)))
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots(2 * down, across, squeeze=False)
    for spare in axes.flat:
        spare.set_axis_off()
    for number, label in enumerate(labels):
        own = _better([row for row in rows if row.cell.label == label])
        for test in (False, True):
            axis = axes[2 * (number // across) + test, number % across]
            axis.set_axis_on()
            image = _panel(axis, own, depths, widths, test=test)
            axis.set_title(f"{label}, {'validation' if test else 'training'}", fontsize=9)
    bar = figure.colorbar(image, ax=axes, aspect=40, pad=0.01)
    bar.set_label("best accuracy", fontsize=8)
    bar.ax.tick_params(labelsize=7)
    figure.suptitle(seeds_of(rows), fontsize=9)
    save_figure(figure, path, laid_out=False)


def seeds_of(rows: Sequence[Row]) -> str:
    """How many networks a cell of the map stands for.

    >>> from alive_papers.experiments import Cell
    >>> from alive_papers.fleet import Member
    >>> seeds_of([Row(Cell(Member(depth, 4, seed=s)), 1.0, 1.0, None, None, {}) for depth in (1, 2) for s in range(3)])
    'colour: mean of 3 seeds; number: how many of the 3 train'
    """
    places: dict[object, int] = defaultdict(int)
    for row in rows:
        places[row.cell.label, row.member.lr, row.member.depth, row.member.width] += 1
    least, most = min(places.values()), max(places.values())
    said = str(most) if least == most else f"{least} to {most}"
    verb = "train" if _on_moons(rows) else "learn"
    if most == 1:
        return f"colour: best accuracy of the one seed; number: 1 if it {verb}s, else 0"
    return f"colour: mean of {said} seeds; number: how many of the {said} {verb}"


def means(rows: Sequence[Row], *, test: bool = False) -> dict[Size, float]:
    """Mean over seeds of the best accuracy at each (depth, width)."""
    found: dict[Size, list[float]] = defaultdict(list)
    for row in rows:
        found[row.member.depth, row.member.width].append((row.best_test if test else row.best_train) or 0.0)
    return {place: statistics.fmean(values) for place, values in found.items()}


def _better(rows: Sequence[Row]) -> list[Row]:
    """At each place the rows of the learning rate with the better mean training accuracy."""
    rates = sorted({row.member.lr for row in rows})
    by_rate = {lr: [row for row in rows if row.member.lr == lr] for lr in rates}
    score = {lr: means(some) for lr, some in by_rate.items()}
    kept = []
    for place in {place for some in score.values() for place in some}:
        lr = max(rates, key=lambda rate: score[rate].get(place, -1.0))
        kept += [row for row in by_rate[lr] if (row.member.depth, row.member.width) == place]
    return kept


def _panel(axis, rows, depths, widths, *, test):  # type: ignore[no-untyped-def]
    """One method: colour is the mean of the best accuracy, the number how many seeds train."""
    values = np.full((len(widths), len(depths)), np.nan)
    for (depth, width), value in means(rows, test=test).items():
        values[widths.index(width), depths.index(depth)] = value
    least = 0.5 if _on_moons(rows) else 0.0
    image = axis.imshow(values, origin="lower", aspect="auto", cmap="magma", vmin=least, vmax=1)
    if not test:
        _count(axis, rows, depths, widths, values, image)
    axis.set_xticks(range(len(depths)), [str(depth) for depth in depths], fontsize=6, rotation=90)
    axis.set_yticks(range(len(widths)), [str(width) for width in widths], fontsize=6)
    axis.set_xlabel("depth", fontsize=7)
    axis.set_ylabel("width", fontsize=7)
    return image


def _count(axis, rows, depths, widths, values, image) -> None:  # type: ignore[no-untyped-def]
    seeds: dict[Size, int] = defaultdict(int)
    succeeds = trains if _on_moons(rows) else learnt
    for row in rows:
        seeds[row.member.depth, row.member.width] += succeeds(row)
    for (depth, width), count in seeds.items():
        at = widths.index(width), depths.index(depth)
        axis.text(at[1], at[0], str(count), ha="center", va="center", fontsize=6, color=ink(image, values[at]))


def ink(image: Any, value: float) -> str:
    """Black on light cells, white on dark ones: whichever has the larger contrast (WCAG 2, relative luminance)."""
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
        for part in image.cmap(image.norm(value))[:3]
    )
    light = 0.2126 * red + 0.7152 * green + 0.0722 * blue
    return "black" if (light + 0.05) ** 2 > 1.05 * 0.05 else "white"


def _on_moons(rows: Sequence[Row]) -> bool:
    return all(row.cell.data == "moons" for row in rows)
