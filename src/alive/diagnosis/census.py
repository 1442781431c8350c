"""Census: the exact state of every unit and every point of a model over a whole data set, in one pass."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from inspect import signature
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from ..data import calls, read
from ..errors import AliveError, expect
from ..functional import Activation, State, classify
from ..provenance import Grid, Layout, Pairing, Scattered, by_name
from ..taps import UNDECLARED, Call, Declared, Tap, Taps, Watcher, bare
from ..taps.book import OTHERWISE
from ..taps.selections import CODE, EXPERT, UNIT
from ..torch_private import DisableTorchFunction
from .backward import Backward, Loss, unfrozen
from .build import build
from .example import example_of
from .extremes import reduced
from .kept import Kept
from .modes import Modes
from .rates import RARE, Rates
from .record import ALIVE, Census, LayerCensus, Tally, together
from .signal import UNMEASURED, Signal, measured, of_input

ABSENT = -1  # in the states of a layer: the point was not sent there


def census(
    model: nn.Module,
    data: Any,
    *,
    keep_points: bool = False,
    gradient: bool = False,
    loss: Loss | None = None,
    forward: Callable[[nn.Module, Any], Any] | None = None,
    point_axis: int | None = 0,
    layers: Sequence[str] = (),
    declared: Declared = UNDECLARED,
    rare: float = RARE,
) -> Census:
    """Count dead, linear and nonlinear units and points of a model over all of `data`, exactly, in one pass.

    data         whatever you have: a DataLoader, a data set, a tensor, arrays, a pair (inputs, targets), a mapping that
                 is passed as keywords, several inputs, the name of a file, any iterable of batches
    keep_points  also keep which points died, and where: two bytes each
    gradient     also measure the gradient that arrives at each layer, by a pass back from a fixed random direction of
                 the output
    loss         the same from your own loss: loss(output, targets)
    forward      how to run the model on a batch, if not as above; in a batch that shows no tensor units are counted,
                 and points are not
    point_axis   the axis of the points in the inputs (1 for [T, N, C]); None: each tensor of a batch is one point
    layers       patterns of the names of layers to keep to, such as "features.*"
    declared     what you know of the model that it does not show, see `alive.Declared`
    rare         a unit that is on for less than this share of its values is rare; off for less, nearly linear

    Where a few of many are chosen, the many are units too: latents of a sparse autoencoder, codes, experts
    (`LayerCensus.noun`). One is dead if nothing ever chooses it; a latent, if never with a value that passes.

    What cannot be told is counted as unknown, with the reason: see `LayerCensus.unknown` and `Census.unseen`.

    The model runs in eval mode on its own device, without gradients unless asked for, and is left as it was.

    >>> model = nn.Sequential(nn.Linear(1, 2), nn.ReLU(), nn.Linear(2, 1))
    >>> _ = model[0].weight.data.copy_(torch.tensor([[1.0], [1.0]]))
    >>> _ = model[0].bias.data.copy_(torch.tensor([0.0, -9.0]))
    >>> found = census(model, torch.tensor([[-1.0], [1.0]]))
    >>> found.units
    Tally(dead=1, linear=0, nonlinear=1, broken=0, unknown=0)
    >>> found.points
    Tally(dead=1, linear=0, nonlinear=1, broken=0, unknown=0)
    """
    expect([(0 < rare < 1, f"rare is a share of the values, between 0 and 1, got {rare}")])
    backward = Backward(loss) if gradient or loss is not None else None
    counter = _Counter(keep_points, point_axis, backward)
    taps = Taps(model, counter, layers=layers, point_axis=point_axis, declared=declared)
    root = bare(model)  # a pass or two are not worth compiling, and replicas cannot be watched
    modes = Modes(model)
    total: _Both | None = None
    example = None
    try:
        modes.evaluate()
        with unfrozen(root, wanted=backward is not None):
            for number, batch in enumerate(read(data, root, point_axis)):
                points = calls.points_in(batch, point_axis, number, is_run_by_hand=forward is not None, model=root)
                if forward is None and point_axis == 0:
                    example = example or example_of(root, batch, points)
                run = _Run(root, taps, batch, number, points, forward)
                counted = counter.take(run)
                total = counted if total is None else total.plus(counted)
    finally:
        try:
            taps.remove()
        finally:
            modes.restore()
    if total is None:
        raise AliveError(
            "the data has no batch", "Pass a loader with at least one point; is it exhausted, or its split empty?"
        )
    return replace(total.settled(taps.book.pairing), build=build(root), example=example, rare=rare)


class _Run(NamedTuple):
    """One batch, and how the model runs on it."""

    model: nn.Module
    taps: Taps
    batch: Any
    number: int
    points: int
    forward: Callable[[nn.Module, Any], Any] | None

    @property
    def read(self) -> Any:
        """What of the batch the model reads; all of it, where the user runs it."""
        return self.batch if self.forward is not None else calls.inputs(self.batch, self.model)

    @property
    def named(self) -> Any:
        """The same by the names that the model gives it."""
        if self.forward is not None:
            return self.batch
        args, keywords, _ = calls.take(self.model, self.batch)
        return by_name(self.model, args, keywords)

    def __call__(self, *, grad: bool, follow: bool | None = None) -> Any:
        with self.taps.batch(self.named, self.points, follow=follow):
            return calls.run(self.model, self.batch, self.number, self.forward, grad=grad)


class _Both(NamedTuple):
    """A census in which inputs as long as the first are paired with it, and one in which that is not known."""

    paired: Census
    unsure: Census
    inputs: int  # bits of those that layers are made of

    def plus(self, other: _Both) -> _Both:
        """The two parts of the data together."""
        paired = together(*_as_wide(self.paired, other.paired))
        is_sure = self.unsure is self.paired and other.unsure is other.paired
        unsure = paired if is_sure else together(*_as_wide(self.unsure, other.unsure))
        return _Both(paired, unsure, self.inputs | other.inputs)

    def settled(self, pairing: Pairing) -> Census:
        """The one that is true for all that was seen."""
        return self.unsure if pairing.open(self.inputs) else self.paired


class _Seen(NamedTuple):
    """One layer over one batch: extremes by unit [C] and states by point [N]; None where they cannot be told.

    Of the values of each unit so many are on, of so many. Codes and experts are chosen for every point: there, points
    have no state.
    """

    tap: Tap
    top: Tensor | None
    bottom: Tensor | None
    states: Tensor | None
    values: int
    signal: Signal
    scored: bool = True
    on: Tensor | None = None
    met: Tensor | int = 0

    @property
    def of_points(self) -> bool:
        """Whether points have a state here, known or not."""
        return self.tap.noun not in (CODE, EXPERT)

    def plus(self, other: _Seen) -> _Seen:
        """The same with a call that brings more points."""
        top, bottom = self.top, self.bottom
        if top is not None and bottom is not None and other.top is not None and other.bottom is not None:
            top, bottom = torch.maximum(top, other.top), torch.minimum(bottom, other.bottom)
        on = None if self.on is None or other.on is None else self.on + other.on
        states = self.states
        if states is not None and other.states is not None:
            states = torch.where(other.states == ABSENT, states, other.states)
        signal = replace(self.signal.plus(other.signal), points=self.signal.points)
        seen = self._replace(top=top, bottom=bottom, states=states, signal=signal)
        return seen._replace(on=on, met=self.met + other.met)

    def unclear(self, why: str = OTHERWISE) -> _Seen:
        """The same, where nothing can be told of its points and units."""
        layout = self.tap.layout._replace(points=False, units=False, why=(f"points and units: {why}",))
        nothing: dict[str, Any] = {"top": None, "bottom": None, "states": None, "on": None, "signal": UNMEASURED}
        return self._replace(tap=self.tap._replace(layout=layout), values=layout.place.width, **nothing)

    def unpaired(self, pairing: Pairing) -> _Seen:
        """The same, where its points are unknown if nothing shows that its inputs are paired with the first."""
        doubtful = pairing.open(self.tap.inputs)
        if not doubtful or not self.tap.layout.points:
            return self
        layout = self.tap.layout.without_points(pairing.doubt(doubtful))
        return self._replace(tap=self.tap._replace(layout=layout), states=None)


RESERVED = _Seen(
    Tap("", Activation(""), Layout(Grid(0, (), (), 0), points=False, units=False)), None, None, None, 0, UNMEASURED
)


class _Counter(Watcher):
    """Watches the forward passes over one batch, and makes its census."""

    selects = True  # selections are counted too
    adds_up = True  # over batches, unit by unit
    checks_choices = True  # in every batch it is seen again what becomes of them

    def __init__(self, keep_points: bool, point_axis: int | None = 0, backward: Backward | None = None) -> None:
        self.keep_points, self.point_axis, self.backward = keep_points, point_axis, backward
        self.points = 0
        self.seen: dict[str, _Seen] = {}
        self.met: set[str] = set()  # the names of all layers so far

    def take(self, run: _Run) -> _Both:
        """Run the model on a batch, and count."""
        self.expect(run.points)
        kept = Kept(run.model, run.batch)
        output = run(grad=self.backward is not None)
        if kept.has_changed():  # then no batch can be run twice, so that each is followed at once
            run.taps.book.moving = True
        elif run.taps.book.missed and run.forward is None:  # it went another way: look again
            kept.draw_again()
            self.expect(run.points)
            output = run(grad=self.backward is not None, follow=True)
        self.seen = {name: seen for name, seen in self.seen.items() if seen is not RESERVED}
        if not self.seen:
            raise run.taps.notes.without_activations()
        if run.taps.book.missed:  # and could not look again: a call that is not known may be of a layer of several
            self.seen = {name: seen.unclear() if seen.tap.several else seen for name, seen in self.seen.items()}
        given, made = of_input(run.read, run.points, self.point_axis), calls.main(output, run.points)
        told = None if made is None else measured(made.detach(), run.taps.layout_of_output(made), run.points)
        if self.backward is not None:
            weights = [p for p in run.model.parameters() if p.requires_grad]
            self.backward.run(output, calls.targets(run.batch, run.model), run.points, self.point_axis, weights)
            for name, seen in self.seen.items():
                self.seen[name] = seen._replace(signal=self.backward.arrived(name, seen.signal))
        unseen = run.taps.notes.unseen
        for name in run.taps.notes.aside & self.seen.keys():
            if name in self.met and name in unseen:  # it was a layer in a batch before
                self.seen[name] = self.seen[name].unclear(f"it {unseen[name].why}")
            else:
                del self.seen[name]
        self.met.update(self.seen)
        self.seen = dict(zip(self.seen, _bring(self.seen.values()), strict=True))
        paired = self.count(run.taps, given, told)
        inputs = reduce(int.__or__, (seen.tap.inputs for seen in self.seen.values()), 0)
        if not run.taps.book.pairing.open(inputs):
            return _Both(paired, paired, inputs)
        self.seen = {name: seen.unpaired(run.taps.book.pairing) for name, seen in self.seen.items()}
        return _Both(paired, self.count(run.taps, given, told), inputs)

    def expect(self, points: int) -> None:
        """A batch of so many points comes."""
        self.points, self.seen = points, {}
        if self.backward is not None:
            self.backward.expect()

    def watch(self, call: Call) -> Any:
        """Take the extremes of one layer on the way."""
        if not call.z.numel():  # an expert that no point was sent to
            return call.activate()
        layout, z = call.tap.layout, call.z.detach()
        ends = z if call.selection is None else call.selection.signed(z)
        units, by_point, on, met = reduced(ends, layout, self.points, call.tap.activation)
        states = None
        if by_point is not None and call.tap.noun not in (CODE, EXPERT):
            states = classify(*by_point, call.tap.activation)
            if isinstance(layout.place, Scattered):
                states.masked_fill_((by_point[0] == -torch.inf) & (by_point[1] == torch.inf), ABSENT)
        values = 0 if layout.units else max(1, z.numel() // max(self.points, 1))
        top, bottom = units or (None, None)
        name = call.tap.name
        while name in self.seen and not call.tap.several:
            name += "'"
        judged = call.tap.noun not in (CODE, EXPERT)  # of scores that only choose, the signal says nothing
        with DisableTorchFunction():  # its products are not the model's, of which others that watch it keep account
            signal = measured(z, layout, self.points) if judged else UNMEASURED
        scored = call.selection is None or call.selection.scored
        seen = _Seen(call.tap, top, bottom, states, values, signal, scored, on, met)
        self._put(name, self.seen[name].plus(seen) if name in self.seen else seen, call.slot)
        if self.backward is not None and judged:
            self.backward.listen(name, call.z, layout)
        return call.activate()

    def reserve(self) -> str:
        """Keep a place for a selection that is told later."""
        slot = f"reserved {len(self.seen)}"
        self.seen[slot] = RESERVED
        return slot

    def _put(self, name: str, seen: _Seen, slot: str | None) -> None:
        if slot is None:
            self.seen[name] = seen
        else:
            self.seen = {name if key == slot else key: seen if key == slot else old for key, old in self.seen.items()}

    def count(self, taps: Taps, given: Signal | None = None, made: Signal | None = None) -> Census:
        """The census of the batch."""
        alive = torch.full((self.points,), ALIVE, dtype=torch.int16)
        told = [seen.states for seen in self.seen.values() if seen.states is not None]
        states = torch.stack(told) if told else torch.empty(0, self.points, dtype=torch.int8)
        layers, labels = [], _labels(self.seen)
        for number, (name, seen) in enumerate(self.seen.items()):
            dies = alive[:0] if seen.states is None else (seen.states == State.DEAD) & (alive == ALIVE)
            if seen.states is not None:
                alive[dies] = number
            around = (
                None if taps.notes.through is None or seen.tap.noun != UNIT else seen.tap.name not in taps.notes.through
            )
            layer = _layer(name, labels[name], seen, self.points, int(dies.sum()), around)
            layers.append(replace(layer, paired=taps.book.pairing.by_position(seen.tap.inputs)))
        overall, unseen = _overall(states), tuple(taps.notes.unseen.values())
        hidden = any(missed.counts for missed in unseen)
        if hidden or len(told) < sum(seen.of_points for seen in self.seen.values()):
            overall[(overall != State.DEAD) & (overall != State.BROKEN)] = State.UNKNOWN
        return Census(tuple(layers), Tally.of(overall), alive if self.keep_points else None, unseen, given, made,
                      task=None if self.backward is None else self.backward.task)  # fmt: skip


def _bring(layers: Collection[_Seen]) -> Iterator[_Seen]:
    """What was seen, on the CPU: all that is of one device and kind in one transfer, so that a batch waits once."""
    names = ("top", "bottom", "states", "on", "met")
    groups: dict[Any, list[Tensor]] = {}
    for t in (getattr(seen, name) for seen in layers for name in names):
        if isinstance(t, Tensor) and t.device.type != "cpu":
            groups.setdefault((t.device, t.dtype), []).append(t)
    parts = {key: iter(torch.cat(some).cpu().split([len(t) for t in some])) for key, some in groups.items()}
    for seen in layers:
        here: dict[str, Any] = {name: getattr(seen, name) for name in names}
        for name, t in here.items():
            if isinstance(t, Tensor) and t.device.type != "cpu":
                here[name] = next(parts[t.device, t.dtype])
        yield seen._replace(**here)


def _as_wide(*parts: Census) -> Iterator[Census]:
    """Two parts of one census, each with room for the units that only the other met."""
    widths: dict[str, int] = {}
    for layer in (layer for part in parts for layer in part.layers):
        widths[layer.name] = max(len(layer.top), widths.get(layer.name, 0))
    for part in parts:
        yield replace(part, layers=tuple(_widen(layer, widths[layer.name]) for layer in part.layers))


def _widen(layer: LayerCensus, width: int) -> LayerCensus:
    more = (0, width - len(layer.top))
    if layer.values or not more[1]:
        return layer
    rates = layer.rates and Rates(pad(layer.rates.on, more), pad(layer.rates.met, more))
    top, bottom = pad(layer.top, more, value=-torch.inf), pad(layer.bottom, more, value=torch.inf)
    return replace(layer, top=top, bottom=bottom, rates=rates)


def _labels(seen: Mapping[str, _Seen]) -> dict[str, str]:
    """A label for each layer; of several that would be alike, from the second on with the number of the use."""
    uses: dict[str, int] = {}
    labels = {}
    for name, layer in seen.items():
        label = layer.tap.label
        uses[label] = uses.get(label, 0) + 1
        labels[name] = label if uses[label] == 1 else f"{label}#{uses[label]}"
    return labels


def _layer(name: str, label: str, seen: _Seen, points: int, deaths: int, bypassed: bool | None) -> LayerCensus:
    states, layout = seen.states, seen.tap.layout
    tally = Tally(unknown=points * seen.of_points) if states is None else Tally.of(states[states != ABSENT])
    nothing = torch.empty(0)
    top, bottom = (nothing if end is None else end for end in (seen.top, seen.bottom))
    known: dict[str, Any] = {
        "label": label,
        "where": seen.tap.where,
        "made_by": layout.made_by,
        "unknown": layout.why,
        "values": seen.values,
        "bypassed": bypassed,
        "noun": seen.tap.noun,
        "scored": seen.scored,
        "rates": None if seen.on is None else Rates(seen.on, torch.as_tensor(seen.met).expand(seen.on.shape)),
    }
    return LayerCensus(name, seen.tap.activation, top, bottom, tally, deaths, seen.signal, **known)


def _overall(states: Tensor) -> Tensor:
    """The state of each point over all layers, from its states [L, N]: broken or dead anywhere, linear everywhere."""
    overall = torch.full(states.shape[1:], State.NONLINEAR, dtype=torch.int8)
    absent = states == ABSENT
    overall[((states == State.LINEAR) | absent).all(0) & ~absent.all(0)] = State.LINEAR
    overall[(states == State.DEAD).any(0)] = State.DEAD
    overall[(states == State.BROKEN).any(0)] = State.BROKEN
    return overall


OPTIONS = [name for name in signature(census).parameters if name not in ("model", "data")]
