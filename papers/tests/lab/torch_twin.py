"""What the page trains, built and trained by torch: the truth that its engine is held to."""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from typing import Any

import torch
from torch import Tensor, nn

import alive
from alive.data import moons
from alive.nn import Rectangular
from alive.surgery import to_farkas
from alive_papers.networks.skips import Residual

METHODS = ("none", "batch-norm", "skip", "sep-u", "sep-p", "sep-up", "farkas")
STARTS = ("glorot", "kaiming", "torch", "zeros", "mirrored")
ACTIVATIONS = {
    "relu": nn.ReLU,
    "leaky-relu": nn.LeakyReLU,
    "elu": nn.ELU,
    "gelu": nn.GELU,
    "silu": nn.SiLU,
    "softplus": nn.Softplus,
}
CUTOFFS = {"elu": log(0.1), "softplus": log(0.1 / 0.9)}
DEFAULTS: dict[str, Any] = {
    "data": "moons", "depth": 8, "width": 4, "activation": "relu", "start": "glorot", "method": "none",
    "rate": 0.01, "weight": 1, "optimiser": "adam", "seed": 10,
}  # fmt: skip


def points() -> tuple[Tensor, Tensor]:
    """The training points of MOONS, in double precision: these are not rounded to float32 first."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        data = moons()
    finally:
        torch.set_default_dtype(before)
    assert data.train_x.dtype == torch.float64
    return data.train_x, data.train_y.double()


def build(settings: dict[str, Any], x: Tensor) -> nn.Module:
    """The network as it starts."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        chance = torch.Generator().manual_seed(settings["seed"])
        norm = settings["method"] == "batch-norm"
        sizes = {"depth": settings["depth"], "width": settings["width"]}
        net = Rectangular(2, 1, **sizes, batch_norm=norm, init=settings["start"], generator=chance)
    finally:
        torch.set_default_dtype(before)
    kind = ACTIVATIONS[settings["activation"]]
    for layer in net.hidden:
        layer.relu = kind()
    if settings["method"] == "skip":
        first, *rest = (layer.linear for layer in net.hidden)
        blocks = [Residual(nn.Sequential(kind(), linear)) for linear in rest]
        return nn.Sequential(first, *blocks, kind(), net.output)
    return to_farkas(net, x).model if settings["method"] == "farkas" else net


def flat(model: nn.Module, *, slopes: bool = False) -> Tensor:
    """All parameters as the page orders them: layer by layer, weight before bias."""
    found = []
    for module in model.modules():
        own = dict(module.named_parameters(recurse=False))
        for name in ("weight", "bias"):
            if name in own:
                value = own[name].grad if slopes else own[name]
                found.append((torch.zeros_like(own[name]) if value is None else value).detach().flatten())
    return torch.cat(found)


def penalty(layers: list[Tensor], axes: str, cutoff: float) -> Tensor:
    """For each axis the mean of s² over a layer's slacks, of these the mean over layers; summed over axes."""
    total = torch.zeros(())
    for axis in axes:
        dim = 0 if axis == "U" else 1
        slacks = [
            0.5 * torch.relu(1 - (z.amax(dim) - cutoff)) + 0.5 * torch.relu(1 + (z.amin(dim) - cutoff))
            for z in layers
            if z.shape[dim] > 1
        ]
        if slacks:
            total = total + torch.stack([s.square().mean() for s in slacks]).mean()
    return total


def states(layers: list[Tensor], cutoff: float) -> tuple[list[int], list[int]]:
    """0 nonlinear, 1 dead, 2 linear: of every unit, and of every point in every layer."""

    def state(z: Tensor, dim: int) -> Tensor:
        return torch.where(z.amax(dim) <= cutoff, 1, torch.where(z.amin(dim) > cutoff, 2, 0))

    units = torch.cat([state(z, 0) for z in layers])
    by_point = torch.cat([state(z, 1) for z in layers])
    return units.tolist(), by_point.tolist()


@dataclass(frozen=True, slots=True)
class Row:
    """One network before a step."""

    weights: Tensor
    running: list[list[float]]
    loss: float
    penalty: float
    gradient: Tensor
    units: list[int]
    points: list[int]


class Twin:
    """A network of torch on its way."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings = settings
        self.x, self.y = points()
        self.model = build(settings, self.x)
        self.axes = settings["method"][4:].upper() if settings["method"].startswith("sep-") else ""
        self.cutoff = CUTOFFS.get(settings["activation"], 0.0)
        self._seen: list[Tensor] = []
        for module in self.model.modules():
            if isinstance(module, ACTIVATIONS[settings["activation"]]):
                module.register_forward_pre_hook(lambda _, given: self._seen.append(given[0]))
        lr, rest = settings["rate"], self.model.parameters()
        if settings["optimiser"] == "adam":
            self.optimiser: torch.optim.Optimizer = torch.optim.Adam(rest, lr=lr)
        else:
            self.optimiser = torch.optim.SGD(rest, lr=lr, momentum=0.9 * (settings["optimiser"] == "momentum"))

    def layers(self, *, training: bool) -> tuple[Tensor, list[Tensor]]:
        """The logits, and the pre-activations of every layer."""
        self._seen.clear()
        self.model.train(training)
        logits = self.model(self.x)[:, 0]
        return logits, list(self._seen)

    def step(self) -> Row:
        """What there is to compare, then one step of the optimiser."""
        with torch.no_grad():
            units, by_point = states(self.layers(training=False)[1], self.cutoff)
        norms = [value.tolist() for name, value in self.model.named_buffers() if "running" in name]
        weights = flat(self.model)
        logits, seen = self.layers(training=True)
        loss = nn.functional.binary_cross_entropy_with_logits(logits, self.y)
        extra = self.settings["weight"] * penalty(seen, self.axes, self.cutoff)
        self.optimiser.zero_grad()
        (loss + extra).backward()
        row = Row(weights, norms, loss.item(), extra.item(), flat(self.model, slopes=True), units, by_point)
        self.optimiser.step()
        return row

    def census(self) -> alive.diagnosis.Census:
        """Alive's own census of the network as it is."""
        return alive.census(self.model, self.x, keep_points=True)
