"""Watches selections while a model runs: choices (top-k, argmax), gates and thresholds, and what users declare.

What a choice means shows later: whether its values meet a ReLU, whether it looks up, sends or decodes. So in a pass
that is followed, choices wait for its end; in later passes the book tells.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ..errors import fault_of_ours
from ..functional.activations import Activation
from ..provenance import Owners, Tracker, tensors
from ..provenance.choices import LOOKS_UP, STACKED
from ..provenance.owners import LOST, MANY, has_names, has_points, nobody, shares_units
from .book import Entry
from .hooks import idle
from .kinds import JUMP, Seen
from .records import Place
from .selections import CODE, DECLARE, LATENT, Choice, Implicit, Selection, Selects, chosen_by
from .waiting import (
    APART,
    CHANGED,
    OF_CHOSEN,
    PARTLY,
    SEVERAL,
    Waiting,
    apart_of,
    by_axis,
    has_units,
    is_as_decoded,
    meaning,
    ranks_of,
    taken_of,
)

if TYPE_CHECKING:
    from .layers import Layers

FEW = 3  # values
SHOWS_NOTHING = "is declared to select, and returned nothing that shows what"
NO_INDICES = (
    "quantises, and does not return indices that are known to say which codes: who is never used is not counted; build "
    f"it with return_indices=True, or {DECLARE[CODE]}"
)


class Selecting:
    """The selections of one watched model."""

    def __init__(self, layers: Layers) -> None:
        self._layers, self._state, self._stack = layers, layers.state, layers.stack
        self._waiting: list[Waiting] = []
        self._floors: dict[int, float] = {}  # by bit: at or below it, chosen values are set to zero
        self._passed_on = 0  # bits of choices that only make the threshold of a mask
        self._inputs: list[tuple[Tensor | None, Owners | None]] = []  # of declared modules that run
        self._counted: dict[tuple[str, int], str] = {}  # choices that were, in any pass: their nouns
        self._met: list[tuple[int, str, str]] = []  # activations of what choices chose: their bits, name and path
        self._told = 0  # bits of the choices that were counted, or of which we said why not
        self._refused: dict[tuple[str, int], str] = {}  # and why others cannot be

    def clear(self) -> None:
        """A pass begins, or has failed."""
        self._waiting, self._floors, self._passed_on, self._inputs = [], {}, 0, []
        self._met, self._told = [], 0

    def chose(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> None:
        """A call chose a few of many."""
        tracker = self._state.tracker
        if self._state.sizes is not None:
            return
        with self._state.quiet():
            choice = chosen_by(func, args, kwargs, out)
            if choice is not None and tracker is None:
                self._known(choice)
            elif choice is not None and tracker is not None:
                self._wait(choice, tracker)

    def _known(self, choice: Choice) -> None:
        """A choice in a pass that is not followed."""
        base, number = self._call(Activation(choice.name))
        entry = self._layers.find(base, number, choice.z)
        if entry is None:
            self._layers.book.miss()
        elif entry.layout is not None:
            choice = choice._replace(taken=taken_of(entry.ranks, choice))
            self._emit(entry, choice, choice.selection(entry.noun, entry.floor))

    def _call(self, activation: Activation) -> tuple[str, int]:
        base = self._stack.base(activation)
        return base, self._state.call(base)

    def _wait(self, choice: Choice, tracker: Tracker) -> None:
        """A choice in a pass that is followed: mark what it made, and wait."""
        state, stack = self._state, self._stack
        base, number = self._call(Activation(choice.name))
        owners = tracker.owners(choice.z)
        if choice.z.numel() == choice.size and not has_points(owners) and tracker.families.are_by_row(owners.unit):
            owners = owners._replace(unit=nobody(choice.z.ndim))  # one unit of each of the points, for all we know
        if not owners.data:
            self._layers.pass_by(base, number, choice.z)
            return
        bit = tracker.choices.begin(choice.size, choice.ids.shape, owners)
        marked = {bit: choice.ids if choice.result is None else choice.result}
        if choice.values is not None:
            marked[tracker.choices.values_of(bit)] = choice.values
        for own, t in marked.items():  # a choice among what was chosen before is a choice of its own
            tracker.enter(t, tracker.owners(t)._replace(choice=own))
        scores = choice.z.clone()
        if state.masks.is_softmax(choice.z):
            state.masks.note_softmax(scores)
        kept = choice._replace(z=scores, ids=choice.ids.clone(), values=None, result=None)
        mark, where, slot = state.mark(choice.z), stack.line(), self._layers.watcher.reserve()
        self._waiting.append(Waiting(kept, base, number, bit, owners, mark, where, slot, stack.places[-1].path))

    def is_read(self, t: Tensor) -> None:
        """Python reads a tensor."""
        tracker = self._state.tracker
        if tracker is not None:
            with tracker.quiet():
                tracker.choices.lose(tracker.owners(t).choice)

    def takes_row(self, table: Any, index: Any) -> None:
        """Python takes table[index]: of one number, torch tells no operation that says which was looked up."""
        tracker = self._state.tracker
        if tracker is None or not (isinstance(index, Tensor) and not index.ndim and index.dtype == torch.long):
            return
        with tracker.quiet():
            bits, own = tracker.owners(index).choice, tracker.owners(table)
            if bits and not own.data:
                tracker.choices.look_up(bits, table)

    def meets(self, owners: Owners, activation: Activation, base: str) -> bool:
        """Whether an activation gets what was chosen of units and nothing else: then it is part of the selection.

        What it sets to zero is off, also where it gets all values and those that were not chosen are zero.
        """
        tracker = self._state.tracker
        if not owners.choice or tracker is None:
            return False
        choices = tracker.choices.roots(owners.choice)
        of = [waiting for waiting in self._waiting if choices & waiting.bit]
        picked = owners.picked and any(
            has_units(w.owners, w.choice.dim) and shares_units(w.owners.unit, owners.unit) for w in of
        )
        if picked:
            self._met.append((choices, base, self._stack.places[-1].path))
        if not activation.leaks:
            for waiting in of:
                self._floors[waiting.bit] = max(activation.cutoff, self._floors.get(waiting.bit, -torch.inf))
        return picked

    def finish(self, output: Any) -> None:
        """The pass has ended: now it shows what the choices were of."""
        tracker, waiting = self._state.tracker, self._waiting
        assert tracker is not None
        with tracker.quiet():
            apart = apart_of(waiting, tracker)
            said = [tracker.owners(t) for t in tensors(output)]
            for each in waiting:
                self._settle(each, tracker, each.bit in apart, said)
        for choices, base, path in self._met:
            if not choices & self._told:
                self._layers.notes.tell(base, OF_CHOSEN, path)
        self.clear()

    def _settle(self, each: Waiting, tracker: Tracker, apart: bool, said: Sequence[Owners]) -> None:
        layers, choice, key = self._layers, each.choice, (each.base, each.number)
        uses = tracker.choices.uses(each.bit)
        units = has_units(each.owners, choice.dim)
        try:
            noun, why = ("", "") if each.bit & self._passed_on else meaning(each, tracker, said)
        except Exception as error:
            noun, why = "", fault_of_ours("telling what was chosen", error)
        self._told |= each.bit if noun or why else 0
        if why and not noun:  # it may have been counted in batches before
            self._refused[key], noun = why, self._counted.get(key, "") if units else ""
        if not noun:
            if why:
                layers.notes.tell(each.base, why, each.path)
            layers.book.note(each.base, each.number, layers.entry(each.base, None, choice.z, mark=each.mark))
            return
        owners = each.owners if units else by_axis(each, uses.get(LOOKS_UP) or uses[STACKED], tracker)
        if tracker.choices.is_of_several_tables(each.bit):
            owners = owners._replace(unit=torch.full_like(owners.unit, LOST), why=SEVERAL)
        name, layout, _ = layers.lay_out(each.base, choice.z, owners)
        taken = tracker.choices.taken(each.bit)
        ranks = ranks_of(taken, choice)
        floor = self._floors.get(each.bit)
        known: dict[str, Any] = {"mark": each.mark, "where": each.where, "noun": noun, "floor": floor, "ranks": ranks}
        entry = layers.entry(name, layout, choice.z, **known)
        choice = choice._replace(taken=None if bool(taken.all()) else taken)
        selection = choice.selection(noun, entry.floor)
        decoded = tracker.choices.decoded(each.bit, choice.z.numel())
        why = APART if apart else PARTLY if ranks == () else ""
        why = why or ("" if is_as_decoded(selection, decoded, choice.dim) else CHANGED)
        why = self._refused.get(key, why)
        if why:
            self._refused[key] = why
            layers.notes.tell(each.base if apart else name, why, each.path)
            unknown = layout._replace(points=False, units=False, why=(f"points and units: {why}",))
            entry = entry._replace(layout=unknown if key in self._counted else None)  # it was in batches before
        layers.book.note(each.base, each.number, entry)
        layers.book.moving |= layers.watcher.checks_choices
        if entry.layout is not None:
            self._counted[key] = noun
            self._emit(entry, choice, selection, each.slot)

    def _emit(self, entry: Entry, choice: Choice, selection: Selection, slot: Any = None) -> None:
        z = choice.z
        if entry.noun != LATENT and self._state.masks.is_softmax(z):  # in logs, differences are those of the logits
            z = z.clamp(min=torch.finfo(z.dtype).tiny).log()
            selection = choice._replace(z=z).selection(entry.noun, entry.floor)
        activation = Activation(choice.name)
        self._layers.watch(entry, z, activation, idle, selection=selection, slot=slot)

    def gated(self, seen: Seen, run: Callable[[], Any]) -> Any:
        """Values that pass where scores reach something: JumpReLU, gated encoders, thresholds of a top-k."""
        state, gate = self._state, seen.gate
        assert gate is not None
        if state.sizes is not None:
            return run()
        base, number = self._call(seen.activation)
        scores, tracker = gate.scores, state.tracker
        if tracker is None:
            entry = self._layers.look_up(base, number, scores)
            return run() if entry.layout is None else self._through(seen, entry, scores, run)
        with tracker.quiet():
            owners = tracker.owners(scores)
            entry = self._found(seen, base, number, owners, tracker)
        if entry.layout is None:
            return run()
        with tracker.quiet():
            y = self._through(seen, entry, scores, run)
            known, sure = owners._replace(choice=0), owners.pure and entry.layout.units
            state.cross(seen.z if y is None else y, known, base, number, entry, sure)
        return y

    def _found(self, seen: Seen, base: str, number: int, owners: Owners, tracker: Tracker) -> Entry:
        layers = self._layers
        assert seen.gate is not None
        scores = seen.gate.scores
        told = owners.data and tracker.owners(seen.z).data and not owners.choice
        if told and not has_names(owners.unit):
            told = False
            if seen.activation is JUMP:
                layers.miss("mask")
        if told and seen.activation is JUMP and self._state.masks.is_softmax(scores):  # probabilities above some level
            told = False
            if not tracker.owners(seen.gate.mask).choice:  # else the choice tells what they are
                layers.miss("mask")
        if told and seen.activation is not JUMP:  # signs, and other numbers of few values, are no scores
            told = len(scores.detach().unique()) > FEW
        if not told:
            return layers.pass_by(base, number, scores)
        self._passed_on |= tracker.owners(seen.gate.mask).choice
        name, layout, _ = layers.lay_out(base, scores, owners)
        entry = layers.entry(name, layout, scores, where=self._stack.line(), noun=LATENT)
        layers.book.note(base, number, entry)
        return entry

    def _through(self, seen: Seen, entry: Entry, scores: Tensor, run: Callable[[], Any]) -> Any:
        gate = seen.gate
        assert gate is not None
        before = scores.clone() if seen.inplace else scores
        reach = gate.reach if isinstance(gate.reach, Tensor) else torch.tensor(float(gate.reach))
        reach = gate.sign * reach.detach().to(device=before.device, dtype=before.dtype, copy=seen.inplace)
        y = run()
        on = (seen.z if y is None else y).detach() != 0
        selection = Selection(LATENT, on, reach, gate.sign)
        self._layers.watch(entry._replace(noun=LATENT), before, seen.activation, idle, selection=selection)
        return y

    def enter(self, z: Tensor | None) -> None:
        """A declared module begins."""
        tracker = self._state.tracker
        if z is None:
            self._inputs.append((None, None))
        else:
            self._inputs.append((z.clone(), None if tracker is None else tracker.owners(z)))

    def leave(self, place: Place, output: Any) -> None:
        """A declared module has ended: what it returned says who was chosen."""
        z, given_owners = self._inputs.pop() if self._inputs else (None, None)
        if place.selects is None or output is None:
            return
        given = list(tensors(output))
        layers, tracker = self._layers, self._state.tracker
        number = self._state.call(place.path)
        h = next((t for t in given if t.is_floating_point()), None)
        ids = next((t for t in given if t.dtype in (torch.long, torch.int32)), None)
        implicit = isinstance(place.selects, Implicit)
        by_index = _of_codes if implicit else _of_indices
        told = by_index(place.selects, ids) if place.selects.count or implicit else _of_values(place.selects, h, z)
        if told is None:
            layers.notes.tell(place.path, NO_INDICES if implicit else SHOWS_NOTHING, place.path)
            return
        scores, selection = told
        if tracker is None:
            entry = layers.look_up(place.path, number, scores)
        else:
            with tracker.quiet():
                if isinstance(place.selects, Implicit):
                    owners = _by_codebook(tracker, place, place.selects)
                elif place.selects.count:
                    assert ids is not None
                    owners = _by_count(tracker, place, tracker.owners(ids), ids.ndim)
                else:
                    known = given_owners if selection.scored else tracker.owners(scores)
                    assert known is not None
                    owners = known._replace(picked=False, choice=0)
                entry = self._declared(place, number, scores, owners, tracker)
        shown = Activation(place.path.rpartition(".")[2] or "selects")
        layers.watch(entry._replace(noun=place.selects.noun), scores, shown, idle, selection=selection)

    def _declared(self, place: Place, number: int, scores: Tensor, owners: Owners, tracker: Tracker) -> Entry:
        assert place.selects is not None
        name, layout, _ = self._layers.lay_out(place.path, scores, owners)
        if isinstance(place.selects, Implicit):  # two rows of all points, and nothing is asked of them
            layout = layout._replace(why=())
        entry = self._layers.entry(name, layout, scores, noun=place.selects.noun)
        self._layers.book.note(place.path, number, entry)
        return entry


def _by_count(tracker: Tracker, place: Place, asked: Owners, ndim: int) -> Owners:
    """The owners of a row of candidates for each index that a module returned."""
    assert place.selects is not None
    start = tracker.families.claim(place.path, place.selects.count, key=place.path)
    names = torch.arange(start, start + place.selects.count, dtype=torch.int32)
    return Owners(asked.point.unsqueeze(-1), names.view([1] * ndim + [-1]))


def _by_codebook(tracker: Tracker, place: Place, codes: Implicit) -> Owners:
    """The owners of the two rows that `_of_codes` makes of a whole batch: codes, one codebook after the other."""
    count = codes.count * codes.codebooks
    start = tracker.families.claim(place.path, count, key=place.path)
    names = torch.arange(start, start + count, dtype=torch.int32).unsqueeze(0)
    return Owners(torch.full((1, 1), MANY, dtype=torch.int32), names)


def _of_values(selects: Selects, h: Tensor | None, z: Tensor | None) -> tuple[Tensor, Selection] | None:
    """Who is on by the values that a module returned."""
    if h is None or not h.ndim:
        return None
    scored = z is not None and z.shape == h.shape
    scores = z if scored and z is not None else h
    on = h.detach() != 0
    reach = scores.detach().masked_fill(~on, torch.inf).amin(-1, keepdim=True)
    reach = torch.where(reach.isinf(), scores.detach().amax(-1, keepdim=True), reach)
    return scores, Selection(selects.noun, on, reach, scored=scored)


def _of_indices(selects: Selects, ids: Tensor | None) -> tuple[Tensor, Selection] | None:
    """Who is on by the indices that a module returned; those below 0 choose nobody."""
    if ids is None:
        return None
    on = (ids.unsqueeze(-1) == torch.arange(selects.count, device=ids.device)) & (ids >= 0).unsqueeze(-1)
    return on.float() * 2 - 1, Selection(selects.noun, on, torch.zeros((), device=ids.device), scored=False)


def _of_codes(codes: Selects, ids: Tensor | None) -> tuple[Tensor, Selection] | None:
    """Which codes the indices name at all, and which at every place: two rows, for codes may be many thousands."""
    if ids is None or not codes.count or not isinstance(codes, Implicit):
        return None
    rows = ids.reshape(-1, codes.codebooks).long()
    places = (rows + torch.arange(codes.codebooks, device=ids.device) * codes.count).flatten()
    known = ((rows >= 0) & (rows < codes.count)).flatten()
    none = torch.zeros(codes.count * codes.codebooks, dtype=torch.long, device=ids.device)
    times = none.index_add(0, places.where(known, 0), known.long())
    on = torch.stack([times > 0, times == len(rows)])
    return on.float() * 2 - 1, Selection(codes.noun, on, torch.zeros((), device=ids.device), scored=False)
