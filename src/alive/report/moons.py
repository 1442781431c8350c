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
SOFT = "#52606d"
LABEL = {"boxstyle": "round", "facecolor": "white", "edgecolor": "#cbd2d9"}


@dataclass(frozen=True, slots=True, eq=False)
class Panel:
    """One network: its name, its probability of class 1 on a grid over `extent`, and its traces over epochs.

    Traces are shares in 0..1: dead and linear units, dead points, training accuracy, at the epochs given. `note` says
    in a few words what the name means.
    """

    name: str
    probability: NDArray[np.float64]
    extent: tuple[float, float, float, float]
    epochs: NDArray[np.int64]
    dead_units: NDArray[np.float64]
    linear_units: NDArray[np.float64]
    dead_points: NDArray[np.float64]
    accuracy: NDArray[np.float64]
    note: str = ""

    @property
    def answer(self) -> str:
        """What to say of a map that would look empty: one class everywhere, or no number; "" of any other."""
        if not np.isfinite(self.probability).all():
            return "not a number"
        classes = self.probability > 0.5
        return "one answer everywhere" if classes.all() or not classes.any() else ""


def decision_maps(
    panels: Sequence[Panel], x: NDArray[np.float64], y: NDArray[np.int64], path: Path, *, about: Sequence[str] = ()
) -> None:
    """Draw what each network decides over the plane, with the training points x [N, 2], y [N], to a PNG.

    `about` are lines on what all panels share, the first of them above the panels and the rest below.
    """
    from matplotlib.colors import LinearSegmentedColormap

    between = LinearSegmentedColormap.from_list("classes", [CLASSES[0], "white", CLASSES[1]])
    figure, axes = _grid(len(panels), about=len(about))
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
        if panel.answer:
            axis.text(0.97, 0.95, panel.answer, transform=axis.transAxes, ha="right", va="top", bbox=LABEL)
        _name(axis, panel, f": accuracy {panel.accuracy[-1]:.2f}")
        axis.set_xticks([])
        axis.set_yticks([])
    heading = "What each network decides at its end (paler where unsure), and its training accuracy there"
    save_figure(figure, path, bottom=_frame(figure, heading, about))


def lives(panels: Sequence[Panel], path: Path, *, about: Sequence[str] = ()) -> None:
    """Draw who was alive over time in each network, to a PNG; `about` as in `decision_maps`."""
    figure, axes = _grid(len(panels), about=len(about), sharey=True)
    for number, (panel, axis) in enumerate(zip(panels, axes, strict=True)):
        axis.stackplot(
            panel.epochs, panel.dead_units, panel.linear_units, colors=[DEAD, LINEAR], alpha=0.75,
            labels=["dead units", "linear units"],
        )  # fmt: skip
        axis.plot(panel.epochs, panel.dead_points, color=POINTS, linewidth=2, label="dead points")
        axis.plot(panel.epochs, panel.accuracy, color=ACCURACY, linewidth=1.2, label="training accuracy")
        _name(axis, panel)
        axis.set_xlim(panel.epochs[0], max(panel.epochs[-1], panel.epochs[0] + 1))
        axis.set_ylim(0, 1.02)
        if number >= len(panels) - 3:
            axis.set_xlabel("epoch")
    axes[0].set_ylabel("share")
    handles, labels = axes[0].get_legend_handles_labels()
    below = _frame(figure, "Who was alive while it trained", about)
    figure.legend(handles, labels, loc="lower center", ncols=4, frameon=False, bbox_to_anchor=(0.5, below))
    save_figure(figure, path, bottom=below + 0.05)


def _name(axis: Axes, panel: Panel, more: str = "") -> None:
    """Name a panel, and below the name say what it means."""
    axis.set_title(f"{panel.name}{more}", fontsize=10, pad=16 if panel.note else None)
    if panel.note:
        axis.text(0.5, 1.02, panel.note, transform=axis.transAxes, ha="center", va="bottom", fontsize=8, color=SOFT)


def _frame(figure: Figure, heading: str, about: Sequence[str]) -> float:
    """Write what all panels share above and below them; returns the share of the height taken below."""
    figure.suptitle("\n".join([heading, *about[:1]]), fontsize=11)
    figure.text(0.5, 0.01, "\n".join(about[1:]), ha="center", va="bottom", fontsize=8, color=SOFT)
    return float(0.16 * len(about[1:]) / figure.get_figheight()) + 0.01 if about[1:] else 0.0


def _grid(panels: int, *, about: int = 0, sharey: bool = False) -> tuple[Figure, list[Axes]]:
    """Axes in rows of three, with room for so many lines of words; those left over are taken away."""
    from matplotlib.figure import Figure

    rows, columns = -(-panels // 3), min(panels, 3)
    figure = Figure(figsize=(3.6 * columns, 2.9 * rows + 0.6 + 0.25 * about))
    axes = figure.subplots(rows, columns, squeeze=False, sharey=sharey).flatten().tolist()
    for spare in axes[panels:]:
        spare.remove()
    return figure, axes[:panels]
