"""Where in the plane a layer of ReLU units is dead: plain, with batch norm, and as a Farkas layer (000, Figure 1)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from alive.nn import FarkasLinear

from .save import save_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

UNITS, POINTS, REACH, STEPS = 3, 200, 3.0, 301
SHADES = ("#f3d6d2", "#e9f1f7", "#cfe1ee", "#a9c9e0")  # by the number of active units, from 0 on
ALIVE, DEAD = "#2f6f9f", "#b42318"


def layers(seed: int = 1) -> dict[str, nn.Module]:
    """Three layers of three units on the plane; the Farkas layer keeps the plain layer's first two rows."""
    generator = torch.Generator().manual_seed(seed)
    farkas = FarkasLinear(2, UNITS, generator=generator)
    plain = nn.Linear(2, UNITS)
    with torch.no_grad():
        third = torch.randn(1, 2, generator=generator)
        plain.weight.copy_(torch.cat([farkas.weight, third]))
        plain.bias.copy_(farkas.bias - 0.5)
        farkas.bias[: UNITS - 1] -= 0.5
    return {
        "plain": plain,
        "batch norm": nn.Sequential(plain, nn.BatchNorm1d(UNITS, momentum=None)),
        "Farkas": farkas,
    }


def cloud(seed: int = 4) -> Tensor:
    """Points [N, 2] of two clouds, one of which lies where the plain layer is dead."""
    generator = torch.Generator().manual_seed(seed)
    centres = torch.tensor([[-1.2, -1.0], [1.3, 0.9]])
    return (centres[:, None] + 0.55 * torch.randn(2, POINTS // 2, 2, generator=generator)).flatten(0, 1)


@torch.no_grad()
def active(layer: nn.Module, x: Tensor) -> Tensor:
    """How many units are active for each point [N]."""
    return (layer(x) > 0).sum(1)  # type: ignore[no-any-return]


def halfplanes(path: Path) -> dict[str, int]:
    """Draw the three layers to a PNG; returns how many points of the cloud each loses."""
    from matplotlib.colors import ListedColormap
    from matplotlib.figure import Figure

    x, made = cloud(), layers()
    made["batch norm"].train()(x)  # one pass over the cloud gives its statistics
    sides = torch.linspace(-REACH, REACH, STEPS)
    plane = torch.cartesian_prod(sides, sides)
    figure = Figure(figsize=(10.2, 3.9))
    lost = {}
    for axis, (name, layer) in zip(figure.subplots(1, 3, sharey=True), made.items(), strict=True):
        layer.eval()
        shown = active(layer, plane).view(STEPS, STEPS).T.numpy()
        axis.imshow(
            shown, extent=(-REACH, REACH, -REACH, REACH), origin="lower", cmap=ListedColormap(SHADES), vmin=-0.5,
            vmax=UNITS + 0.5, interpolation="nearest",
        )  # fmt: skip
        lost[name] = _points(axis, x, active(layer, x) == 0)
        axis.set_title(f"{name}: {lost[name]} of {POINTS} points dead", fontsize=10)
        axis.set_xticks([])
        axis.set_yticks([])
    figure.text(0.5, 0.03, "Blue: at least one unit is active, darker: more. Red: none.", ha="center", fontsize=9)
    save_figure(figure, path, bottom=0.06)
    return lost


def _points(axis: Axes, x: Tensor, dead: Tensor) -> int:
    for some, colour in ((~dead, ALIVE), (dead, DEAD)):
        axis.scatter(x[some, 0].numpy(), x[some, 1].numpy(), s=9, color=colour, edgecolor="white", linewidth=0.3)
    return int(dead.sum())
