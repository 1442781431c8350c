"""Which method is best at each depth and width, and how far behind the others are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..experiments import Row
from ..experiments.ours.atlas import Standing, standings
from ..experiments.ours.atlas import winners as best_of
from .heat import ink
from .save import save_figure

Places = Mapping[tuple[int, int], Sequence[Standing]]
FRAME = "#00b5ad"


def winners(rows: Sequence[Row], path: Path) -> None:
    """Draw a panel a width: a line a method, the one that wins most on top, a column a depth; winners are framed."""
    from matplotlib.figure import Figure

    places = standings(rows)
    depths, widths = (sorted({place[axis] for place in places}) for axis in (0, 1))
    won = wins(places)
    labels = sorted(won, key=lambda label: -won[label])
    size = (3.0 + 0.42 * len(widths) * len(depths), 1.3 + 0.26 * len(labels))
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots(1, len(widths), sharey=True, squeeze=False)[0]
    for width, axis in zip(widths, axes, strict=True):
        image = _panel(axis, {depth: places.get((depth, width), ()) for depth in depths}, labels)
        axis.set_title(f"width {width}", fontsize=9)
    axes[0].set_yticks(range(len(labels)), [f"{label}  {won[label]} of {len(places)}" for label in labels], fontsize=8)
    bar = figure.colorbar(image, ax=axes, aspect=30, pad=0.01)
    bar.set_label("best training accuracy", fontsize=8)
    bar.ax.tick_params(labelsize=7)
    over = "one seed" if len({row.member.seed for row in rows}) == 1 else "mean over seeds"
    figure.suptitle(
        f"{over} at the better learning rate; framed: the best of a depth and width, and who ties", fontsize=9
    )
    save_figure(figure, path, laid_out=False)


def wins(places: Places) -> dict[str, int]:
    """At how many depths and widths each method is best, or ties with the best."""
    won = {standing.label: 0 for some in places.values() for standing in some}
    for some in places.values():
        for standing in best_of(some):
            won[standing.label] += 1
    return won


def _panel(axis: Any, by_depth: Mapping[int, Sequence[Standing]], labels: Sequence[str]) -> Any:
    """One width: accuracies as colours and numbers."""
    values = np.full((len(labels), len(by_depth)), np.nan)
    for x, some in enumerate(by_depth.values()):
        for standing in some:
            values[labels.index(standing.label), x] = standing.train
    image = axis.imshow(values, aspect="auto", cmap="magma", vmin=0.5, vmax=1)
    for x, some in enumerate(by_depth.values()):
        best = best_of(some) if some else []
        for standing in some:
            y = labels.index(standing.label)
            said = f"{standing.train:.2f}".lstrip("0")
            axis.text(x, y, said, ha="center", va="center", fontsize=6, color=ink(image, standing.train))
            if standing in best:
                axis.plot(
                    [x - 0.45, x + 0.45, x + 0.45, x - 0.45, x - 0.45],
                    [y - 0.42, y - 0.42, y + 0.42, y + 0.42, y - 0.42],
                    color=FRAME, linewidth=1.3,
                )  # fmt: skip
    axis.set_xticks(range(len(by_depth)), [str(depth) for depth in by_depth], fontsize=7)
    axis.set_xlabel("depth", fontsize=8)
    return image
