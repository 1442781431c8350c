"""Which method is best at each depth and width."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..experiments import Row
from ..experiments.atlas import standings
from ..experiments.atlas import winners as best_of
from .save import save_figure

NAMED = 2  # methods written into a cell; further ties are counted


def winners(rows: Sequence[Row], path: Path) -> None:
    """Draw a table: in each cell the best method, those that tie with it, and their training accuracy."""
    from matplotlib.figure import Figure

    places = standings(rows)
    depths, widths = (sorted({place[axis] for place in places}) for axis in (0, 1))
    figure = Figure(figsize=(1.2 + 2.0 * len(widths), 0.9 + 0.75 * len(depths)))
    axis = figure.subplots()
    for (depth, width), some in places.items():
        x, y = widths.index(width), depths.index(depth)
        top = best_of(some)
        lines = [standing.label for standing in top[:NAMED]]
        lines += [f"and {len(top) - NAMED} more"] if len(top) > NAMED else []
        shade = str(0.55 + 0.45 * max(0.0, min(1.0, (top[0].train - 0.5) * 2)))
        axis.fill_between([x - 0.5, x + 0.5], y - 0.5, y + 0.5, color=shade, linewidth=0)
        axis.text(x, y, "\n".join([f"{top[0].train:.3f}", *lines]), ha="center", va="center", fontsize=7)
    axis.set_xticks(range(len(widths)), [str(width) for width in widths])
    axis.set_yticks(range(len(depths)), [str(depth) for depth in depths])
    axis.set_xlim(-0.5, len(widths) - 0.5)
    axis.set_ylim(len(depths) - 0.5, -0.5)
    axis.set_xlabel("width")
    axis.set_ylabel("depth")
    save_figure(figure, path)
