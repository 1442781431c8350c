"""Dormancy: the softer measures beside death. How much each unit tells, how much gradient it gets, and in how many
directions a layer's units differ. `docs/dormant.md` says what each can and cannot tell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import exp
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, get_gradient_edge

from ..data import calls, read
from ..errors import AliveError
from ..provenance import Grid, Layout
from ..taps import UNDECLARED, Call, Declared, Taps, Watcher, bare
from ..torch_private import DisableTorchFunction
from .backward import Loss, loss_of, unfrozen
from .example import Example, example_of
from .modes import Modes

MOST_UNITS = 2048  # of which the products are kept


@dataclass(frozen=True, slots=True, eq=False)
class LayerDormancy:
    """One layer: sums over the points of what each unit tells [C], of its size, of its gradient's size, of products.

    Each number of a unit is its mean over positions first. None: units cannot be told apart, or it was not asked for.
    """

    name: str
    label: str
    made_by: str
    points: int
    told: Tensor | None = None
    size: Tensor | None = None
    gradient: Tensor | None = None
    products: Tensor | None = None
    weight_norm: float | None = None
    why: tuple[str, ...] = ()

    @property
    def means(self) -> Tensor | None:
        """What each unit tells on average [C]."""
        return None if self.told is None else self.told / self.points

    @property
    def sizes(self) -> Tensor | None:
        """The mean of |h| of each unit [C]."""
        return None if self.size is None else self.size / self.points

    @property
    def scores(self) -> Tensor | None:
        """ReDo's score of each unit [C]: the mean of |h| relative to the mean over the layer's units."""
        return _relative(self.size)

    @property
    def gradient_scores(self) -> Tensor | None:
        """The same of the gradient that arrives at h (GraMa); None where no loss was given."""
        return _relative(self.gradient)

    def dormant(self, tau: float = 0.1) -> Tensor:
        """The numbers of the units with a score of at most τ; none where the score is unknown."""
        return _at_most(self.scores, tau)

    def gradient_dormant(self, tau: float = 0.1) -> Tensor:
        """The numbers of the units whose gradient's score is at most τ; none where it is unknown."""
        return _at_most(self.gradient_scores, tau)

    @property
    def effective_rank(self) -> float | None:
        """exp of the entropy of the singular values of h [N, C], in shares of their sum; 0 if all are zero."""
        values = self._singular
        if values is None or not len(values):
            return None if values is None else 0.0
        share = values / values.sum()
        return exp(-float((share * share.log()).sum()))

    @property
    def stable_rank(self) -> float | None:
        """The sum of the squares of the singular values of h over the largest square; 0 if all are zero."""
        values = self._singular
        if values is None or not len(values):
            return None if values is None else 0.0
        return float(values.square().sum() / values.max().square())

    @property
    def _singular(self) -> Tensor | None:
        if self.products is None:
            return None
        squares = torch.linalg.eigvalsh(self.products)
        found: Tensor = squares[squares > len(squares) * 1e-12 * squares[-1].clamp(min=0)].sqrt()
        return found

    def plus(self, other: LayerDormancy) -> LayerDormancy:
        """Both parts of the data together; what one does not know, both do not."""
        summed: dict[str, Any] = {
            name: None if mine is None or theirs is None or mine.shape != theirs.shape else mine + theirs
            for name in ("told", "size", "gradient", "products")
            for mine, theirs in [(getattr(self, name), getattr(other, name))]
        }
        return replace(self, points=self.points + other.points, why=self.why or other.why, **summed)

    def to_dict(self, tau: float = 0.1) -> dict[str, Any]:
        """The measures as plain numbers."""
        units = 0 if self.size is None else len(self.size)
        return {
            "name": self.name,
            "label": self.label,
            "units": units,
            "dormant": None if self.size is None else len(self.dormant(tau)) / units,
            "gradient_dormant": None if self.gradient is None else len(self.gradient_dormant(tau)) / units,
            "effective_rank": self.effective_rank,
            "stable_rank": self.stable_rank,
            "weight_norm": self.weight_norm,
            "unknown": list(self.why),
        }


@dataclass(frozen=True, slots=True, eq=False)
class Dormancy:
    """The softer measures of every layer; parts of the data add up: `a + b`."""

    layers: tuple[LayerDormancy, ...]
    example: Example | None = None

    def __getitem__(self, name: str) -> LayerDormancy:
        """A layer by its name or label."""
        for layer in self.layers:
            if name in (layer.name, layer.label):
                return layer
        raise KeyError(name)

    def __add__(self, other: Dormancy) -> Dormancy:
        ours, theirs = ({layer.name: layer for layer in one.layers} for one in (self, other))
        both = [ours[name].plus(theirs[name]) if name in theirs else ours[name] for name in ours]
        return Dormancy((*both, *(theirs[name] for name in theirs if name not in ours)), self.example)

    def share(self, tau: float = 0.1, *, gradient: bool = False) -> float | None:
        """The share of dormant units of all layers in which it is known; None if it is known of none."""
        known = [one for one in self.layers if (one.gradient if gradient else one.size) is not None]
        found = [one.gradient_dormant(tau) if gradient else one.dormant(tau) for one in known]
        units = sum(len(one.size) for one in known if one.size is not None)
        return sum(map(len, found)) / units if units else None

    def __str__(self) -> str:
        rows = [
            ("layer", "units", "dormant", "gradient-dormant", "effective rank", "stable rank", "weight norm"),
            *(tuple(map(_in_words, list(layer.to_dict().values())[1:8])) for layer in self.layers),
        ]
        widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
        return "\n".join("  ".join(text.ljust(wide) for text, wide in zip(row, widths, strict=True)) for row in rows)


