"""Pictures of networks on MOONS: what each decides over the plane, and who was alive while it trained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from alive.data import DATA, Data

from ..experiments import Row
from .save import save_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DEAD, LINEAR, POINTS, ACCURACY = "#b42318", "#f5b041", "#2f6f9f", "#1f2933"
CLASSES = ("#2f6f9f", "#d9822b")
SOFT = "#52606d"
LABEL = {"boxstyle": "round", "facecolor": "white", "edgecolor": "#cbd2d9"}
SIDE = 120  # points of the plane a side
BORDER = 0.1  # of the plane around the training points
Extent = tuple[float, float, float, float]  # left, right, bottom, top
NOTES: Mapping[str, str] = MappingProxyType(  # what the names of methods mean, in a few words
    {
        "ReLU": "plain network",
        "ReLU+BN": "with batch norm",
        "Sep-U": "with the penalty on units",
        "Sep-P": "with the penalty on points",
        "Sep-UP": "with the penalty on units and points",
        "ReLU, mirrored": "plain network, mirrored start",
    }
)
SEPARATION = (
    "Sep-U, Sep-P, Sep-UP: separation constraints, in alive Jumpstart with mode U, P, UP: a term in the loss "
    "asks that each",
    "unit (U) be on for some point and off for another, each point (P) switch some unit on and another off, "
    "or both (UP).",
)
HEALTH = "A dead unit is off for every point, a linear one for none; a dead point is mapped to all zeros by some layer."
MIRRORED = "The mirrored start carries u and −u in pairs of units, so that nothing is lost on the way."


def decisions(rows: Sequence[Row], path: Path) -> None:
    """Draw what each network that was kept decides over the plane, first seed, to a PNG."""
    shown = sorted(first_seed(rows), key=lambda row: row.member.epochs)
    several = len({row.member.epochs for row in shown}) > 1
    about = _about(shown)
    figure, axes = _grid(len(shown), about=len(about))
    for row, axis in zip(shown, axes, strict=True):
        _draw_map(axis, row)
        accuracy = f"accuracy {row.last.train_accuracy if row.last else 0.0:.2f}"
        if several:
            _name(axis, f"epoch {row.member.epochs}: {accuracy}")
        else:
            _name(axis, f"{row.cell.label}: {accuracy}", NOTES.get(row.cell.label, ""))
    heading = "What each network decides at its end (paler where unsure), and its training accuracy there"
    save_figure(figure, path, bottom=_frame(figure, heading, about))


def _draw_map(axis: Axes, row: Row) -> None:
    """The plane in the colours of the classes, as the network names them, with the training points."""
    from matplotlib.colors import LinearSegmentedColormap

    between = LinearSegmentedColormap.from_list("classes", [CLASSES[0], "white", CLASSES[1]])
    data = DATA[row.cell.data]()
    probability, extent = _over_plane(row, data)
    axis.imshow(probability, extent=extent, origin="lower", cmap=between, vmin=0, vmax=1, aspect="auto", alpha=0.6)
    for label, colour in enumerate(CLASSES):
        own = data.train_x[data.train_y == label]
        axis.scatter(own[:, 0], own[:, 1], s=14, color=colour, edgecolor="white", linewidth=0.5)
    if said := answer(probability):
        axis.text(0.97, 0.95, said, transform=axis.transAxes, ha="right", va="top", bbox=LABEL)
    axis.set_xticks([])
    axis.set_yticks([])


def lives(rows: Sequence[Row], path: Path) -> None:
    """Draw who was alive over time in each network, first seed, to a PNG."""
    shown = first_seed(rows)
    about = _about(shown, HEALTH)
    figure, axes = _grid(len(shown), about=len(about), sharey=True)
    for number, (row, axis) in enumerate(zip(shown, axes, strict=True)):
        _draw_life(axis, row)
        _name(axis, row.cell.label, NOTES.get(row.cell.label, ""))
        if number >= len(shown) - 3:
            axis.set_xlabel("epoch")
    axes[0].set_ylabel("share")
    handles, labels = axes[0].get_legend_handles_labels()
    below = _frame(figure, "Who was alive while it trained", about)
    figure.legend(handles, labels, loc="lower center", ncols=4, frameon=False, bbox_to_anchor=(0.5, below))
    save_figure(figure, path, bottom=below + 0.05)


def in_short(rows: Sequence[Row], path: Path) -> None:
    """Three of them in a row: plain, with the penalty, and from the mirrored start; large enough for a narrow page."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    names = {"ReLU": "plain ReLU", "Sep-UP": "with the penalty", "ReLU, mirrored": "mirrored start"}
    rows = [row for name in names for row in first_seed(rows) if row.cell.label == name]
    with rc_context({"font.size": 13}):
        figure = Figure(figsize=(8.3, 3.6))
        axes = figure.subplots(1, len(names), sharey=True)
        for row, axis in zip(rows, axes, strict=True):
            _draw_life(axis, row)
            axis.set_title(names[row.cell.label], fontsize=14)
            axis.set_xlabel("epoch")
            axis.set_xticks([0, 500])
        axes[0].set_yticks([0, 0.5, 1], ["0", "50 %", "100 %"])
        handles, labels = axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="lower center", ncols=2, frameon=False, columnspacing=1.2)
        save_figure(figure, path, bottom=0.16)


