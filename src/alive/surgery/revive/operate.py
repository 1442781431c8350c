"""Revive: reset the units of a finished census, with the optimiser's state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch.optim import Optimizer

from ...diagnosis import Census, Dormancy, gather
from ...diagnosis import census as recount
from ...errors import AliveError, expect, expect_one_of
from ...functional import State
from ...taps import bare
from ...taps.selections import CODE, EXPERT, LATENT
from ...world import world_size
from ..graph.calls import Call, Calls
from ..graph.channels import OUTPUT, Layer
from ..models import apart, evaluating, reals
from ..shrink.observed import observe
from .lookups import looked_up
from .numbers import Bench, optimisers_of
from .record import Left, Reset, Revival
from .targets import Target, targets
from .ways import HOW, Loss, Points, by_loss, by_utility, redo, reseed, utility
from .wires import Part, Wired, Wires, chooses, declared, is_shown, read_loudly, wires_of

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
    copies: Sequence[nn.Module] = (),
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
    copies     of the model, such as target networks: they get the new numbers of the units that are reset
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
    together = across_ranks and world_size() > 1
    if together:
        census = gather(census)
    bench = Bench(root, optimisers, int(torch.randint(2**31, ())) if seed is None else seed)
    operation = _Operation(root, bench, census, None if data is None else Calls(data, root), how, exact, share, loss)
    given = wires or {}
    with evaluating(root):
        operation.look()
        found = targets(census, layers, None if how == "utility" else tau)
        operation.look_up([target for target in found if how == "codes" and target.noun == CODE])
        for target in sorted(found, key=lambda each: each.name in given):  # the graph is read before anything changes
            why = operation.reset(target, given.get(target.name)) if len(target.units) + len(target.spared) else None
            if why is not None:
                operation.leave(target, torch.cat([target.units, target.spared]), why)
    if together:
        for tensor in bench.touched:
            distributed.broadcast(tensor.data, 0)
    done = operation.result()
    bench.teach(copies)
    return done


@dataclass(eq=False)
class _Operation:
    root: nn.Module
    bench: Bench
    census: Census | Dormancy
    calls: Calls | None
    how: str
    exact: bool
    share: float
    loss: Loss | None
    resets: list[Reset] = field(default_factory=list)
    left: list[Left] = field(default_factory=list)
    lookups: dict[str, tuple[Part, Tensor] | str] = field(default_factory=dict)
    trial: Call | None = None
    before: list[Tensor] = field(default_factory=list)

    def look(self) -> None:
        """Note what the model says now."""
        if self.calls is not None:
            first = self.calls.first()
        elif self.census.example is not None:
            first = Call(*self.census.example)
        else:
            return
        self.trial = first.rows(torch.arange(min(first.points, AT_ONCE)))
        self.before = reals(self.trial(self.root))

    def look_up(self, codes: Sequence[Target]) -> None:
        """Note what is looked up in each codebook, before any of them changes what reaches the next."""
        for target in codes:
            assert self.calls is not None
            try:
                found = looked_up(self.root, self.calls, target.made_by, target.units, target.count)
                self.lookups[target.name] = found
            except AliveError as error:
                self.lookups[target.name] = error.cause

    @cached_property
    def reading(self) -> Wired | str:
        """The model's graph, followed once on a copy that nothing is attached to; why not, if it cannot be."""
        if self.trial is None:
            return "the census kept no example of the inputs; give data"
        try:
            return Wired.of(self.root, self.trial)
        except AliveError as error:
            return error.cause

    def reset(self, target: Target, given: Wires | None) -> str | None:
        """Reset the units of one layer, or say why not."""
        if (self.how == "codes") != (target.noun == CODE):
            return f'they are {target.noun}s; codes are seeded anew by how="codes", and nothing else is'
        if target.noun == EXPERT:
            return "they are experts, whole networks, which are not reset"
        if target.noun == CODE:
            looked = self.lookups[target.name]
            if isinstance(looked, str):
                return looked
            reseed(self.bench, looked[0], target.units, looked[1])
            self.resets.append(Reset(target.label, tuple(target.units.tolist()), (), exact=False))
            return None
        if given is not None:
            wires: Wires | str = declared(given)
        elif isinstance(self.reading, str):
            return self.reading
        else:
            wires = wires_of(self.reading, target.made_by)
        if isinstance(wires, str):
            return wires
        if wires.units(self.root) != target.count:
            return f"{target.made_by or target.name} has {wires.units(self.root)} units, and {target.count} are counted"
        units, exact = target.units, False
        if given is None and self.how == "redo" and isinstance(self.census, Census):
            units, exact = self._silent(target)
        elif len(target.spared):
            self.leave(target, target.spared, f"dead in one of its layers and alive in {target.alive_in}")
        if len(units):
            units = self._carry_out(target, wires, units)
            readers = tuple(part.name for part in wires.out)
            self.resets.append(Reset(target.label, tuple(units.tolist()), readers, exact))
        return None

    def leave(self, target: Target, units: Tensor, why: str) -> None:
        """Note that units were left as they are."""
        self.left.append(Left(target.label, tuple(units.tolist()), why))

    def result(self) -> Revival:
        """Check what was done, and let the optimisers forget."""
        difference, asleep = None, None
        if self.calls is not None and self.trial is not None and self.before:
            with evaluating(self.root):
                largest, scale = apart(self.before, reals(self.trial(self.root)))
            difference = largest / scale if scale else largest
            rounding = max(64 * torch.finfo(x.dtype).eps for x in self.before)
            if self.resets and all(each.exact for each in self.resets) and not difference <= rounding:
                self.bench.undo()
                raise AliveError(
                    f"with these units reset the outputs differ by {difference:.3g} of the largest, more than rounding",
                    "Everything is put back; is the census of this model and these data?",
                )
            asleep = self._asleep(self.calls) if self.resets else None
        return Revival(tuple(self.resets), tuple(self.left), difference, asleep, self.bench.forget())

    def _silent(self, target: Target) -> tuple[Tensor, bool]:
        """The units that can be reset, those that are heard left out if asked for; and whether the function stays."""
        assert isinstance(self.reading, Wired)
        layer = self.reading.layer_at(target.made_by)
        assert layer is not None
        exact, units = not chooses(self.reading, layer), target.units
        if self.calls is not None and not is_shown(self.reading, layer):  # what is read decides
            units = torch.cat([units, target.spared]).sort().values
        elif len(target.spared):
            why = f"dead in one of its layers and alive in {target.alive_in}: with data it is seen who reads it"
            self.leave(target, target.spared, why)
        loud, who = self._loud(layer, units, chosen=target.noun == LATENT)
        if not bool(loud.any()) or not self.exact:
            return units, exact and not bool(loud.any())
        self.leave(target, units[loud], f"{who}; exact=False resets it all the same")
        return units[~loud], exact

    def _loud(self, layer: Layer, units: Tensor, *, chosen: bool) -> tuple[Tensor, str]:
        """Which of the units [U] are read where they are not zero, on the data or by the graph; by whom."""
        assert isinstance(self.reading, Wired)
        if is_shown(self.reading, layer):
            return torch.ones(len(units), dtype=torch.bool), OUTPUT
        if self.calls is None or self.trial is None:
            name = read_loudly(self.reading, layer, chosen=chosen)
            return torch.full((len(units),), bool(name)), f"{name} reads it where it is not zero"
        ends = observe(self.reading, self.calls, self.trial.points)
        readers = self.reading.made_by(layer).readers
        heard = torch.stack([(ends[r.source][0][units] != 0) | (ends[r.source][1][units] != 0) for r in readers])
        names = [reader.layer.path for reader, own in zip(readers, heard, strict=True) if bool(own.any())]
        return heard.any(0), f"{' and '.join(names)} reads it where it is not zero"

    def _carry_out(self, target: Target, wires: Wires, units: Tensor) -> Tensor:
        """Reset the units, of a utility those of the least; gives them."""
        if self.how == "redo":
            redo(self.bench, wires, units)
        elif self.how == "utility":
            assert target.means is not None
            assert target.sizes is not None
            order = utility(self.root, wires, target.sizes).argsort()
            units = order[: max(1, round(self.share * target.count))].sort().values
            by_utility(self.bench, wires, units, target.means)
        else:
            if not isinstance(self.reading, Wired):
                raise AliveError(f"resampling by loss runs the model's graph, and {self.reading}", 'Use how="redo"')
            assert self.calls is not None
            assert self.trial is not None
            layer = self.reading.layer_at(target.made_by)
            by_loss(self.bench, wires, units, Points.of(self.reading, layer, self.calls, self.trial.points, self.loss))
        return units

    def _asleep(self, calls: Calls) -> int:
        """How many of the units that were reset are dead still, where a census can tell."""
        found = {layer.label or layer.name: layer for layer in recount(self.root, calls.batches).layers}
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
