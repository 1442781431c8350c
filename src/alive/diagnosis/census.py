"""Census: the exact state of every unit and every point of a model over a whole data set, in one pass.

A census of one batch is a small record, and records add up: the census of a data set is the sum of the censuses of
its batches, whoever took them. Memory is O(units), whatever the number of points.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ..errors import AliveError
from ..functional import Activation, State, classify
from ..functional.separation import canonical
from ..taps import Call, Taps, bare, without_activations
from . import batches

ALIVE = -1  # in `died_at`: the point reached the output


class Tally(NamedTuple):
    """How many are in which state; tallies add."""

    dead: int = 0
    linear: int = 0
    nonlinear: int = 0
    broken: int = 0

    @classmethod
    def of(cls, states: Tensor) -> Tally:
        """Count states as `functional.classify` gives them."""
        count = torch.bincount(states.long().flatten(), minlength=len(State)).tolist()
        return cls(count[State.DEAD], count[State.LINEAR], count[State.NONLINEAR], count[State.BROKEN])

    @property
    def total(self) -> int:
        """All of them."""
        return sum(self)

    def plus(self, other: Tally) -> Tally:
        """The two together."""
        return Tally(*map(add, self, other))


@dataclass(frozen=True, slots=True, eq=False)
class LayerCensus:
    """One layer: the extremes of each unit's pre-activation [C], the points by state, and how many died here first.

    `points` is empty where the layer's rows cannot be told apart by point.
    """

    name: str
    activation: Activation
    top: Tensor
    bottom: Tensor
    points: Tally
    first_deaths: int

    @property
    def states(self) -> Tensor:
        """The state of each unit, int8 [C]."""
        return classify(self.top, self.bottom, self.activation)

    @property
    def units(self) -> Tally:
        """The units by state."""
        return Tally.of(self.states)

    def plus(self, other: LayerCensus) -> LayerCensus:
        """The two parts of the data together."""
        if self.top.shape != other.top.shape or self.activation != other.activation:
            raise AliveError(
                f"layer {self.name} has {len(self.top)} units of {self.activation.name} in one census and "
                f"{len(other.top)} of {other.activation.name} in the other",
                "Add censuses of one and the same model",
            )
        return replace(
            self,
            top=torch.maximum(self.top, other.top),
            bottom=torch.minimum(self.bottom, other.bottom),
            points=self.points.plus(other.points),
            first_deaths=self.first_deaths + other.first_deaths,
        )


@dataclass(frozen=True, slots=True, eq=False)
class Census:
    """The state of every unit and point of a model. Parts of the data add up: `a + b`.

    Over all layers, a point is dead if some layer maps it to all zeros, linear if every layer passes it whole,
    nonlinear otherwise. `died_at` (with keep_points) holds for each point the number of its first dead layer, or −1.
    """

    layers: tuple[LayerCensus, ...]
    points: Tally
    died_at: Tensor | None = None

    @property
    def units(self) -> Tally:
        """The units of all layers by state."""
        return reduce(Tally.plus, (layer.units for layer in self.layers), Tally())

    def __getitem__(self, name: str) -> LayerCensus:
        for layer in self.layers:
            if layer.name == name:
                return layer
        raise KeyError(name)

    def __add__(self, other: Census) -> Census:
        ours, theirs = ({layer.name for layer in census.layers} for census in (self, other))
        if ours.isdisjoint(theirs):
            raise AliveError(
                f"the two censuses have no layer in common: {', '.join(sorted(ours)[:3])} and "
                f"{', '.join(sorted(theirs)[:3])}",
                "Add censuses of one and the same model",
            )
        return _sum(self, other)

    def to_dict(self) -> dict[str, Any]:
        """Everything that was counted, as plain numbers."""
        layers = [
            {
                "name": layer.name,
                "activation": layer.activation.name,
                "cutoff": layer.activation.cutoff,
                "units": layer.units._asdict(),
                "points": layer.points._asdict() if layer.points.total else None,
                "first_deaths": layer.first_deaths,
                "dead_units": (layer.states == State.DEAD).nonzero().flatten().tolist(),
                "linear_units": (layer.states == State.LINEAR).nonzero().flatten().tolist(),
                "broken_units": (layer.states == State.BROKEN).nonzero().flatten().tolist(),
            }
            for layer in self.layers
        ]
        record: dict[str, Any] = {"units": self.units._asdict(), "points": self.points._asdict(), "layers": layers}
        if self.died_at is not None:
            record["died_at"] = self.died_at.tolist()
        return record

    def to_json(self, indent: int | None = 2) -> str:
        """`to_dict` as text."""
        return json.dumps(self.to_dict(), indent=indent)

    def __rich__(self) -> Any:
        from .render import table

        return table(self)

    def __str__(self) -> str:
        from .render import text

        return text(self)

    def _repr_html_(self) -> str:
        from .render import fragment

        return fragment(self)


def census(
    model: nn.Module,
    data: Any,
    *,
    keep_points: bool = False,
    forward: Callable[[nn.Module, Any], Any] | None = None,
    point_axis: int = 0,
    layers: Sequence[str] = (),
    unit_axes: Mapping[str, int] | None = None,
    activations: Mapping[type[nn.Module], Activation] | None = None,
) -> Census:
    """Count dead, linear and nonlinear units and points of a model over all of `data`, exactly, in one pass.

    data         a loader (any iterable of batches), one tensor of inputs, or a pair (inputs, targets). A batch is a
                 tensor, a sequence whose first element is the input, or a mapping that is passed as keywords
    keep_points  also keep which points died, and where: two bytes each
    forward      how to run the model on a batch, if not as above; in a batch that shows no tensor units are counted,
                 and points are not
    point_axis   the axis of the points in inputs and pre-activations (1 for [T, N, C])

    The model runs in eval mode, without gradients, on its own device, and is left as it was.

    >>> model = nn.Sequential(nn.Linear(1, 2), nn.ReLU(), nn.Linear(2, 1))
    >>> _ = model[0].weight.data.copy_(torch.tensor([[1.0], [1.0]]))
    >>> _ = model[0].bias.data.copy_(torch.tensor([0.0, -9.0]))
    >>> found = census(model, torch.tensor([[-1.0], [1.0]]))
    >>> found.units
    Tally(dead=1, linear=0, nonlinear=1, broken=0)
    >>> found.points
    Tally(dead=1, linear=0, nonlinear=1, broken=0)
    """
    counter = _Counter(point_axis, keep_points)
    taps = Taps(model, counter, layers=layers, unit_axes=unit_axes, activations=activations)
    root = bare(model)  # a pass or two are not worth compiling, and replicas cannot be watched
    training = {module: module.training for module in model.modules()}
    try:
        model.eval()
        total: Census | None = None
        for number, batch in enumerate(batches.of(data, root, point_axis)):
            points = batches.points_in(batch, point_axis, number, is_run_by_hand=forward is not None)
            counter.expect(points)
            batches.run(root, batch, number, forward)
            if not counter.seen:
                raise without_activations(model, taps.passed_over)
            counted = counter.count()
            total = counted if total is None else _sum(total, counted)
    finally:
        taps.remove()
        for module, mode in training.items():
            module.training = mode
    if total is None:
        raise AliveError(
            "the data has no batch", "Pass a loader with at least one point; is it exhausted, or its split empty?"
        )
    return total


class _Seen(NamedTuple):
    """One layer over one batch: extremes by unit [C] and states by point [N], if points can be told apart."""

    activation: Activation
    top: Tensor
    bottom: Tensor
    states: Tensor | None


class _Counter:
    """Watches the forward passes over one batch, and makes its census."""

    def __init__(self, point_axis: int, keep_points: bool) -> None:
        self.point_axis, self.keep_points = point_axis, keep_points
        self.points = 0
        self.seen: dict[str, _Seen] = {}

    def expect(self, points: int) -> None:
        """A batch of so many points comes."""
        self.points, self.seen = points, {}

    def begin(self) -> None:
        """Nothing to prepare: one batch may take several passes."""

    def end(self, output: Any) -> None:
        """Nothing to finish."""

    def watch(self, call: Call) -> Any:
        """Take the extremes of one layer on the way."""
        if not call.z.numel():  # an expert that no point was sent to
            return call.activate()
        z = canonical(call.z.detach(), call.tap.unit_axis, self.point_axis)
        z, told_apart = _by_point(z, self.points)
        positions = tuple(range(2, z.ndim))
        # As [C, N], for reductions over rows of many points are ten times as fast as over rows of few units.
        if positions:
            top, bottom = z.amax(positions).t().contiguous(), z.amin(positions).t().contiguous()
        else:
            top = bottom = z.t().contiguous()
        states = classify(top.amax(0), bottom.amin(0), call.tap.activation) if told_apart else None
        dtype = torch.promote_types(z.dtype, torch.float32)
        new = _Seen(call.tap.activation, top.amax(1).to(dtype).cpu(), bottom.amin(1).to(dtype).cpu(), states)
        name = call.tap.name
        while name in self.seen:
            name += "'"
        self.seen[name] = new
        return call.activate()

    def count(self) -> Census:
        """The census of the batch."""
        alive = torch.full((self.points,), ALIVE, dtype=torch.int16)
        told = [seen.states.cpu() for seen in self.seen.values() if seen.states is not None]
        states = torch.stack(told) if told else torch.empty(0, self.points, dtype=torch.int8)
        layers = []
        for number, (name, seen) in enumerate(self.seen.items()):
            dies = alive[:0] if seen.states is None else (seen.states.cpu() == State.DEAD) & (alive == ALIVE)
            if seen.states is not None:
                alive[dies] = number
            tally = Tally() if seen.states is None else Tally.of(seen.states)
            layers.append(LayerCensus(name, seen.activation, seen.top, seen.bottom, tally, int(dies.sum())))
        return Census(tuple(layers), Tally.of(_overall(states)), alive if self.keep_points else None)


def _by_point(z: Tensor, points: int) -> tuple[Tensor, bool]:
    """z with one row a point; rows that a model folded into the batch ([N·T, C]) become positions again."""
    rows = z.shape[0]
    if rows == points:
        return z, True
    if points and rows % points == 0:
        return z.unflatten(0, (points, rows // points)).movedim(1, -1), True
    return z, False


def _overall(states: Tensor) -> Tensor:
    """The state of each point over all layers, from its states [L, N]: broken or dead anywhere, linear everywhere."""
    overall = torch.full(states.shape[1:], State.NONLINEAR, dtype=torch.int8)
    overall[(states == State.LINEAR).all(0) & (len(states) > 0)] = State.LINEAR
    overall[(states == State.DEAD).any(0)] = State.DEAD
    overall[(states == State.BROKEN).any(0)] = State.BROKEN
    return overall


def _sum(a: Census, b: Census) -> Census:
    """The two together; a layer that only some batches reach may be missing from either."""
    ours, theirs = ({layer.name: layer for layer in census.layers} for census in (a, b))
    names = _merged(list(ours), list(theirs))
    layers = tuple(
        ours[name].plus(theirs[name]) if name in ours and name in theirs else ours.get(name) or theirs[name]
        for name in names
    )
    died_at = None
    if a.died_at is not None and b.died_at is not None:
        died_at = torch.cat([_renumbered(a.died_at, list(ours), names), _renumbered(b.died_at, list(theirs), names)])
    return Census(layers, a.points.plus(b.points), died_at)


def _merged(ours: list[str], theirs: list[str]) -> list[str]:
    """All names; those that only they have follow the one they follow there."""
    names, place = list(ours), 0
    for name in theirs if theirs != ours else ():
        if name not in ours:
            names.insert(place, name)
        place = names.index(name) + 1
    return names


def _renumbered(died_at: Tensor, old: list[str], new: list[str]) -> Tensor:
    place = {name: number for number, name in enumerate(new)}
    return torch.tensor([*(place[name] for name in old), ALIVE], dtype=torch.int16)[died_at.long()]