def _draw_life(axis: Axes, row: Row) -> None:
    """The shares of dead and linear units, dead points and right answers, over epochs."""
    epochs, units = row.trace["epoch"], row.member.depth * row.member.width
    dead, linear = (np.array(row.trace[name]) / units for name in ("dead_units", "linear_units"))
    points = np.array(row.trace["dead_points"]) / len(DATA[row.cell.data]().train_y)
    axis.stackplot(epochs, dead, linear, colors=[DEAD, LINEAR], alpha=0.75, labels=["dead units", "linear units"])
    axis.plot(epochs, points, color=POINTS, linewidth=2, label="dead points")
    axis.plot(epochs, row.trace["train_accuracy"], color=ACCURACY, linewidth=1.2, label="training accuracy")
    axis.set_xlim(0, max(1, row.member.epochs - 1))
    axis.set_ylim(0, 1.02)


def answer(probability: NDArray[np.float64]) -> str:
    """What to say of a map that would look empty: one class everywhere, or no number; "" of any other.

    >>> answer(np.array([0.2, 0.7])), answer(np.array([0.6, 0.9]))
    ('', 'one answer everywhere')
    """
    if not np.isfinite(probability).all():
        return "not a number"
    classes = probability > 0.5
    return "one answer everywhere" if classes.all() or not classes.any() else ""


def first_seed(rows: Sequence[Row]) -> list[Row]:
    """The networks of the smallest seed."""
    first = min(row.member.seed for row in rows)
    return [row for row in rows if row.member.seed == first]


@torch.no_grad()
def _over_plane(row: Row, data: Data) -> tuple[NDArray[np.float64], Extent]:
    """The probability of class 1 on a grid over the training points, and where that grid lies."""
    low, high = (data.train_x.amin(0) - BORDER).tolist(), (data.train_x.amax(0) + BORDER).tolist()
    a, b = (torch.linspace(low[i], high[i], SIDE) for i in (0, 1))
    plane = torch.cartesian_prod(b, a).flip(1)  # row by row, the second feature upward
    probability = row.network()(plane).sigmoid().reshape(SIDE, SIDE).double().numpy()
    return probability, (low[0], high[0], low[1], high[1])


def _about(rows: Sequence[Row], *more: str) -> list[str]:
    """What the networks share, for a line above them, and what their names mean, for lines below."""
    first, data = rows[0].member, rows[0].cell.data
    shared = [f"{data.upper()}, {len(DATA[data]().train_y)} training points", f"seed {first.seed}"]
    if len({row.member.epochs for row in rows}) == 1:
        shared.insert(1, f"{first.epochs} epoch{'s' * (first.epochs > 1)}")
    if len({(row.member.depth, row.member.width) for row in rows}) == 1:
        shared.insert(0, f"{first.depth} hidden layers of {first.width} ReLU units")
    labels = [row.cell.label for row in rows]
    separation = SEPARATION if any(label.startswith("Sep-") for label in labels) else ()
    mirrored = [MIRRORED] * any("mirrored" in label for label in labels)
    return ["; ".join(shared), *separation, *more, *mirrored]


def _name(axis: Axes, name: str, note: str = "") -> None:
    """Name a picture, and below the name say what it means."""
    axis.set_title(name, fontsize=10, pad=16 if note else None)
    if note:
        axis.text(0.5, 1.02, note, transform=axis.transAxes, ha="center", va="bottom", fontsize=8, color=SOFT)


def _frame(figure: Figure, heading: str, about: Sequence[str]) -> float:
    """Write what all pictures share above and below them; returns the share of the height taken below."""
    figure.suptitle("\n".join([heading, *about[:1]]), fontsize=11)
    figure.text(0.5, 0.01, "\n".join(about[1:]), ha="center", va="bottom", fontsize=8, color=SOFT)
    return float(0.16 * len(about[1:]) / figure.get_figheight()) + 0.01 if about[1:] else 0.0


def _grid(pictures: int, *, about: int, sharey: bool = False) -> tuple[Figure, list[Axes]]:
    """Axes in rows of three, with room for so many lines of words; those left over are taken away."""
    from matplotlib.figure import Figure

    rows, columns = -(-pictures // 3), min(pictures, 3)
    figure = Figure(figsize=(3.6 * columns, 2.9 * rows + 0.6 + 0.25 * about))
    axes = figure.subplots(rows, columns, squeeze=False, sharey=sharey).flatten().tolist()
    for spare in axes[pictures:]:
        spare.remove()
    return figure, axes[:pictures]
