"""What a package of one's own can add to alive: each thing below is one line in pyproject.toml, and nothing else."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Generator, Tensor, nn

from alive.cures import Cure
from alive.data import Data, tensors
from alive.diagnosis import Census
from alive.findings import Finding, Rule
from alive.functional import Activation
from alive.nn import initialise_
from alive.penalties import Jumpstart, Schedule
from alive.train import Settings
from alive_papers.experiments import Cell, Claim, Experiment, Measured, Row
from alive_papers.net import Net


# An activation: a module class, and below which pre-activation it passes nothing.
class ShiftedReLU(nn.Module):
    """max(z, -1), in operations that alive does not know as an activation."""

    def forward(self, z: Tensor) -> Tensor:
        """The same shape as z."""
        return ((z + 1).abs() + z - 1) / 2


ACTIVATIONS = {ShiftedReLU: Activation("shifted_relu", cutoff=-1.0)}


# A penalty: called with the model and options; a context manager with penalty() and set_progress().
def fading(model: nn.Module, weight: float = 1.0, **options: Any) -> Jumpstart:
    """A Jumpstart whose weight fades to nothing over training."""
    return Jumpstart(model, Schedule(weight, 0.0, "linear"), **options)


# A start: writes the weights of the hidden layers and of the output in place.
def halved_(hidden: Sequence[nn.Module], output: nn.Module, generator: Generator | None, noise: float) -> None:
    """Draw Glorot's weights, and halve those of the output."""
    for layer in (*hidden, output):
        nn.init.xavier_uniform_(layer.weight, generator=generator)
        nn.init.zeros_(layer.bias)
    output.weight.mul_(0.5)


# A cure: words, and a method for each place of a training script where it does something.
class Lifted(Cure):
    """Biases above zero, so that fewer units are off at the start."""

    words = "set every bias a little above zero"
    changes = "weights stay; biases are all alike"
    bias = 0.1

    def model(self, model: nn.Module) -> nn.Module:
        """What is run, and what is printed for users: `bias` is shown by its value."""
        for layer in model.modules():
            if isinstance(layer, torch.nn.Linear):
                torch.nn.init.constant_(layer.bias, self.bias)
        return model


LIFTED = Lifted()


# A data set: a function of nothing.
def stripes() -> Data:
    """Points of the square in two classes that alternate: 80 to train on, 20 to test."""
    x = torch.rand(100, 2, generator=torch.Generator().manual_seed(0)) * 2 - 1
    y = ((x[:, 0] * 2).floor() % 2).long()
    return tensors(x[:80], y[:80], test_x=x[80:], test_y=y[80:], name="stripes")


# A format of files, by what their names end in: a function of a path that gives arrays by name, or any other data.
def svm(path: Path) -> dict[str, Tensor]:
    """Points as LIBSVM writes them, one a line: a label, then index:value of each number that is not zero."""
    rows = [line.split() for line in path.read_text().splitlines()]
    pairs = [[pair.split(":") for pair in row[1:]] for row in rows]
    x = torch.zeros(len(rows), max(int(index) for row in pairs for index, _ in row))
    for point, row in zip(x, pairs, strict=True):
        for index, value in row:
            point[int(index) - 1] = float(value)
    return {"x": x, "y": torch.tensor([float(row[0]) for row in rows])}


# A network: called with the shape of a point, the number of outputs, depth, width and generator, and its own options.
def shifted(
    shape: tuple[int, ...], outputs: int, *, depth: int, width: int, generator: Generator | None, init: str = "glorot"
) -> nn.Module:
    """A plain network of shifted ReLUs."""
    widths = [math.prod(shape), *[width] * depth]
    hidden = [part for a, b in pairwise(widths) for part in (nn.Linear(a, b), ShiftedReLU())]
    model = nn.Sequential(nn.Flatten(), *hidden, nn.Linear(width, outputs))
    initialise_(model, init, generator=generator)
    return model


# A finding: how it is seen in a census, and what is said of it.
def _few_points(census: Census) -> Finding | None:
    units, points = census.units.total, census.points.total
    if points >= units:
        return None
    return Finding(
        f"{points} points for {units} units: that a unit is dead may be chance", "take the census of more points"
    )


FEW_POINTS = Rule(
    "OWN001", "fewer points than units", "warning", "a census of fewer points than the network has units",
    cause="A sample that was made small to save time.",
    counted="The points of the census and the units of all layers.",
    cure="More points: `--points`.",
    see=_few_points,
)  # fmt: skip


# An experiment: which networks at which scale, and what is claimed of them.
def _cells(scale: str, architecture: str, seed: int) -> list[Cell]:
    training = Settings(epochs=5 if scale == "quick" else 500)
    return [
        Cell(
            Net(
                network="shifted",
                depth=depth,
                width=4,
                method=method,
                seed=seed,
                options=(("init", "halved"),),
                separation=separation,
                training=training,
            ),
            data="stripes",
        )
        for depth in (2, 4)
        for method, separation in (("plain", None), ("fading", (("penalty", "fading"), ("weight", 1e-2))))
    ]


def _trained(rows: Sequence[Row]) -> Measured | None:
    accuracies = [row.best_train for row in rows if row.member.method == "fading"]
    return Measured(sum(accuracies) / len(accuracies), len(accuracies), 0.0) if accuracies else None


EXPERIMENT = Experiment(
    name="Own-Stripes",
    title="Shifted ReLUs on stripes, with and without a fading penalty",
    paper="own",
    grid=_cells,
    claims=(Claim("trains", "with the penalty more than a third of the points are right", _trained, band=(0.34, 1.0)),),
)
