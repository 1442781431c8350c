"""The records of a census, and how they add up.

A census of one batch is a small record, and records add up: the census of a data set is the sum of the censuses of
its batches, in whichever process. Memory does not grow with the number of points.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property, reduce
from operator import add
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from ..errors import AliveError
from ..functional import Activation, State, classify
from ..functional.signals import has_exploded, has_merged, has_vanished
from ..taps import NOUNS, Unseen
from .build import Build
from .example import Example
from .rates import RARE, Rates
from .signal import UNMEASURED, Signal
from .task import Task

if TYPE_CHECKING:
    from ..findings import Finding

ALIVE = -1  # in `died_at`: the point reached the output
BENDS_NOTHING, HAVE_MERGED, VANISHED, EXPLODED = "bends nothing", "merged", "vanished", "exploded"
CUT_OFF = "cut off"
NAMELESS = "points and units: in some batches its units are not known, and it may be another layer of the same place"
BY_POSITION = "with the first input these are paired by position"


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

    @property
    def known(self) -> int:
        """All whose state is known."""
        return self.total - self.unknown

    def plus(self, other: Tally) -> Tally:
        """The two together."""
        return Tally(*map(add, self, other))


@dataclass(frozen=True, eq=False)
class LayerCensus:
    """One layer: the extremes of each unit's pre-activation [C], the points by state, and how many died here first.

    label     what made its input, and the activation: `convs.14 → relu`
    where     the line that calls the activation, where it is known: `model.py:37`
    made_by   the weights that made it, by their path in the model
    unknown   what cannot be told of it, and why, in words
    values    where its units are unknown: how many values it has for a point, of which some are units
    bypassed  whether some path to the output leads around it; None where no pass could be followed
    signal    how far apart the points still are, and how much of the gradient arrives
    noun      what its units are called: "unit"; where a few of many are chosen, "latent", "code" or "expert". There,
              top is the largest margin to being chosen: the score less the k-th largest of the others
    scored    of a choice, whether by scores that can be lifted
    paired    inputs whose points are taken to be those of the first one by their position alone
    rates     how often each unit is on; None where its units are unknown
    """

    name: str
    activation: Activation
    top: Tensor
    bottom: Tensor
    points: Tally
    first_deaths: int
    signal: Signal = UNMEASURED
    label: str = ""
    where: str = ""
    made_by: str = ""
    unknown: tuple[str, ...] = ()
    values: int = 0
    bypassed: bool | None = None
    noun: str = "unit"
    scored: bool = True
    paired: tuple[str, ...] = ()
    rates: Rates | None = None

    @property
    def states(self) -> Tensor:
        """The state of each unit, int8 [C]."""
        return classify(self.top, self.bottom, self.activation)

    @cached_property
    def units(self) -> Tally:
        """The units by state; where they cannot be told, so many values are unknown. Units never met do not count."""
        if self.values:
            return Tally(unknown=self.values)
        met = (self.top != -torch.inf) | (self.bottom != torch.inf)
        return Tally.of(self.states[met])

    @property
    def saturated(self) -> int:
        """How many of the dead units are not off but at the activation's ceiling for every point, as ReLU6 at 6."""
        return int(((self.bottom >= self.activation.ceiling) & (self.states == State.DEAD) & self.top.isfinite()).sum())

    @property
    def straight(self) -> int:
        """How many units are never off and bend nothing: the linear ones that stay where the activation is straight."""
        on_line = (self.states == State.LINEAR) & (self.bottom >= self.activation.straight_from)
        return int(on_line.sum())

    @property
    def bends(self) -> bool | None:
        """Whether some unit bends; a layer of dead and straight units bends nothing. None where it is unknown."""
        units = self.units
        if units.nonlinear or units.linear > self.straight:
            return True
        return None if units.unknown or units.broken or not units.total else False

    def plus(self, other: LayerCensus) -> LayerCensus:
        """The two parts of the data together; what is unknown in one is unknown in both."""
        common: dict[str, Any] = {
            "points": self.points.plus(other.points),
            "first_deaths": self.first_deaths + other.first_deaths,
            "signal": self.signal.plus(other.signal),
            "unknown": tuple(dict.fromkeys((*self.unknown, *other.unknown))),
            "values": max(self.values, other.values),
            "paired": tuple(dict.fromkeys((*self.paired, *other.paired))),
        }
        if common["values"]:
            return replace(self, top=self.top[:0], bottom=self.bottom[:0], rates=None, **common)
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
            rates=None if self.rates is None or other.rates is None else self.rates.plus(other.rates),
            **common,
        )

    def uncounted(self, why: str) -> LayerCensus:
        """The same where nothing can be told of its points and units, and why."""
        values, points = max(self.values, len(self.top)), Tally(unknown=self.points.total)
        top, bottom, unknown = self.top[:0], self.bottom[:0], tuple(dict.fromkeys((*self.unknown, why)))
        return replace(self, top=top, bottom=bottom, points=points, values=values, unknown=unknown, rates=None)

    def to_dict(self, rare: float = RARE) -> dict[str, Any]:
        """Everything that was counted, as plain numbers."""
        states = self.states
        return {
            "name": self.name,
            "label": self.label or self.name,
            "where": self.where,
            "noun": self.noun,
            "activation": self.activation.name,
            "cutoff": self.activation.cutoff,
            "units": self.units._asdict(),
            "points": self.points._asdict() if self.points.total else None,
            "first_deaths": self.first_deaths,
            "signal": self.signal.to_dict(),
            "bends": self.bends,
            "made_by": self.made_by,
            "unknown": list(self.unknown),
            "paired_by_position": list(self.paired),
            "bypassed": self.bypassed,
            "dead_units": (states == State.DEAD).nonzero().flatten().tolist(),
            "linear_units": (states == State.LINEAR).nonzero().flatten().tolist(),
            "broken_units": (states == State.BROKEN).nonzero().flatten().tolist(),
            "rates": self.rates and self.rates.to_dict(rare),
        }


