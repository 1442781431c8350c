"""Watches selections while a model runs: choices (top-k, argmax), gates and thresholds, and what users declare.

What a choice means shows later: whether its values meet a ReLU, whether it looks up, sends or decodes. So in a pass
that is followed, choices wait for its end; in later passes the book tells.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from ..functional.activations import Activation
from ..provenance import Layout, Owners, Tracker, read, tensors
from ..provenance.choices import LOOKS_UP, ODD, READ
from ..provenance.owners import LOST, varying
from .book import Entry
from .kinds import JUMP, Seen
from .lines import line_of_call
from .records import Place
from .selections import CODE, LATENT, SORTS, Choice, Selection, Selects, chosen_by, noun_of

if TYPE_CHECKING:
    from .taps import Taps

READ_BY_PYTHON = (
    "chooses among units, and Python reads which: who is never chosen is not counted; declare the module that "
    "chooses: selects={MyRouter: alive.taps.Selects('expert', count=8)}"
)


CHANGED = (
    "chooses among latents, and sets some of the chosen to zero in a way that is not followed: who is never on is not "
    "counted; declare the module that chooses: selects={MyTopK: alive.taps.Selects('latent')}"
)
LOOKS_ELSEWHERE = (
    "chooses rows of a table that has another number of them: who is never chosen is not counted; declare the module "
    "that chooses: selects={MyQuantiser: alive.taps.Selects('code', count=512)}"
)
SORTED = (
    "sorts scores, of which some are taken: who never is, is not counted; write topk, argmax or argmin, or declare the "
    "module that chooses: selects={MyTopK: alive.taps.Selects('latent')}"
)
FEW = 3  # values


class Waiting(NamedTuple):
    """A choice whose meaning is not known yet: where it happened, its bit, and the owners of its scores."""

    choice: Choice
    base: str
    number: int
    bit: int
    owners: Owners
    trace: int
    where: str
    slot: Any
    path: str


class Selecting:
    """The selections of one watched model."""

    def __init__(self, taps: Taps) -> None:
        self._taps = taps
        self._waiting: list[Waiting] = []
        self._floors: dict[int, float] = {}  # by bit: at or below it, chosen values are set to zero
        self._passed_on = 0  # bits of choices that only make the threshold of a mask
        self._inputs: list[tuple[Tensor | None, Owners | None]] = []  # of declared modules that run

    def clear(self) -> None:
        """A pass begins, or has failed."""
        self._waiting, self._floors, self._passed_on, self._inputs = [], {}, 0, []

    def chose(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> None:
        """A call chose a few of many."""
        taps, tracker = self._taps, self._taps._tracker
        if taps._sizes is not None:
            return
        if tracker is None:
            choice = chosen_by(func, args, kwargs, out)
            if choice is not None:
                self._known(choice)
            return
        with tracker.quiet():
            choice = chosen_by(func, args, kwargs, out)
            if choice is not None:
                self._wait(choice, tracker)

    def _known(self, choice: Choice) -> None:
        """A choice in a pass that is not followed."""
        taps = self._taps
        base, number = self._call(Activation(choice.name))
        entry = taps.book.find(base, number, choice.z, taps._points, taps._trace)
        if entry is None:
            taps.book.asked_again = True
        elif entry.layout is not None:
            self._emit(entry, choice, choice.selection(entry.noun, entry.floor))

    def _call(self, activation: Activation) -> tuple[str, int]:
        taps = self._taps
        base = taps._base(activation)
        number = taps._calls[base] = taps._calls.get(base, 0) + 1
        return base, number

    def _wait(self, choice: Choice, tracker: Tracker) -> None:
        """A choice in a pass that is followed: mark what it made, and wait."""
        taps = self._taps
        base, number = self._call(Activation(choice.name))
        owners = tracker.owners(choice.z)
        if not owners.data:
            taps.book.note(base, number, Entry(base, None, tuple(choice.z.shape), taps._trace))
            return
        bit = tracker.choices.begin(choice.size, choice.ids.numel())
        marked = [choice.ids if choice.result is None else choice.result]
        if choice.values is not None and _has_units(owners, choice.dim):
            marked.append(choice.values)
        for t in marked:  # a choice among what was chosen before is a choice of its own
            tracker.enter(t, tracker.owners(t)._replace(choice=bit))
        where = line_of_call(taps._outermost, inside=taps._running[-1].is_activation)
        reserve: Callable[[], Any] | None = getattr(taps.watcher, "reserve", None)
        scores = choice.z.clone()
        if taps._masks.is_softmax(choice.z):
            taps._masks.note_softmax(scores)
        kept = choice._replace(z=scores, ids=choice.ids.clone(), values=None, result=None)
        slot, path = reserve and reserve(), taps._running[-1].path
        self._waiting.append(Waiting(kept, base, number, bit, owners, taps._trace, where, slot, path))

    def is_read(self, t: Tensor) -> None:
        """Python reads a tensor."""
        tracker = self._taps._tracker
        if tracker is not None:
            with tracker.quiet():
                tracker.choices.lose(tracker.owners(t).choice)

    def meets(self, owners: Owners, activation: Activation) -> bool:
        """Whether an activation gets chosen values and nothing else: then it is part of the selection."""
        if not owners.choice or not owners.picked:
            return False
        if not activation.leaks:
            for waiting in self._waiting:
                if owners.choice & waiting.bit:
                    self._floors[waiting.bit] = max(activation.cutoff, self._floors.get(waiting.bit, -torch.inf))
        return True

    def finish(self) -> None:
        """The pass has ended: now it shows what the choices were of."""
        tracker, waiting = self._taps._tracker, self._waiting
        assert tracker is not None
        with tracker.quiet():
            for each in waiting:
                self._settle(each, tracker)
        self.clear()

    def _settle(self, each: Waiting, tracker: Tracker) -> None:
        taps, choice = self._taps, each.choice
        uses = tracker.choices.uses(each.bit)
        noun = "" if each.bit & self._passed_on else noun_of(uses, several=choice.several)
        units = _has_units(each.owners, choice.dim)
        if not units:  # rows of a table are codes, whatever made their scores
            noun = CODE if noun and LOOKS_UP in uses else ""
        shape = tuple(choice.z.shape)
        if not noun or choice.name == SORTS:
            if noun:
                taps.tell_unseen(each.base, SORTED, each.path)
            elif ODD in uses:
                taps.tell_unseen(each.base, LOOKS_ELSEWHERE, each.path)
            elif units and READ in uses and choice.name != SORTS:
                taps.tell_unseen(each.base, READ_BY_PYTHON, each.path)
            taps.book.note(each.base, each.number, Entry(each.base, None, shape, each.trace))
            return
        owners = each.owners if units else _by_axis(each, uses[LOOKS_UP], tracker)
        layout = read(owners, choice.z, taps._points, tracker.family(owners), taps._doubt())
        name = taps._name(each.base, layout.made_by)
        entry = Entry(name, layout, shape, each.trace, each.where, noun, self._floors.get(each.bit))
        selection = choice.selection(noun, entry.floor)
        passed = tracker.choices.decoded(each.bit, choice.z.numel()) if noun == LATENT else None
        if passed is not None and not torch.equal(passed, selection.on.flatten()):
            taps.tell_unseen(name, CHANGED, each.path)
            entry = entry._replace(layout=None)
        taps.book.note(each.base, each.number, entry)
        if entry.layout is not None:
            self._emit(entry, choice, selection, each.slot)

    def _emit(self, entry: Entry, choice: Choice, selection: Selection, slot: Any = None) -> None:
        z = choice.z
        if entry.noun != LATENT and self._taps._masks.is_softmax(z):  # in logs, differences are those of the logits
            z = z.clamp(min=torch.finfo(z.dtype).tiny).log()
            selection = choice._replace(z=z).selection(entry.noun, entry.floor)
        activation = Activation(choice.name)
        self._taps._watched(entry, z, activation, False, lambda: None, selection=selection, slot=slot)

    def gated(self, seen: Seen, run: Callable[[], Any]) -> Any:
        """Values that pass where scores reach something: JumpReLU, gated encoders, thresholds of a top-k."""
        taps, gate = self._taps, seen.gate
        assert gate is not None
        if taps._sizes is not None:
            return run()
        base, number = self._call(seen.activation)
        scores, tracker = gate.scores, taps._tracker
        if tracker is None:
            entry = taps._looked_up(base, number, scores)
            return run() if entry.layout is None else self._through(seen, entry, scores, run)
        with tracker.quiet():
            owners = tracker.owners(scores)
            entry = self._found(seen, base, number, owners, tracker)
        if entry.layout is None:
            return run()
        with tracker.quiet():
            y = self._through(seen, entry, scores, run)
            known = owners._replace(choice=0)
            taps._cross(seen.z if y is None else y, known, (base, number, entry, owners.pure and entry.layout.units))
        return y

    def _found(self, seen: Seen, base: str, number: int, owners: Owners, tracker: Tracker) -> Entry:
        taps = self._taps
        assert seen.gate is not None
        scores = seen.gate.scores
        told = owners.data and tracker.owners(seen.z).data and not owners.choice
        if told and not _real(owners):
            told = False
            if seen.activation is JUMP:
                taps._unfollowed("mask")
        if told and seen.activation is not JUMP:  # signs, and other numbers of few values, are no scores
            told = len(scores.detach().unique()) > FEW
        entry = Entry(base, None, tuple(scores.shape), taps._trace)
        if told:
            self._passed_on |= tracker.owners(seen.gate.mask).choice
            layout = read(owners, scores, taps._points, tracker.family(owners), taps._doubt())
            where = line_of_call(taps._outermost, inside=taps._running[-1].is_activation)
            entry = Entry(taps._name(base, layout.made_by), layout, entry.shape, taps._trace, where, LATENT)
        taps.book.note(base, number, entry)
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
        self._taps._watched(
            entry._replace(noun=LATENT), before, seen.activation, False, lambda: None, selection=selection
        )
        return y

    def enter(self, z: Tensor | None) -> None:
        """A declared module begins."""
        tracker = self._taps._tracker
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
        taps, tracker = self._taps, self._taps._tracker
        number = taps._calls[place.path] = taps._calls.get(place.path, 0) + 1
        h = next((t for t in given if t.is_floating_point()), None)
        ids = next((t for t in given if t.dtype in (torch.long, torch.int32)), None)
        told = _of_indices(place.selects, ids) if place.selects.count else _of_values(place.selects, h, z)
        if told is None:
            taps.tell_unseen(place.path, "is declared to select, and returned nothing that shows what", place.path)
            return
        scores, selection = told
        if tracker is None:
            entry = taps._looked_up(place.path, number, scores)
        else:
            with tracker.quiet():
                if place.selects.count:
                    assert ids is not None
                    owners = _by_count(tracker, place, tracker.owners(ids), ids.ndim)
                else:
                    known = given_owners if selection.scored else tracker.owners(scores)
                    assert known is not None
                    owners = known._replace(picked=False, choice=0)
                entry = self._declared(place, number, scores, owners, tracker)
        self._taps._watched(
            entry._replace(noun=place.selects.noun),
            scores,
            Activation(place.path.rpartition(".")[2] or "selects"),
            False,
            lambda: None,
            selection=selection,
        )

    def _declared(self, place: Place, number: int, scores: Tensor, owners: Owners, tracker: Tracker) -> Entry:
        taps = self._taps
        assert place.selects is not None
        layout: Layout = read(owners, scores, taps._points, tracker.family(owners), taps._doubt())
        name = taps._name(place.path, layout.made_by)
        entry = Entry(name, layout, tuple(scores.shape), taps._trace, noun=place.selects.noun)
        taps.book.note(place.path, number, entry)
        return entry


def _by_count(tracker: Tracker, place: Place, asked: Owners, ndim: int) -> Owners:
    """The owners of a row of candidates for each index that a module returned."""
    assert place.selects is not None
    start = tracker.families.claim(place.path, place.selects.count)
    names = torch.arange(start, start + place.selects.count, dtype=torch.int32)
    return Owners(asked.point.unsqueeze(-1), names.view([1] * ndim + [-1]))


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


def _real(owners: Owners) -> bool:
    return bool(((owners.unit >= 0) & (owners.unit != LOST)).any())


def _has_units(owners: Owners, dim: int) -> bool:
    """Whether different units lie along an axis."""
    return dim in varying(owners.unit) and _real(owners)


def _by_axis(each: Waiting, table: tuple[int, ...], tracker: Tracker) -> Owners:
    """The owners of scores whose candidates are the rows of a table, made by no weights: a code is an index.

    A table [H, C, D] has codes of its own for each of H heads, which lie on an axis of that size.
    """
    z, dim, owners = each.choice.z, each.choice.dim, each.owners
    rows = varying(owners.point)
    if dim in rows:
        return owners
    heads = [n for n in table[:-2] if n > 1] if len(table) > 2 else []
    free = [d for d in range(z.ndim) if d != dim and d not in rows and heads and z.shape[d] == heads[0]]
    if heads and (len(heads) > 1 or len(free) != 1):
        return owners._replace(why="which of several codebooks a code is of cannot be told")
    count = each.choice.size * (heads[0] if heads else 1)
    start = tracker.families.claim(each.path, count)
    names = torch.arange(start, start + count, dtype=torch.int32)
    shape = [z.shape[d] if d == dim or d in free else 1 for d in range(z.ndim)]
    if free and free[0] > dim:
        names = names.view(heads[0], -1).t()
    return owners._replace(unit=names.reshape(shape), picked=False)
