"""Revive: reset the units of a finished census, with the optimiser's state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor, distributed, nn
from torch.optim import Optimizer

from ...diagnosis import Census, Dormancy, gather
from ...errors import AliveError, expect, expect_one_of
from ...functional import State
from ...taps import bare
from ...taps.selections import CODE, EXPERT
from ...world import world_size
from ..reading import copied, evaluating
from ..shrink.calls import Call, Calls
from ..shrink.graph import Layer
from ..shrink.observed import observe
from .captured import Loss, caught, losses_of, read_by
from .lookups import looked_up
from .numbers import Bench, optimisers_of
from .record import Left, Reset, Revival
from .targets import Target, targets
from .ways import HOW, Points, by_loss, by_utility, redo, reseed, utility
from .wires import OUTPUT, Part, Wired, Wires, chooses, declared, is_shown, read_loudly, wires_of

AT_ONCE = 256  # points the graph is run on at once
TAU = 0.1  # as ReDo has it
SHARE = 0.01  # of the units of a layer, by utility


def revive(
    model: nn.Module,
    census: Census | Dormancy,
    optimiser: Optimizer | Sequence[Optimizer] | None = None,
    *,
    how: str = "redo",
    data: Any = None,
    exact: bool = True,
    tau: float = TAU,
    share: float = SHARE,
    loss: Loss | None = None,
    wires: Mapping[str, Wires] | None = None,
    layers: Sequence[str] = (),
    seed: int | None = None,
    across_ranks: bool = True,
) -> Revival:
    """Reset units of a model in place, with the optimiser's state of exactly these units.

    census     of a `Census` the dead units; of a `Dormancy` those of a score of at most `tau`
    how        "redo": weights in drawn as in a new layer, weights out zero. A dead ReLU unit adds nothing before and
               after, so that the function stays the same. "utility": the `share` of each layer's units that tell the
               rest least, of a `Dormancy`; the next biases take over their mean. "loss": latents of an autoencoder
               pointed at inputs that it tells badly. "codes": codes put on vectors that are looked up
    data       whatever `alive.census` takes: on it is checked that the function stays the same, and drawn from it for
               "loss" and "codes". Without data the graph of the model decides which units are silent
    exact      leave units that something reads where they are not zero, though they are dead
    loss       for "loss": loss(output, inputs), one number a point; by default the squared error of the input again
    wires      what makes and reads the units of a layer, by its name in the census, where this cannot be followed
    layers     only layers that match one of these patterns, by name or label
    seed       of everything drawn; without one it comes from torch's generator, so that every revival draws anew

    What cannot be reset is left as it was, and the result says why. On several ranks the units are those dead on all
    ranks, and every rank ends with the same numbers.

    >>> import alive
    >>> model = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
    >>> _ = model[0].bias.data.copy_(torch.tensor([0.0, -9.0, 0.0]))
    >>> x = torch.randn(64, 2)
    >>> before = model(x)
    >>> done = revive(model, alive.census(model, x), torch.optim.Adam(model.parameters()))
    >>> print(done)
    0 → relu: unit 1 reset, read by 2.weight; the function stays the same
    >>> bool(torch.equal(model(x), before))
    True
    """
    root = bare(model)
    optimisers = optimisers_of(optimiser)
    _expect_fit(census, how, data)
    if across_ranks and world_size() > 1:
        census = gather(census) if isinstance(census, Census) else census.gathered()
    chance = int(torch.randint(2**31, ())) if seed is None else seed
    operation = _Operation(root, Bench(root, optimisers, chance), census, _Asked(how, exact, tau, share, loss), data)
    with evaluating(root):
        operation.look()
        found = targets(census, layers, None if how == "utility" else tau)
        given = wires or {}
        operation.look_up([target for target in found if how == "codes" and target.noun == CODE])
        for target in sorted(found, key=lambda each: each.name in given):  # the graph is read before anything changes
            operation.reset(target, given.get(target.name))
    if across_ranks and world_size() > 1:
        for tensor in operation.bench.touched:
            distributed.broadcast(tensor.data, 0)
    return operation.result()


class _Asked(NamedTuple):
    how: str
    exact: bool
    tau: float
    share: float
    loss: Loss | None


class _Operation:
    def __init__(self, root: nn.Module, bench: Bench, census: Census | Dormancy, asked: _Asked, data: Any) -> None:
        self.root, self.bench, self.census, self.asked = root, bench, census, asked
        self.calls = None if data is None else Calls(data, root)
        self.resets: list[Reset] = []
        self.left: list[Left] = []
        self.first: Call | None = None
        self.size, self.before = 0, list[Tensor]()
        self.lookups: dict[str, tuple[Part, Tensor] | str] = {}
        self.done: list[Target] = []

    def look(self) -> None:
        """Note what the model says now."""
        self.first = self._first()
        if self.first is not None:
            self.size = min(self.first.points, AT_ONCE)
            self.before = _floats(self._trial()(self.root))

    def _trial(self) -> Call:
        assert self.first is not None
        return self.first.rows(torch.arange(self.size))

    @cached_property
    def reading(self) -> Wired | str:
        """The model's graph, followed once on a copy that nothing is attached to; why not, if it cannot be."""
        if self.first is None:
            return "the census kept no example of the inputs; give data"
        try:
            with evaluating(twin := copied(self.root)):
                return Wired(twin, self._trial())
        except AliveError as error:
            return error.cause

    def _first(self) -> Call | None:
        if self.calls is not None:
            return self.calls.first()
        return None if self.census.example is None else Call(*self.census.example)

    def reset(self, target: Target, given: Wires | None) -> None:
        """Reset the units of one layer, or note why not."""
        if not len(target.units):
            return
        found: str | None
        if (self.asked.how == "codes") != (target.noun == CODE):
            found = f'they are {target.noun}s; codes are seeded anew by how="codes", and nothing else is'
        elif target.noun == EXPERT:
            found = "they are experts, whole networks, which are not reset"
        else:
            found = self._codes(target) if target.noun == CODE else self._wired(target, given)
        if isinstance(found, str):
            self._leave(target, target.units, found)

    def result(self) -> Revival:
        """Check what was done, and let the optimisers forget."""
        difference, asleep = None, None
        if self.calls is not None and self.first is not None and self.before:
            with evaluating(self.root):
                difference = _apart(self.before, _floats(self._trial()(self.root)))
            self._expect_same(difference)
            asleep = self._asleep()
        return Revival(tuple(self.resets), tuple(self.left), difference, asleep, self.bench.forget())

    def _wired(self, target: Target, given: Wires | None) -> str | None:
        wires = declared(given) if given is not None else self._found(target)
        if isinstance(wires, str):
            return wires
        if wires.units(self.root) != target.count:
            return f"{target.made_by or target.name} has {wires.units(self.root)} units, and {target.count} are counted"
        units, exact = target.units, False
        if given is None and self.asked.how == "redo" and isinstance(self.census, Census):
            units, exact = self._silent(target)
        if len(units):
            self._carry_out(target, wires, units, exact)
        return None

    def _silent(self, target: Target) -> tuple[Tensor, bool]:
        """The units that can be reset, those that are heard left out if asked for; and whether the function stays."""
        assert isinstance(self.reading, Wired)
        layer = self._layer(target)
        assert layer is not None
        loud = self._loud(layer, target.units)
        exact = not chooses(self.reading, layer)
        if not bool(loud.any()):
            return target.units, exact
        if not self.asked.exact:
            return target.units, False
        who = (
            OUTPUT
            if is_shown(self.reading, layer)
            else f"{read_loudly(self.reading, layer) or 'a layer'} reads it where it is not zero"
        )
        self._leave(target, target.units[loud], f"{who}; exact=False resets it all the same")
        return target.units[~loud], exact

    def _carry_out(self, target: Target, wires: Wires, units: Tensor, exact: bool) -> None:
        if self.asked.how == "redo":
            redo(self.bench, wires, units)
        elif self.asked.how == "utility":
            assert target.means is not None
            assert target.sizes is not None
            order = utility(self.root, wires, target.sizes).argsort()
            units = order[: max(1, round(self.asked.share * target.count))].sort().values
            by_utility(self.bench, wires, units, target.means)
        else:
            by_loss(self.bench, wires, units, self._points(target))
        self._note(target, units, tuple(part.name for part in wires.out), exact)

    def look_up(self, codes: Sequence[Target]) -> None:
        """Note what is looked up in each codebook, before any of them changes what reaches the next."""
        for target in codes:
            assert self.calls is not None
            try:
                found = looked_up(self.root, self.calls, target.made_by, target.units, target.count)
                self.lookups[target.name] = found
            except AliveError as error:
                self.lookups[target.name] = error.cause

    def _codes(self, target: Target) -> str | None:
        found = self.lookups[target.name]
        if isinstance(found, str):
            return found
        book, vectors = found
        reseed(self.bench, book, target.units, vectors)
        self._note(target, target.units, (), False)
        return None

    def _found(self, target: Target) -> Wires | str:
        if not isinstance(self.reading, Wired):
            return self.reading
        layer = self._layer(target)
        if layer is None:
            return f"{target.made_by or 'what made it'} is no plain layer that is used once; declare its wires"
        return wires_of(self.reading, layer)

    def _layer(self, target: Target) -> Layer | None:
        assert isinstance(self.reading, Wired)
        return next((layer for layer in self.reading.layers if layer.path == target.made_by), None)

    def _loud(self, layer: Layer, units: Tensor) -> Tensor:
        """Which of the units [U] are read where they are not zero: on the data, or as far as the graph tells."""
        assert isinstance(self.reading, Wired)
        shown = is_shown(self.reading, layer)
        if self.calls is None or shown:
            return torch.full((len(units),), shown or bool(read_loudly(self.reading, layer)))
        ends = observe(self.reading, self.calls, self.size)
        readers = self.reading.spaces[layer.node].readers
        loud = [(lo[units] != 0) | (hi[units] != 0) for lo, hi in (ends[reader.source] for reader in readers)]
        return torch.stack(loud).any(0)

    def _points(self, target: Target) -> Points:
        if not isinstance(self.reading, Wired):
            raise AliveError(f"resampling by loss runs the model's graph, and {self.reading}", 'Use how="redo"')
        assert self.calls is not None
        layer = self._layer(target)
        nodes = self.reading.graph_module.graph.nodes
        first = next(node for node in nodes if node.name in self.reading.inputs())
        inputs, output, given = caught(self.reading, first if layer is None else read_by(layer), self.calls, self.size)
        return Points(inputs.flatten(1), losses_of(output, given, self.asked.loss))

    def _note(self, target: Target, units: Tensor, readers: tuple[str, ...], exact: bool) -> None:
        self.resets.append(Reset(target.label, tuple(units.tolist()), readers, exact))
        self.done.append(target)

    def _leave(self, target: Target, units: Tensor, why: str) -> None:
        self.left.append(Left(target.label, tuple(units.tolist()), why))

    def _expect_same(self, difference: float) -> None:
        if self.resets and all(each.exact for each in self.resets) and not difference <= _tolerance(self.before):
            self.bench.undo()
            raise AliveError(
                f"with these units reset the outputs differ by {difference:.3g} of the largest, more than rounding",
                "Everything is put back; is the census of this model and these data?",
            )

    def _asleep(self) -> int | None:
        """How many of the units that were reset are dead still, where a census can tell."""
        from ...diagnosis import census

        if not self.resets:
            return None
        assert self.calls is not None
        found = {layer.label or layer.name: layer for layer in census(self.root, self.calls.form).layers}
        dead = 0
        for each in self.resets:
            states = found[each.layer].states if each.layer in found else torch.empty(0)
            dead += int((states[list(each.units)] == State.DEAD).sum()) if len(states) else 0
        return dead


def _expect_fit(census: object, how: str, data: object) -> None:
    expect_one_of("way to revive", how, HOW)
    if not isinstance(census, Census | Dormancy):
        raise AliveError(
            f"revive needs what alive.census or alive.diagnosis.dormancy found, got {type(census).__name__}",
            "Call alive.revive(model, alive.census(model, data), optimiser)",
        )
    expect(
        [
            (how != "utility" or isinstance(census, Dormancy), 'how="utility" needs alive.diagnosis.dormancy'),
            (how not in ("loss", "codes") or data is not None, f'how="{how}" draws from the data: give data'),
        ]
    )


def _floats(output: Any) -> list[Tensor]:
    from ...provenance import tensors

    return [x.detach().clone() for x in tensors(output) if x.is_floating_point()]


def _apart(before: Sequence[Tensor], after: Sequence[Tensor]) -> float:
    largest = max((float(x.abs().max()) for x in before if x.numel()), default=0.0)
    apart = max((float((a - b).abs().max()) for a, b in zip(before, after, strict=True) if a.numel()), default=0.0)
    return apart / largest if largest else apart


def _tolerance(outputs: Sequence[Tensor]) -> float:
    return max((64 * torch.finfo(x.dtype).eps for x in outputs), default=1e-5)
