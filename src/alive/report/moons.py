"""Pictures of networks on MOONS: what each decides over the plane, and who was alive while it trained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from .save import save_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DEAD, LINEAR, POINTS, ACCURACY = "#b42318", "#f5b041", "#2f6f9f", "#1f2933"
CLASSES = ("#2f6f9f", "#d9822b")


@dataclass(frozen=True, slots=True, eq=False)
class Panel:
    """One network: its name, its probability of class 1 on a grid over `extent`, and its traces over epochs.

    Traces are shares in 0..1: dead and linear units, dead points, training accuracy, at the epochs given.
    """

    name: str
    probability: NDArray[np.float64]
    extent: tuple[float, float, float, float]
    epochs: NDArray[np.int64]
    dead_units: NDArray[np.float64]
    linear_units: NDArray[np.float64]
    dead_points: NDArray[np.float64]
    accuracy: NDArray[np.float64]


def decision_maps(panels: Sequence[Panel], x: NDArray[np.float64], y: NDArray[np.int64], path: Path) -> None:
    """Draw what each network decides over the plane, with the training points x [N, 2], y [N], to a PNG."""
    from matplotlib.colors import LinearSegmentedColormap

    between = LinearSegmentedColormap.from_list("classes", [CLASSES[0], "white", CLASSES[1]])
    figure, axes = _grid(len(panels))
    for panel, axis in zip(panels, axes, strict=True):
        axis.imshow(
            panel.probability,
            extent=panel.extent,
            origin="lower",
            cmap=between,
            vmin=0,
            vmax=1,
            aspect="auto",
            alpha=0.6,
        )
        for label, colour in enumerate(CLASSES):
            own = x[y == label]
            axis.scatter(own[:, 0], own[:, 1], s=14, color=colour, edgecolor="white", linewidth=0.5)
        axis.set_title(f"{panel.name}: accuracy {panel.accuracy[-1]:.2f}", fontsize=10)
        axis.set_xticks([])
        axis.set_yticks([])
    figure.suptitle("What each network decides at its end, and its training accuracy there", fontsize=12)
    save_figure(figure, path)


def lives(panels: Sequence[Panel], path: Path) -> None:
    """Draw who was alive over time in each network, to a PNG."""
    figure, axes = _grid(len(panels), sharey=True)
    for number, (panel, axis) in enumerate(zip(panels, axes, strict=True)):
        axis.stackplot(
            panel.epochs, panel.dead_units, panel.linear_units, colors=[DEAD, LINEAR], alpha=0.75,
            labels=["dead units", "linear units"],
        )  # fmt: skip
        axis.plot(panel.epochs, panel.dead_points, color=POINTS, linewidth=2, label="dead points")
        axis.plot(panel.epochs, panel.accuracy, color=ACCURACY, linewidth=1.2, label="training accuracy")
        axis.set_title(panel.name, fontsize=10)
        axis.set_xlim(panel.epochs[0], max(panel.epochs[-1], panel.epochs[0] + 1))
        axis.set_ylim(0, 1.02)
        if number >= len(panels) - 3:
            axis.set_xlabel("epoch")
    axes[0].set_ylabel("share")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=4, frameon=False)
    figure.suptitle("Who was alive while it trained", fontsize=12)
    save_figure(figure, path, bottom=0.06)


def _grid(panels: int, *, sharey: bool = False) -> tuple[Figure, list[Axes]]:
    """Axes in rows of three; those left over are taken away."""
    from matplotlib.figure import Figure

    rows, columns = -(-panels // 3), min(panels, 3)
    figure = Figure(figsize=(3.6 * columns, 2.9 * rows + 0.6))
    axes = figure.subplots(rows, columns, squeeze=False, sharey=sharey).flatten().tolist()
    for spare in axes[panels:]:
        spare.remove()
    return figure, axes[:panels]
