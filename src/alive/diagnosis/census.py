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
from ..provenance import Scattered
from ..taps import Call, Output, Tap, Taps, Unseen, bare, without_activations
from . import batches
from .extremes import extremes
from .modes import Modes

ALIVE = -1  # in `died_at`: the point reached the output
ABSENT = -1  # in the states of a layer: the point was not sent there


class Tally(NamedTuple):
    """How many are in which state; tallies add."""

    dead: int = 0
    linear: int = 0
    nonlinear: int = 0
    broken: int = 0
    unknown: int = 0

    @classmethod
    def of(cls, states: Tensor) -> Tally:
        """Count states as `functional.classify` gives them."""
        count = torch.bincount(states.long().flatten(), minlength=len(State)).tolist()
        return cls(*(count[State[name.upper()]] for name in cls._fields))

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

    made_by   the weights that made it, by their path in the model
    unknown   what cannot be told of it, and why, in words
    values    where its units are unknown: how many values it has for a point, of which some are units
    bypassed  whether some path to the output leads around it; None where no pass could be followed
    """

    name: str
    activation: Activation
    top: Tensor
    bottom: Tensor
    points: Tally
    first_deaths: int
    made_by: str = ""
    unknown: tuple[str, ...] = ()
    values: int = 0
    bypassed: bool | None = None

    @property
    def states(self) -> Tensor:
        """The state of each unit, int8 [C]."""
        return classify(self.top, self.bottom, self.activation)

    @property
    def units(self) -> Tally:
        """The units by state; where they cannot be told, so many values are unknown. Units never met do not count."""
        if self.values:
            return Tally(unknown=self.values)
        met = (self.top != -torch.inf) | (self.bottom != torch.inf)
        return Tally.of(self.states[met])

    def plus(self, other: LayerCensus) -> LayerCensus:
        """The two parts of the data together; what is unknown in one is unknown in both."""
        common: dict[str, Any] = {
            "points": self.points.plus(other.points),
            "first_deaths": self.first_deaths + other.first_deaths,
            "unknown": tuple(dict.fromkeys((*self.unknown, *other.unknown))),
            "values": max(self.values, other.values),
        }
        if common["values"]:
            return replace(self, top=self.top[:0], bottom=self.bottom[:0], **common)
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
            **common,
        )


@dataclass(frozen=True, slots=True, eq=False)
class Census:
    """The state of every unit and point of a model. Parts of the data add up: `a + b`.

    Over all layers, a point is dead if some layer maps it to all zeros, linear if every layer passes it whole,
    nonlinear otherwise; unknown if none maps it to zeros, but some layer's points cannot be told. `died_at` (with
    keep_points) holds for each point the number of its first dead layer, or −1. `unseen` are one-sided operations that
    were noticed and could not be counted.
    """

    layers: tuple[LayerCensus, ...]
    points: Tally
    died_at: Tensor | None = None
    unseen: tuple[Unseen, ...] = ()

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
                "made_by": layer.made_by,
                "unknown": list(layer.unknown),
                "bypassed": layer.bypassed,
                "dead_units": (layer.states == State.DEAD).nonzero().flatten().tolist(),
                "linear_units": (layer.states == State.LINEAR).nonzero().flatten().tolist(),
                "broken_units": (layer.states == State.BROKEN).nonzero().flatten().tolist(),
            }
            for layer in self.layers
        ]
        record: dict[str, Any] = {"units": self.units._asdict(), "points": self.points._asdict(), "layers": layers}
        if self.unseen:
            record["unseen"] = [unseen._asdict() for unseen in self.unseen]
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
    point_axis: int | None = 0,
    layers: Sequence[str] = (),
    unit_axes: Mapping[str, int] | None = None,
    activations: Mapping[type[nn.Module], Activation] | None = None,
    outputs: Mapping[type[nn.Module], Output] | None = None,
) -> Census:
    """Count dead, linear and nonlinear units and points of a model over all of `data`, exactly, in one pass.

    data         a loader (any iterable of batches), one tensor of inputs, or a pair (inputs, targets). A batch is a
                 tensor, a sequence whose first element is the input, or a mapping that is passed as keywords
    keep_points  also keep which points died, and where: two bytes each
    forward      how to run the model on a batch, if not as above; in a batch that shows no tensor units are counted,
                 and points are not
    point_axis   the axis of the points in the inputs (1 for [T, N, C]); None: each tensor of a batch is one point
    layers, unit_axes, activations, outputs   see `alive.taps.Taps`

    What cannot be told is counted as unknown, with the reason: see `LayerCensus.unknown` and `Census.unseen`.

    The model runs in eval mode, without gradients, on its own device, and is left as it was.

    >>> model = nn.Sequential(nn.Linear(1, 2), nn.ReLU(), nn.Linear(2, 1))
    >>> _ = model[0].weight.data.copy_(torch.tensor([[1.0], [1.0]]))
    >>> _ = model[0].bias.data.copy_(torch.tensor([0.0, -9.0]))
    >>> found = census(model, torch.tensor([[-1.0], [1.0]]))
    >>> found.units
    Tally(dead=1, linear=0, nonlinear=1, broken=0, unknown=0)
    >>> found.points
    Tally(dead=1, linear=0, nonlinear=1, broken=0, unknown=0)
    """
    counter = _Counter(keep_points)
    where: dict[str, Any] = {"point_axis": point_axis, "unit_axes": unit_axes}
    taps = Taps(model, counter, layers=layers, activations=activations, outputs=outputs, **where)
    root = bare(model)  # a pass or two are not worth compiling, and replicas cannot be watched
    modes = Modes(model)
    try:
        modes.evaluate()
        total: Census | None = None
        for number, batch in enumerate(batches.of(data, root, point_axis)):
            points = batches.points_in(batch, point_axis, number, is_run_by_hand=forward is not None)
            counter.expect(points)
            with taps.batch(batch, points):
                batches.run(root, batch, number, forward)
            if taps.book.asked_again:  # something lay otherwise than before: look again
                counter.expect(points)
                with taps.batch(batch, points, follow=True):
                    batches.run(root, batch, number, forward)
            if not counter.seen:
                raise without_activations(model, taps.passed_over)
            counted = counter.count(taps)
            total = counted if total is None else _sum(total, counted)
    finally:
        taps.remove()
        modes.restore()
    if total is None:
        raise AliveError(
            "the data has no batch", "Pass a loader with at least one point; is it exhausted, or its split empty?"
        )
    return total


class _Seen(NamedTuple):
    """One layer over one batch: extremes by unit [C] and states by point [N]; None where they cannot be told."""

    tap: Tap
    top: Tensor | None
    bottom: Tensor | None
    states: Tensor | None
    values: int


class _Counter:
    """Watches the forward passes over one batch, and makes its census."""

    def __init__(self, keep_points: bool) -> None:
        self.keep_points = keep_points
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
        layout = call.tap.layout
        by_unit, by_point = extremes(call.z.detach(), layout, self.points)
        states = None
        if by_point is not None:
            states = classify(*by_point, call.tap.activation)
            if isinstance(layout.place, Scattered):
                states[(by_point[0] == -torch.inf) & (by_point[1] == torch.inf)] = ABSENT
        values = 0 if layout.units else max(1, call.z.numel() // max(self.points, 1))
        top, bottom = by_unit or (None, None)
        name = call.tap.name
        while name in self.seen:
            name += "'"
        self.seen[name] = _Seen(call.tap, top, bottom, states, values)
        return call.activate()

    def count(self, taps: Taps) -> Census:
        """The census of the batch."""
        for name in taps.aside:
            self.seen.pop(name, None)
        alive = torch.full((self.points,), ALIVE, dtype=torch.int16)
        told = [seen.states.cpu() for seen in self.seen.values() if seen.states is not None]
        states = torch.stack(told) if told else torch.empty(0, self.points, dtype=torch.int8)
        layers = []
        for number, (name, seen) in enumerate(self.seen.items()):
            dies = alive[:0] if seen.states is None else (seen.states.cpu() == State.DEAD) & (alive == ALIVE)
            if seen.states is not None:
                alive[dies] = number
            around = None if taps.through is None else seen.tap.name not in taps.through
            layers.append(_layer(name, seen, self.points, int(dies.sum()), around))
        overall, unseen = _overall(states), tuple(taps.unseen.values())
        if len(told) < len(self.seen) or any(
            missed.counts and not missed.name.split("#")[0].endswith("topk") for missed in unseen
        ):
            overall[(overall != State.DEAD) & (overall != State.BROKEN)] = State.UNKNOWN
        return Census(tuple(layers), Tally.of(overall), alive if self.keep_points else None, unseen)


def _layer(name: str, seen: _Seen, points: int, deaths: int, bypassed: bool | None) -> LayerCensus:
    states, layout = seen.states, seen.tap.layout
    tally = Tally(unknown=points) if states is None else Tally.of(states[states != ABSENT])
    nothing = torch.empty(0)
    top, bottom = (nothing if end is None else end for end in (seen.top, seen.bottom))
    known: dict[str, Any] = {
        "made_by": layout.made_by,
        "unknown": layout.why,
        "values": seen.values,
        "bypassed": bypassed,
    }
    return LayerCensus(name, seen.tap.activation, top, bottom, tally, deaths, **known)


def _overall(states: Tensor) -> Tensor:
    """The state of each point over all layers, from its states [L, N]: broken or dead anywhere, linear everywhere."""
    overall = torch.full(states.shape[1:], State.NONLINEAR, dtype=torch.int8)
    absent = states == ABSENT
    overall[((states == State.LINEAR) | absent).all(0) & ~absent.all(0)] = State.LINEAR
    overall[(states == State.DEAD).any(0)] = State.DEAD
    overall[(states == State.BROKEN).any(0)] = State.BROKEN
    return overall


def _sum(a: Census, b: Census) -> Census:
    """The two together; a layer that only some batches reach may be missing from either."""
    b = _renamed(a, b)
    ours, theirs = ({layer.name: layer for layer in census.layers} for census in (a, b))
    names = _merged(list(ours), list(theirs))
    layers = tuple(
        ours[name].plus(theirs[name]) if name in ours and name in theirs else ours.get(name) or theirs[name]
        for name in names
    )
    died_at = None
    if a.died_at is not None and b.died_at is not None:
        died_at = torch.cat([_renumbered(a.died_at, list(ours), names), _renumbered(b.died_at, list(theirs), names)])
    unseen = {unseen.name: unseen for census in (a, b) for unseen in census.unseen}
    return Census(layers, a.points.plus(b.points), died_at, tuple(unseen.values()))


def _renamed(a: Census, b: Census) -> Census:
    """b with its layers called as in a: those made by the same weights are the same, in whatever order they came."""
    ours = {layer.name: layer.made_by for layer in a.layers}
    if all(ours.get(layer.name, layer.made_by) == layer.made_by for layer in b.layers):
        return b
    known = {(_base(layer.name), layer.made_by): layer.name for layer in reversed(a.layers)}
    taken, layers = set(ours), []
    for layer in b.layers:
        name = known.pop((_base(layer.name), layer.made_by), None)
        if name is None:
            name, number = _base(layer.name), 1
            while name in taken:
                number += 1
                name = f"{_base(layer.name)}#{number}"
        taken.add(name)
        layers.append(replace(layer, name=name))
    return replace(b, layers=tuple(layers))


def _base(name: str) -> str:
    """A layer's name without the number of its use."""
    return name.rstrip("'").split("#")[0]


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