def silent(layers: Iterable[LayerCensus]) -> str:
    """What the dead units of some layers are for every point, which let nothing through: off, saturated or both."""
    some = list(layers)
    dead, saturated = sum(layer.units.dead for layer in some), sum(layer.saturated for layer in some)
    if not saturated:
        return "off"
    return "saturated" if saturated == dead else f"off, or saturated ({saturated}),"


@dataclass(frozen=True, eq=False)
class Census:
    """The state of every unit and point of a model. Parts of the data add up: `a + b`.

    Over all layers, a point is dead if some layer maps it to all zeros, linear if every layer passes it whole,
    nonlinear otherwise; unknown if none maps it to zeros, but some layer's points cannot be told. `died_at` (with
    keep_points) holds for each point the number of its first dead layer, or −1. `unseen` are one-sided operations that
    were noticed and could not be counted. `input` and `output` are the signal in the model's first input and in its
    output; gradients of layers are in shares of that of the output. `build` says which cures apply to the model.
    Units are those of all layers: latents, codes and experts too, which `chosen` has by themselves.
    `task` is what the loss says, where one was given. `example` is how the model is called, on two of the points.
    `rare` is the share of its values below which a unit is rarely on, or off.
    """

    layers: tuple[LayerCensus, ...]
    points: Tally
    died_at: Tensor | None = None
    unseen: tuple[Unseen, ...] = ()
    input: Signal | None = None
    output: Signal | None = None
    build: Build | None = None
    example: Example | None = None
    rare: float = RARE
    task: Task | None = None

    @property
    def units(self) -> Tally:
        """The units of all layers by state."""
        return reduce(Tally.plus, (layer.units for layer in self.layers), Tally())

    def chosen(self, noun: str) -> Tally:
        """Those units that are latents, codes or experts, by state; none where nothing is chosen from."""
        return reduce(Tally.plus, (layer.units for layer in self.layers if layer.noun == noun), Tally())

    @property
    def never(self) -> str:
        """What never means, in words: of how many points, and what it says of others like them."""
        n = self.points.total
        return (
            "" if n < 4 else f"never on at {n:,} points: on at less than 3 in {n:,} such points, with 95 % confidence"
        )

    def __getitem__(self, name: str) -> LayerCensus:
        """A layer by its name or label."""
        for layer in self.layers:
            if name in (layer.name, layer.label):
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
        return together(self, other)

    def words(self, layer: LayerCensus) -> tuple[str, ...]:
        """What is wrong with the signal in a layer: bends nothing, merged, vanished, exploded, cut off."""
        found = [BENDS_NOTHING] if layer.bends is False else []
        if self._has_merged(layer.signal):
            found.append(HAVE_MERGED)
        gradient = layer.signal.gradient
        if layer.signal.cut:
            found.append(CUT_OFF)
        elif gradient is not None:
            found += [EXPLODED] if has_exploded(gradient) else []
            found += [VANISHED] if has_vanished(gradient) and (gradient or self._is_shut(layer)) else []
        return tuple(found)

    @property
    def paired(self) -> tuple[str, ...]:
        """The inputs whose points count as those of the first one by their position alone."""
        counted = (layer.paired for layer in self.layers if layer.points.total > layer.points.unknown)
        return tuple(dict.fromkeys(name for names in counted for name in names))

    @property
    def unsettled(self) -> tuple[str, ...]:
        """Batch norms that have seen no data."""
        return () if self.build is None else self.build.unsettled

    @property
    def losses(self) -> tuple[tuple[str, LayerCensus], ...]:
        """What ends the signal on its only way, and where: merged, then exploded or vanished; empty where it passes.

        Where every layer is cut off, that alone. Batch norms that have seen no data are no norms yet: what they do in
        eval mode is no verdict on training.
        """
        if self.cut_off and len(self.cut_off) == sum(layer.noun == "unit" for layer in self.layers):
            return ((CUT_OFF, self.cut_off[-1]),)
        on_path = [] if self.unsettled else [layer for layer in self.layers if not layer.bypassed]
        words = {layer.name: self.words(layer) for layer in on_path}
        merged = [layer for layer in on_path if self._stays_merged(layer)]
        exploded = [layer for layer in on_path if EXPLODED in words[layer.name]]
        vanished = [layer for layer in reversed(on_path) if VANISHED in words[layer.name]]
        found = ((HAVE_MERGED, merged), (EXPLODED, exploded), (VANISHED, [] if exploded else vanished))
        return tuple((word, layers[0]) for word, layers in found if layers)

    @property
    def cut_off(self) -> tuple[LayerCensus, ...]:
        """The layers to which nothing leads back from the output, or from the loss."""
        return tuple(layer for layer in self.layers if layer.signal.cut)

    @property
    def gone(self) -> str:
        """One sentence if no signal passes from the points to the output, or from the output back; else nothing."""
        return "; ".join(self.sentence(word, layer, layer.label or layer.name) for word, layer in self.losses)

    def sentence(self, word: str, layer: LayerCensus, name: str) -> str:
        """One of the losses in words, the layer called by that name."""
        if word == HAVE_MERGED:
            end = layer.signal if self.output is None or self.output.spread is None else self.output
            return (
                f"all points have become one from {name} on: they differ there by {layer.signal.spread:.1e} of their "
                f"size, and at the end by {end.spread:.1e}"
            )
        if word == CUT_OFF:
            return f"no gradient comes back to {name}, or to any layer before: nothing leads there from the output"
        first = self.layers[0]
        further = "" if layer is first else f", and {first.signal.gradient or 0.0:.1e} at the first layer"
        return (
            f"the gradient has {word} on its way back to {name}: {layer.signal.gradient:.1e} of the output's "
            f"arrives there{further}"
        )

    def _has_merged(self, signal: Signal) -> bool:
        """Whether points that lay apart at first have become one."""
        spread = signal.spread
        if spread is None:
            return False
        first = [s.spread or 0.0 for s in (self.input, *(layer.signal for layer in self.layers[:1])) if s is not None]
        return bool(has_merged(spread, max(first, default=0.0), signal.resolution))

    def _stays_merged(self, layer: LayerCensus) -> bool:
        """Whether points are one from this layer on: what tells them apart again has not lost them."""
        number = next(k for k, other in enumerate(self.layers) if other is layer)
        later = [other.signal for other in self.layers[number:] if other.signal.spread is not None]
        later += [self.output] if self.output is not None and self.output.spread is not None else []
        return layer.signal.spread is not None and all(map(self._has_merged, later))

    def _is_shut(self, layer: LayerCensus) -> bool:
        """Whether a gradient of exactly 0 is lost on the way, and not held back by weights that start from zero."""
        if layer.bypassed:
            return False
        number = next(k for k, other in enumerate(self.layers) if other is layer)
        return any(other.signal.gradient for other in self.layers[number + 1 :])

    @cached_property
    def findings(self) -> tuple[Finding, ...]:
        """What all this means: the gravest first; empty if all is well."""
        from ..findings import see_all

        return see_all(self)

    def to_dict(self) -> dict[str, Any]:
        """Everything that was counted, as plain numbers."""
        record: dict[str, Any] = {
            "units": self.units._asdict(),
            "points": self.points._asdict(),
            **{f"{noun}s": self.chosen(noun)._asdict() for noun in NOUNS if self.chosen(noun).total},
            "gone": self.gone,
            "layers": [{**layer.to_dict(self.rare), "words": list(self.words(layer))} for layer in self.layers],
            "rare_below": self.rare,
        }
        for name in ("input", "output"):
            signal: Signal | None = getattr(self, name)
            record[name] = None if signal is None else signal.to_dict()
        if self.task is not None:
            record["loss"] = asdict(self.task)
        if self.unsettled:
            record["unsettled"] = list(self.unsettled)
        if self.unseen:
            record["unseen"] = [unseen._asdict() for unseen in self.unseen]
        if self.died_at is not None:
            record["died_at"] = self.died_at.tolist()
        return record

    def to_json(self, indent: int | None = 2) -> str:
        """`to_dict` as text."""
        return json.dumps(self.to_dict(), indent=indent)

    def __rich__(self) -> Any:
        from ..render import table

        return table(self)

    def __str__(self) -> str:
        from ..render import text

        return text(self)

    def _repr_html_(self) -> str:
        from ..render import fragment

        return fragment(self)


