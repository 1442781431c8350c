"""The layers of a watched model: each call of an activation is named, laid out, and shown to the watcher."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import torch
from torch import Tensor, nn

from ..functional.activations import Activation
from ..provenance import INPUTS, Layout, Owners, Pairing, Tracker, read, tensors
from .book import OTHERWISE, Book, Entry
from .declared import Declared
from .formulas import Step
from .hooks import idle
from .kinds import RELU, is_of_losses, is_pre_activation
from .names import Names, maker
from .notes import Notes
from .pass_state import Crossing, PassState
from .paths import BOUND, OF_LOSSES, PARTS, SURE, UNSURE, guards_and_losses, perhaps_parts
from .records import Call, Place, Tap, Unseen, Watcher, label
from .selecting import Selecting
from .selections import DECLARE, LATENT
from .spelled import Spelled
from .stack import Stack

CHOOSES = f"chooses a few of many: who is never chosen is not counted; {DECLARE[LATENT]}"
Activate = Callable[[], Any]
Shown = dict[tuple[str, int], tuple[torch.Size, torch.dtype, Tap, bool]]
"""What passes that hooks alone see have met, by call."""


class Layers:
    """What is known of the layers of one model, and what is met of them in a pass."""

    def __init__(
        self, root: nn.Module, watcher: Watcher, patterns: Sequence[str], declared: Declared, point_axis: int | None
    ) -> None:
        self.watcher, self.point_axis = watcher, point_axis
        self.stack, self.state, self.notes = Stack(), PassState(), Notes(root, patterns)
        self.book = Book(Pairing(declared.paired))  # of the module whose pass runs; a part called by itself has its own
        self._books = {"": self.book}
        self.names = Names()
        self.spelled = Spelled(self)
        self.selecting = Selecting(self) if watcher.selects else None
        self.shown: Shown = {}
        self._declared = declared

    def open(self, path: str) -> None:
        """Take the book of the module that is called: what leads to a layer depends on where a pass begins."""
        if self.state.batch is not None:
            return
        if not torch.compiler.is_compiling() and path not in self._books:
            self._books[path] = Book(Pairing(None))
        book = self._books.get(path, self.book)
        if book is not self.book:
            self.book = book
            self.shown.clear()

    def clear(self) -> None:
        """Forget what formulas and masks were made of."""
        self.state.masks.clear()
        self.spelled.clear()

    def show(self, place: Place, z: Any, unshared: bool) -> None:
        """Show the watcher what a ReLU gets in a pass that hooks alone see; as `see` does, where the call is known."""
        path, points = place.path, self.state.points
        number = self.state.call(path)
        known = self.shown.get((path, number))
        if known is not None and type(z) is Tensor and known[0] == z.shape and known[1] is z.dtype:
            self.watcher.watch(Call(known[2], z, points, False, idle, True, is_unshared=known[3]))
        elif is_pre_activation(z):
            entry = self.look_up(path, number, z)
            self.watch(entry, z, RELU, idle, is_shown=True)
            if entry.layout is not None and not self.notes.patterns and not self.book.missed:
                layout = self._declared.layout(entry.name, z, entry.layout, self.notes.warn)
                tap = Tap(entry.name, RELU, layout, entry.where, inputs=entry.inputs)
                self.shown[path, number] = (z.shape, z.dtype, tap, unshared)

    def see(
        self, z: Tensor, activation: Activation, activate: Activate, inplace: bool = False, step: Step | None = None
    ) -> Any:
        """An activation is called: carry it out, and let the watcher look if it is a layer."""
        base = self.stack.base(activation)
        number, tracker = self.state.call(base), self.state.tracker
        if step is not None:  # it may be part of another
            activate = self.spelled.noting(step, base, number, z, activation, activate)
        if tracker is None:
            return self.watch(self.look_up(base, number, z), z, activation, activate, inplace)
        with tracker.quiet():
            owners = tracker.owners(z)
            if self.selecting is not None and self.selecting.meets(owners, activation, base):
                self.pass_by(base, number, z)
                y = activate()
                tracker.enter(z if y is None else y, owners)
                return y
            entry = self._identify(base, number, z, owners)
            if step is not None and step.is_bound and not _is_made_by_weights(entry.layout):
                entry = entry._replace(layout=None)
                self.book.note(base, number, entry)
        if entry.layout is None:
            return activate()
        with tracker.quiet():
            y = self.watch(entry, z, activation, activate, inplace)
            # A hinge on a mean over points, or on a statistic over them for each unit.
            known = any(c.entry.layout is not None and c.entry.layout.points for c in self.state.crossings)
            few = z.numel() == 1 or (known and 0 < z.numel() <= entry.layout.place.width)
            one = not z.ndim or (few and not owners.of_points(z))
            sure = SURE if owners.pure and entry.layout.units and not one else UNSURE
            sure = BOUND if step is not None and step.is_bound else OF_LOSSES if is_of_losses(activation) else sure
            self.state.cross(z if y is None else y, owners, base, number, entry, sure)
        return y

    def watch(
        self, entry: Entry, z: Tensor, activation: Activation, activate: Activate, inplace: bool = False, **more: Any
    ) -> Any:
        """Carry an activation out; the watcher sees it if it is a layer that was asked for, with more of the `Call`."""
        if entry.layout is None:
            return activate()
        layout, asks_for = entry.layout, self.notes.asks_for
        if not asks_for(entry.name) and not asks_for(label(entry.name, layout.made_by, activation.name)):
            self.notes.passed_over[entry.name] = None
            return activate()
        if self._declared.unit_axes:
            layout = self._declared.layout(entry.name, z, layout, self.notes.warn)
        tap = Tap(entry.name, activation, layout, entry.where, entry.noun, entry.inputs, entry.several)
        self.stack.deaf += 1  # what the watcher computes is not the model's
        try:
            return self.watcher.watch(Call(tap, z, self.state.points, inplace, activate, **more))
        finally:
            self.stack.deaf -= 1

    def find(self, base: str, number: int, z: Tensor) -> Entry | None:
        """What is known of a call in a pass that is not followed."""
        return self.book.find(base, number, z, self.state.points, self.state.mark(z), self.state.trace.look)

    def entry(self, name: str, layout: Layout | None, z: Tensor, **more: Any) -> Entry:
        """The entry of a call on z, which comes now unless another mark is among the rest."""
        if "mark" not in more:
            more["mark"] = self.state.mark(z)
        return Entry(name, layout, tuple(z.shape), self.state.points, **more)

    def look_up(self, base: str, number: int, z: Tensor) -> Entry:
        """Name and layout of a call in a pass that is not followed: known from before, or told by sizes."""
        known = self.find(base, number, z)
        if known is not None:
            return known
        name, sizes = base if number == 1 else f"{base}#{number}", self.state.sizes
        if sizes is not None:
            return self.entry(name, sizes.layout(z, self.state.points, self.point_axis), z, mark=None)
        self.book.miss()
        return self.entry(name, Layout.unknown(z, OTHERWISE), z, mark=None)

    def pass_by(self, base: str, number: int, z: Tensor) -> Entry:
        """A call in a pass that is followed is no layer."""
        entry = self.entry(base, None, z)
        self.book.note(base, number, entry)
        return entry

    def _identify(self, base: str, number: int, z: Tensor, owners: Owners) -> Entry:
        """Name and layout of a call in a pass that is followed."""
        if not owners.data:
            self.notes.idle[base] = None
            return self.pass_by(base, number, z)
        name, layout, before = self.lay_out(base, z, owners, number)
        several = before is not None
        entry = self.entry(name, layout, z, where=self.stack.line(), inputs=owners.inputs, several=several)
        if before is not None:
            self.book.is_one_of_several(base, before)
        self.book.note(base, number, entry)
        return entry

    def lay_out(self, base: str, z: Tensor, owners: Owners, number: int = 0) -> tuple[str, Layout, int | None]:
        """The name of a layer, its layout, and the call before to which it brings more points, in a followed pass."""
        tracker, points = self.state.tracker, self.state.points
        assert tracker is not None
        layout = read(owners, z, points, tracker.family(owners), self.state.doubt)
        runs = None if layout.names is None else tracker.families.runs(layout.names)
        made, uses = maker(layout.made_by, runs), self.state.uses
        use, before = uses.of(base, made, number, layout, owners, points) if number else (uses.new(base, made), None)
        name = self.names.of(base, made, runs, use)
        if self.watcher.adds_up:
            layout = self.names.lined_up(name, z, points, layout, runs)
        return name, layout._replace(names=None), before

    def finish(self, output: Any) -> None:
        """The pass is known as a whole now."""
        self.spelled.finish()
        tracker = self.state.tracker
        if tracker is not None:
            self.book.moving |= tracker.branched
            with tracker.quiet():
                self._settle(output, tracker)
            if self.selecting is not None:
                self.selecting.finish(output)

    def _settle(self, output: Any, tracker: Tracker) -> None:
        """Tell which calls were no layers."""
        state, notes = self.state, self.notes
        if isinstance(output, Tensor):
            notes.output = read(tracker.owners(output), output, state.points)
        outputs = [(t, o) for t in tensors(output) if (o := tracker.owners(t)).data]
        if not outputs:
            return
        common = reduce(int.__and__, (o.crossed for _, o in outputs))
        notes.through = frozenset(c.entry.name for k, c in enumerate(state.crossings) if common >> INPUTS + k & 1)
        for call, why in guards_and_losses(state.crossings, outputs, tracker):
            self.set_aside(call, why)
        aside = {name for name in notes.aside if name not in notes.unseen or notes.unseen[name].why != PARTS}
        for call in perhaps_parts(state, aside):
            self.set_aside(call, PARTS, counts=True)

    def set_aside(self, call: Crossing, why: str = "", *, counts: bool = False) -> None:
        """A call that was seen turns out to be no layer, or none that can be counted; why, where that may be wrong."""
        name = call.entry.name
        self.book.note(call.base, call.number, call.entry._replace(layout=None))
        self.notes.aside.add(name)
        if why:
            self.notes.unseen[name] = Unseen(name, why, 0.0, counts=counts)

    def miss(self, what: str, why: str = "", kind: str = "") -> None:
        """An operation that is one-sided, of some kind, ran, and no call of it was seen; or one we cannot tell of."""
        if self.stack.deaf:
            return
        path = self.stack.places[-1].path if self.stack.places else ""
        line = self.stack.line() if kind else ""
        place = f" at {line}" if line else ""
        if kind and kind != what:
            what, place = f"{kind} by {what}{place}", ""
        name = self.state.miss(f"{path}.{what}".lstrip("."))
        spelled = f"lets one side through, and is spelled in a way that is not counted{place}"
        self.notes.tell(name, why or (CHOOSES if what in ("topk", "masked") else spelled), path)


def _is_made_by_weights(layout: Layout | None) -> bool:
    """Whether what is bounded by numbers are units that weights made, and not merely numbers in need of a guard."""
    return layout is not None and layout.units and bool(layout.weights)