def dormancy(
    model: nn.Module,
    data: Any,
    *,
    loss: Loss | None = None,
    layers: Sequence[str] = (),
    point_axis: int | None = 0,
    declared: Declared = UNDECLARED,
) -> Dormancy:
    """Measure how much each unit tells the rest, over all of `data`; with a loss, also how much gradient it gets.

    The model runs in eval mode and is left as it was. `data` is whatever `alive.census` takes.

    >>> model = nn.Sequential(nn.Linear(1, 3), nn.ReLU(), nn.Linear(3, 1))
    >>> _ = model[0].weight.data.copy_(torch.tensor([[2.0], [1.0], [0.0]])), model[0].bias.data.zero_()
    >>> found = dormancy(model, torch.tensor([[1.0], [2.0]]))
    >>> found["1"].scores.tolist()
    [2.0, 1.0, 0.0]
    >>> found["1"].dormant(0.1).tolist(), found.share(0.1)
    ([2], 0.3333333333333333)
    """
    watcher = _Watcher(wants_gradient=loss is not None)
    taps = Taps(model, watcher, layers=layers, point_axis=point_axis, declared=declared)
    root = bare(model)
    modes, total, example = Modes(model), None, None
    try:
        modes.evaluate()
        with unfrozen(root, wanted=loss is not None):
            for number, batch in enumerate(read(data, root, point_axis)):
                points = calls.points_in(batch, point_axis, number, model=root)
                example = example or example_of(root, batch, points)
                watcher.expect(points)
                with taps.batch(calls.inputs(batch, root), points, follow=True):
                    output = calls.run(root, batch, number, None, grad=loss is not None)
                if loss is not None:
                    watcher.go_back(loss_of(loss, output, calls.targets(batch, root)))
                found = Dormancy(tuple(_weigh(root, one) for one in watcher.seen.values()), example)
                total = found if total is None else total + found
    finally:
        taps.remove()
        modes.restore()
    if total is None:
        raise AliveError("the data has no batch", "Pass a loader with at least one point")
    if not total.layers:
        raise taps.notes.without_activations()
    return total


class _Watcher(Watcher):
    """Sums up what the units of each layer tell in one batch."""

    def __init__(self, *, wants_gradient: bool) -> None:
        self.wants_gradient = wants_gradient
        self.points = 0
        self.seen: dict[str, LayerDormancy] = {}
        self._edges: dict[str, tuple[GradientEdge, Layout]] = {}

    def expect(self, points: int) -> None:
        """A batch of so many points comes."""
        self.points, self.seen, self._edges = points, {}, {}

    def watch(self, call: Call) -> Any:
        """Carry the activation out, and look at what it gives."""
        h = call.activate()
        name, layout = call.tap.name, call.tap.layout
        while name in self.seen:
            name += "'"
        own = LayerDormancy(name, call.tap.label, layout.made_by, self.points)
        seen: Any = h if isinstance(h, Tensor) else None
        why = _unfit(seen, layout)
        if why or seen is None:
            self.seen[name] = replace(own, why=(*layout.why, why))
            return h
        rows = layout.arrange(seen.detach(), self.points).double()  # [N, C, positions]
        means = rows.mean(2)
        with DisableTorchFunction():  # this product is not the model's, of which others that watch it keep account
            products = (means.T @ means).cpu() if means.shape[1] <= MOST_UNITS else None
        size = rows.abs().mean(2).sum(0).cpu()
        self.seen[name] = replace(own, told=means.sum(0).cpu(), size=size, products=products)
        if self.wants_gradient and seen.requires_grad:
            self._edges[name] = get_gradient_edge(seen), layout
        return h

    def go_back(self, loss: Tensor) -> None:
        """Take the gradient that arrives at each layer."""
        edges = [edge for edge, _ in self._edges.values()]
        found = torch.autograd.grad(loss, edges, allow_unused=True) if edges else ()
        for (name, (_, layout)), gradient in zip(self._edges.items(), found, strict=True):
            own = self.seen[name]
            assert own.size is not None
            arrived = torch.zeros_like(own.size)
            if gradient is not None:
                arrived = layout.arrange(gradient.detach(), self.points).double().abs().mean(2).sum(0).cpu()
            self.seen[name] = replace(own, gradient=arrived)


def _unfit(h: Tensor | None, layout: Layout) -> str:
    """Why the units of a layer cannot be summed up; empty if they can."""
    if h is None:
        return "what the activation gives is not seen"
    if not layout.known or not isinstance(layout.place, Grid):
        return "its points and units do not lie on a grid"
    return ""


def _weigh(root: nn.Module, layer: LayerDormancy) -> LayerDormancy:
    """With the norm of the weights that make its units, where these are one module's."""
    try:
        weight = getattr(root.get_submodule(layer.made_by), "weight", None) if layer.made_by else None
    except AttributeError:
        weight = None
    return layer if not isinstance(weight, Tensor) else replace(layer, weight_norm=float(weight.detach().norm()))


def _relative(sums: Tensor | None) -> Tensor | None:
    if sums is None:
        return None
    mean = sums.mean()
    return sums / mean if float(mean) > 0 else torch.zeros_like(sums)


def _at_most(scores: Tensor | None, tau: float) -> Tensor:
    return torch.empty(0, dtype=torch.long) if scores is None else (scores <= tau).nonzero().flatten()


def _in_words(value: Any) -> str:
    return "unknown" if value is None else f"{value:.3g}" if isinstance(value, float) else str(value)
