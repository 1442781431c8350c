"""Pictures of networks that were kept: what their layers hold, what these do, how they were trained."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from alive.data import DATA

from ..experiments import Row
from ..experiments.ours.layer_work import layer_work
from .moons import CLASSES, first_seed
from .save import save_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LAYERS = (0, 4, 25, 50)  # 0 is the input; the paper's choice
STRETCH, SAME = 50, 1e-4  # most that one axis is stretched beyond the other, least side of a picture


def activations(rows: Sequence[Row], path: Path) -> None:
    """Draw the training points as some layers hold them, a row a method, first seed: their two main axes."""
    from matplotlib.figure import Figure

    shown = first_seed(rows)
    figure = Figure(figsize=(2.3 * len(LAYERS), 2.2 * len(shown) + 0.3))
    axes = figure.subplots(len(shown), len(LAYERS), squeeze=False)
    for row, line in zip(shown, axes, strict=True):
        data = DATA[row.cell.data]()
        held = layers_of(row.network(), data.pixels(data.train_x), LAYERS)
        for layer, axis in zip(LAYERS, line, strict=True):
            flat = main_axes(held[layer].numpy())
            for label, colour in enumerate(CLASSES):
                own = flat[data.train_y.numpy() == label]
                axis.scatter(own[:, 0], own[:, 1], s=8, color=colour, edgecolor="white", linewidth=0.3)
            distinct = len(np.unique(held[layer].numpy().round(6), axis=0))
            place = f"layer {layer}" if layer else "input"
            axis.set_title(f"{row.cell.label}, {place}: {distinct} place{'s' * (distinct > 1)}", fontsize=7)
            axis.tick_params(labelsize=5)
            for way in (axis.xaxis, axis.yaxis):
                way.get_offset_text().set_fontsize(5)
            _frame(axis, flat)
    save_figure(figure, path)


def _frame(axis: Axes, flat: NDArray[np.float32]) -> None:
    """Stretch no axis more than fifty times the other, nor a single place to a cloud: that would show rounding."""
    low, high = flat.min(0), flat.max(0)
    least = max(float((high - low).max()) / STRETCH, SAME)
    half = np.maximum(high - low, least) * 0.55
    middle = (low + high) / 2
    axis.set_xlim(middle[0] - half[0], middle[0] + half[0])
    axis.set_ylim(middle[1] - half[1], middle[1] + half[1])


@torch.no_grad()
def layers_of(network: nn.Module, x: torch.Tensor, layers: Sequence[int]) -> dict[int, torch.Tensor]:
    """What the hidden layers of those numbers send on, and the input as layer 0."""
    held, h = {0: x.flatten(1)}, x.flatten(1)
    for number, layer in enumerate(network.hidden, start=1):  # type: ignore[arg-type]
        h = layer(h)
        if number in layers:
            held[number] = h
    return held


def main_axes(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """The points [N, C] on their two directions of largest variance [N, 2]; as they are if they have only two."""
    if values.shape[1] <= 2:
        return values
    centred = values - values.mean(0)
    _, _, directions = np.linalg.svd(centred, full_matrices=False)
    return np.asarray(centred @ directions[:2].T)


def traces(rows: Sequence[Row], path: Path) -> None:
    """Draw loss, penalty and training accuracy of the longest run over epochs, first seed."""
    from matplotlib.figure import Figure

    row = max(first_seed(rows), key=lambda row: row.member.epochs)
    figure = Figure(figsize=(9, 5.2))
    above, below = figure.subplots(2, 1, sharex=True)
    for name, colour in (("loss", "#1f2933"), ("penalty", "#b42318")):
        above.semilogy(row.trace["epoch"], np.maximum(row.trace[name], 1e-8), color=colour, linewidth=0.8, label=name)
    above.legend(frameon=False, fontsize=8)
    above.set_ylabel("cross-entropy; weighted penalty", fontsize=8)
    below.plot(row.trace["epoch"], row.trace["train_accuracy"], color="#2f6f9f", linewidth=0.8)
    below.set_ylabel("training accuracy", fontsize=8)
    below.set_xlabel("epoch", fontsize=8)
    figure.suptitle(f"{row.member.depth}x{row.member.width} {row.cell.label}, seed {row.member.seed}", fontsize=10)
    save_figure(figure, path)


def layers(rows: Sequence[Row], path: Path) -> None:
    """Draw for each depth how far each layer is from passing its input on, in the best seed, and which are needed."""
    from matplotlib.figure import Figure

    rows = [row for row in rows if row.weights is not None]
    depths = sorted({row.member.depth for row in rows})
    figure = Figure(figsize=(9, 1.9 * len(depths) + 0.4))
    axes = figure.subplots(max(len(depths), 1), 1, squeeze=False)[:, 0]
    for depth, axis in zip(depths, axes, strict=bool(depths)):
        row = max((row for row in rows if row.member.depth == depth), key=_end)
        work = layer_work(row)
        axis.semilogy(np.arange(2, depth + 1), np.maximum(work.moves, 1e-8), color="#2f6f9f", linewidth=0.6)
        said = (
            f"{depth:,} layers: {work.needed:,} of {depth - 1:,} are needed for training accuracy {work.accuracy:.3f}"
        )
        axis.set_title(f"{said} (seed {row.member.seed})", fontsize=9)
        axis.set_ylabel("relative distance", fontsize=8)
        axis.tick_params(which="both", labelsize=7)
    axes[-1].set_xlabel("layer", fontsize=8)
    save_figure(figure, path)


def _end(row: Row) -> float:
    return row.last.train_accuracy if row.last else 0.0