def together(a: Census, b: Census) -> Census:
    """The two together; a layer that only some batches reach may be missing from either."""
    b = _rename(a, b)
    ours, theirs = ({layer.name: layer for layer in census.layers} for census in (a, b))
    names = _merge(list(ours), list(theirs))
    doubtful = _doubtful(ours, theirs)
    layers = tuple(
        ours[name].plus(theirs[name]) if name in ours and name in theirs else ours.get(name) or theirs[name]
        for name in names
    )
    layers = tuple(
        layer.uncounted(NAMELESS) if layer.name in doubtful or NAMELESS in layer.unknown else layer for layer in layers
    )
    died_at = None
    if a.died_at is not None and b.died_at is not None:
        died_at = torch.cat([_renumber(a.died_at, list(ours), names), _renumber(b.died_at, list(theirs), names)])
    unseen = {unseen.name: unseen for census in (a, b) for unseen in census.unseen}
    given, made = (
        None if ours is None or theirs is None else ours.plus(theirs)
        for ours, theirs in ((a.input, b.input), (a.output, b.output))
    )
    build, example = a.build or b.build, a.example or b.example
    points = a.points.plus(b.points)
    task = None if a.task is None or b.task is None else a.task.plus(b.task)
    return Census(layers, points, died_at, tuple(unseen.values()), given, made, build, example, a.rare, task)


def _doubtful(ours: Mapping[str, LayerCensus], theirs: Mapping[str, LayerCensus]) -> set[str]:
    """Layers that only one part has, where another, of unknown units, that only the other part has may be the same."""
    alone = [[layer for name, layer in a.items() if name not in b] for a, b in ((ours, theirs), (theirs, ours))]
    bases = [{_base(layer.name) for layer in some} for some in alone]
    strange = {_base(layer.name) for some in alone for layer in some if layer.values}
    return {layer.name for some in alone for layer in some if _base(layer.name) in strange & bases[0] & bases[1]}


def _rename(a: Census, b: Census) -> Census:
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


def _merge(ours: list[str], theirs: list[str]) -> list[str]:
    """All names in order; a name that only one of the two has comes after the same name as there."""
    names, place = list(ours), 0
    for name in theirs if theirs != ours else ():
        if name not in ours:
            names.insert(place, name)
        place = names.index(name) + 1
    return names


def _renumber(died_at: Tensor, old: list[str], new: list[str]) -> Tensor:
    place = {name: number for number, name in enumerate(new)}
    return torch.tensor([*(place[name] for name in old), ALIVE], dtype=torch.int16)[died_at.long()]
