"""Taps: find, name and watch the pre-activations of any module.

A hook on every module knows whose forward is running; while one is, a torch function mode sees each call of an
activation, whether made by `nn.ReLU(inplace=True)`, `F.relu`, `torch.relu` or `z.relu()`. Nothing in the model changes.
Which axis holds the units, and whose each entry is, comes from `provenance`, which follows the first pass.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from fnmatch import fnmatchcase
from functools import reduce
from itertools import islice
from math import prod
from threading import get_ident
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from ..errors import AliveError
from ..functional.activations import Activation
from ..provenance import INPUTS, Layout, Owners, Pairing, Tracker, by_name, count, enter, read, tensors
from ..torch_private import FakeTensor, leave
from .batch import Batch, shapes_of
from .book import OTHERWISE, Book, Entry
from .closed import Closed
from .declared import Output, declared, expect_outputs
from .formulas import Step
from .hooks import Mode, Rest, hooks_on, idle, is_on_stack
from .kinds import DECLARED, PLAIN, RELU, Masks, Seen, is_of_losses, is_pre_activation
from .lines import line_of_call
from .models import bare, expect_declared, expect_no_replica, named_modules, tell_hidden
from .names import Names, maker
from .records import Call, Place, Tap, Unseen, Watcher, label
from .selecting import Selecting
from .selections import Selection, Selects, expect_selects
from .sizes import Sizes, follows, rows_of
from .spelled import Spelled
from .trace import Mark, Trace

PARTS = "runs several times on rows of which it is not known whose they are: they may be parts of one layer"
UNSURE, SURE, OF_LOSSES, BOUND = range(4)  # whether an activation is a layer: of losses and bounds, its use decides


class Taps:
    """Watches every one-sided activation of a model until `remove`.

    Names are module paths: `features.3`; `block.0.relu` for a function called in `block.0`; `#2` marks the second
    use of the same points in one pass; on other points, as in a forward in chunks, the same weights are one layer.
    `layers` keeps only what matches one of its patterns by its name, or by its label, such as `convs.14 → relu`;
    `unit_axes` overrides, by name or pattern, the axis the units lie on; `paired` names inputs whose points are those
    of the first; `activations` declares modules of the user's own as one-sided, `outputs` what modules return that
    cannot be followed, `selects` modules that choose a few of many. One pass at a time: calls from a second thread are
    refused.

    A watcher that only looks (`only_looks`) may be shown activations that happen by themselves (`Call.is_shown`).
    """

    def __init__(
        self,
        model: nn.Module,
        watcher: Watcher,
        *,
        layers: Sequence[str] = (),
        point_axis: int | None = 0,
        paired: Sequence[str] | None = None,
        unit_axes: Mapping[str, int] | None = None,
        activations: Mapping[type[nn.Module], Activation] | None = None,
        outputs: Mapping[type[nn.Module], Output] | None = None,
        selects: Mapping[type[nn.Module], Selects] | None = None,
    ) -> None:
        root = bare(model)
        self.watcher = watcher
        self.book = Book()  # of the module whose pass runs; a part that is called by itself has its own
        self._books = {"": self.book}
        self._paired = paired
        self.pairing = Pairing(paired)  # of the inputs of the module whose pass runs
        self._pairings = {"": self.pairing}
        self.passed_over: dict[str, None] = {}  # names that match none of the patterns
        self.idle: dict[str, None] = {}  # names of activations of what depends on no data
        self.unseen: dict[str, Unseen] = {}
        self.aside: set[str] = set()  # taps that turned out to be no layers
        self.through: frozenset[str] | None = None  # taps on every path to the output, once a pass was followed
        self.output: Layout | None = None  # of the output, where it is one tensor
        self.failed = False  # whether the last pass did
        self._root = root
        self._layers = (layers,) if isinstance(layers, str) else tuple(layers)
        self._point_axis, self._unit_axes = point_axis, dict(unit_axes or {})
        expect_declared(activations or {})
        expect_outputs(outputs or {})
        expect_selects(selects or {})
        self._handled: BaseException | None = None  # what the caller of the pass was handling when it began
        self._thread = 0
        self._outermost: nn.Module | None = None  # the module whose pass runs
        self._running: list[Place] = []
        self._inside = ""  # what paths below the outermost module begin with
        self._calls: dict[str, int] = {}  # of each base name in this pass
        self._missed: dict[str, int] = {}  # one-sided operations of each name in this pass that no call shows
        self._names = Names()
        self._points = 0
        self._unclear = ""  # why no points can be told in this pass
        self._tracker: Tracker | None = None
        self._batch: Batch | None = None  # of which this pass is a part
        self.trace = Trace()
        self._is_traced = False
        self._is_own_mode = False  # whether it was entered for this pass, and not for a batch
        self._sizes: Sizes | None = None  # where a pass cannot be followed
        self._masks, self._spelled = Masks(), Spelled(self)
        self._selecting = Selecting(self) if getattr(watcher, "selects", False) else None
        self._crossed: list[tuple[str, int, Entry, int, int]] = []  # calls of this pass: how sure, and what is behind
        self._deaf = 0
        self._quick = False  # whether this pass is seen by the hooks on its activations alone
        self._shown: dict[
            tuple[str, int], tuple[torch.Size, torch.dtype, Tap, bool]
        ] = {}  # what such passes met, by call
        self._mode = Mode(self)
        self._warned: set[str] = set()
        tell_hidden(root, self._asked_for)
        one_sided = {kind: known for added in (*DECLARED.values(), activations or {}) for kind, known in added.items()}
        chosen = (selects or {}) if self._selecting is not None else None
        places = {m: Place.of(path, m, one_sided, outputs or {}, chosen) for path, m in named_modules(root)}
        told = {m for m, at in places.items() if at.activation or at.output or at.selects}
        hooked = {m: at for m, at in places.items() if m is root or m in told or type(m) not in PLAIN}
        self._closed = Closed(root, hooked)
        self._hooked = hooked
        self._handles = self._hook()

    @property
    def is_followed(self) -> bool:
        """Whether the pass that runs is followed operation by operation."""
        return self._tracker is not None

    @property
    def points(self) -> int:
        """How many points the last pass had."""
        return self._points

    def layout_of_output(self, output: Tensor) -> Layout:
        """How the model's output lies."""
        if self.output is not None and self.output.fits(output, self._points):
            return self.output
        sizes = Sizes()
        return sizes.of_output(output, self._points, self._point_axis)

    def rest(self, resting: bool) -> None:
        """Take the hooks off, but for one that does nothing and says whose model it is; or put them on again."""
        if self._handles:  # else the model was left for good
            self._unhook()
            rests = Rest(self, self._hooked[self._root])
            self._handles = [self._root.register_forward_pre_hook(rests)] if resting else self._hook()

    def _hook(self) -> list[RemovableHandle]:
        return [handle for module, place in self._hooked.items() for handle in hooks_on(module, place, self)]

    def _unhook(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles = []

    def remove(self) -> None:
        """Leave the model as it was."""
        self._unhook()
        try:
            if self._running:
                self._finish(None, failed=True)
        finally:
            self._let_go()

    @contextmanager
    def batch(self, batch: Any, points: int, *, follow: bool | None = None) -> Iterator[None]:
        """All passes inside are over one batch of so many points, whichever parts of it they take."""
        shapes = shapes_of(batch)
        self._points, self._batch = points, Batch(batch, self._point_axis)
        self._calls, self._crossed, self._missed = {}, [], {}
        self._unclear = "" if points else "no tensor of the batch shows how many there are"
        self._read(shapes, batch)
        wanted = self.book.wants(shapes)
        tracker: AbstractContextManager[Any] = nullcontext()
        if (wanted if follow is None else follow) and follows():
            tracker = self._tracker = self._tracked(batch, points or None)
        try:
            with self._mode, tracker:  # the mode sees what is done between passes too
                yield
        finally:
            self._batch, self._is_traced = None, False
            self._let_go()

    def _enter(self, place: Place, module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        if self._running and self._elsewhere():
            raise AliveError(
                f"{type(self._outermost).__name__} is called from two threads at once while it is watched",
                "Give each thread a copy of its own, copy.deepcopy(model), or let one call end before the next",
            )
        if self._running and self._broken_off(place):
            self._finish(None, failed=True)
        if not self._running:
            try:
                self._begin(place, module, (args, kwargs))
            except BaseException:  # of a pass that has not begun, torch tells no other hook
                if not torch.compiler.is_compiling():
                    self._let_go()
                raise
        self._running.append(place)
        if place.activation is not None:
            z = next((x for x in (*args, *kwargs.values()) if isinstance(x, Tensor)), None)
            if z is not None and not self._deaf:
                self._see(z, place.activation, inplace=False, activate=lambda: None)
            self._deaf += 1
        elif place.selects is not None and self._selecting is not None:
            z = next((x for x in (*args, *kwargs.values()) if isinstance(x, Tensor)), None)
            self._deaf += 1
            with self._unfollowed_here():
                self._selecting.enter(None if place.selects.count else z)

    def _show(self, place: Place, module: nn.Module, z: Any) -> None:
        """Show the watcher what a module of a quick pass gets, if it is an activation; as `_see` does, where known."""
        if type(module) is not nn.ReLU:
            return
        path = place.path
        number = self._calls[path] = self._calls.get(path, 0) + 1
        known = self._shown.get((path, number))
        if known is not None and type(z) is Tensor and known[0] == z.shape and known[1] is z.dtype:
            self.watcher.watch(Call(known[2], z, self._points, False, idle, True, is_unshared=known[3]))
        elif is_pre_activation(z):
            entry = self._looked_up(path, number, z)
            self._watched(entry, z, RELU, False, idle, is_shown=True)
            if entry.layout is not None and not self._layers and not self.book.missed:
                layout = declared(self._unit_axes, entry.name, z, entry.layout, self._warn)
                tap = Tap(entry.name, RELU, layout, entry.where, inputs=entry.inputs)
                self._shown[path, number] = (z.shape, z.dtype, tap, module in self._closed.unshared)

    def _begin(self, place: Place, module: nn.Module, inputs: tuple[Any, Any]) -> None:
        self._inside = f"{place.path}.".lstrip(".")
        self._deaf, self._sizes = 0, None
        self._outermost, self._thread = module, 0
        compiling = torch.compiler.is_compiling()
        if compiling:
            self._is_traced = False
        else:
            expect_no_replica(module)
            self._thread, self._handled = get_ident(), sys.exc_info()[1]
            self._masks.clear()
            self._spelled.clear()
            if self._selecting is not None:
                self._selecting.clear()
        self._open(place.path, compiling)
        self._follow(inputs, compiling)
        self._quick = not compiling and self._is_quick(inputs)
        if self._quick:
            self._is_traced = False
        else:
            self._shown.clear()
            if self._batch is None:
                self._mode.__enter__()
                self._is_own_mode = True
        self.watcher.begin()

    def _is_quick(self, inputs: tuple[Any, Any]) -> bool:
        """Whether hooks see all there is to see in this pass, which is understood from those before it."""
        if not getattr(self.watcher, "only_looks", False) or self._tracker is not None:
            return False
        return self._sizes is None and self._batch is None and self._closed.holds(inputs)

    def _open(self, path: str, compiling: bool) -> None:
        """Take the book of the module that is called: what leads to a layer depends on where a pass begins."""
        if self._batch is None and not compiling and path not in self._books:
            self._books[path] = Book()
        book = self.book if self._batch is not None else self._books.get(path, self.book)
        if book is not self.book:
            self.book = book
            self._shown.clear()
        if self._batch is None and not compiling:
            self.pairing = self._pairings.setdefault(path, Pairing(None if path else self._paired))

    def _follow(self, inputs: tuple[Any, Any], compiling: bool) -> None:
        """Decide how this pass is to be understood: followed, looked up, or by sizes alone."""
        if self._batch is not None:
            self._batch.enter(inputs)
        else:
            self._calls, self._crossed, self._missed, self._unclear = {}, [], {}, ""
            self._is_traced = False
            if compiling or not follows() or not all(map(_has_values, self._givens(inputs))):
                self._points, self._sizes = rows_of(inputs, self._point_axis), Sizes()
                return
            points = count(inputs, self._point_axis)
            self._points = points or 0
            if points is None:
                self._unclear = "no tensor among the inputs shows how many there are"
            self._read(shapes := shapes_of(inputs), inputs)
            if self.book.wants(shapes, one_way=self._closed.holds(inputs)):
                self._tracker = self._tracked(by_name(self._outermost or self._root, *inputs), points)
                self._tracker.__enter__()

    def _read(self, shapes: tuple[Any, ...], inputs: Any) -> None:
        """The trace of a pass begins."""
        self._is_traced = True
        self._names.begin()
        self.trace.begin(shapes, tensors(inputs))

    def _tracked(self, inputs: Any, points: int | None) -> Tracker:
        """What follows the pass that begins."""
        self.trace.holds(self._root)
        self.book.begin(self.trace.look)
        tracker = Tracker(self._root, self._unfollowed)
        enter(tracker, inputs, points, self._point_axis, self.pairing)
        return tracker

    def mark(self, z: Tensor) -> Mark | None:
        """Where in the trace of this pass z is; None where that is not seen."""
        return self.trace.mark(z) if self._is_traced else None

    def find(self, base: str, number: int, z: Tensor) -> Entry | None:
        """What is known of a call in a pass that is not followed."""
        return self.book.find(base, number, z, self._points, self.mark(z), self.trace.look)

    def _givens(self, inputs: Any) -> Iterator[Tensor]:
        """Tensors that show whether a pass has values: the inputs, and a weight."""
        yield from tensors(inputs)
        yield from islice(self._root.parameters(), 1)

    def _elsewhere(self) -> bool:
        """Whether the pass on record runs in another thread."""
        return not torch.compiler.is_compiling() and self._thread not in (0, get_ident())

    def _leave(self, place: Place, output: Any) -> None:
        if not self._running or self._running[-1].path != place.path or self._elsewhere():
            return  # it failed before it was entered
        if place.activation is not None:
            self._deaf -= 1
        elif place.selects is not None and self._selecting is not None:
            with self._unfollowed_here():
                self._selecting.leave(place, output)
            self._deaf -= 1  # what is computed here is not the model's
        if self._is_traced and (place.activation is not None or place.selects is not None):
            self.trace.made(output)
        if place.output is not None and self._tracker is not None:
            with self._tracker.quiet():
                place.output.enter(self._tracker, output, place.path, self._points)
        if len(self._running) == 1:
            # A model may return None; after a failure its exception is being handled, which at the start was not.
            compiling = torch.compiler.is_compiling()
            self._finish(output, failed=not compiling and output is None and sys.exc_info()[1] is not self._handled)
        else:
            self._running.pop()

    def _finish(self, output: Any, *, failed: bool) -> None:
        self.failed, self._handled, self._outermost = failed, None, None
        self._running.clear()
        if not self._elsewhere():
            with self._closing():
                if not failed:
                    self._spelled.finish()
                if self._tracker is not None and not failed:
                    self._understand(output)
        self.watcher.end(output)

    @contextmanager
    def _closing(self) -> Iterator[None]:
        """Whatever happens inside, nothing of ours is on torch's stacks afterwards."""
        try:
            if self._is_own_mode:
                self._mode.__exit__(None, None, None)
            self._quick = self._is_own_mode = False
            yield
        finally:
            if not torch.compiler.is_compiling():
                self._let_go()
            self._masks.clear()
            self._spelled.clear()

    def _let_go(self) -> None:
        """Take what is ours off torch's stacks, wherever a pass ended; a batch keeps it until it is through."""
        if self._batch is not None:
            return
        self._quick = self._is_own_mode = False
        try:
            leave(self._mode)
        finally:
            if self._tracker is not None:
                tracker, self._tracker = self._tracker, None
                tracker.let_go()

    def _understand(self, output: Any) -> None:
        """The pass is known as a whole now."""
        assert self._tracker is not None
        self.book.moving |= self._tracker.branched
        with self._tracker.quiet():
            self._note_paths(output)
        if self._selecting is not None:
            self._selecting.finish(output)

    def _note_paths(self, output: Any) -> None:
        """Which taps lie on every path to the output."""
        assert self._tracker is not None
        if isinstance(output, Tensor):
            self.output = read(self._tracker.owners(output), output, self._points)
        found = [(t, o) for t in tensors(output) if (o := self._tracker.owners(t)).data]
        if not found:
            return
        common = reduce(int.__and__, (o.crossed for _, o in found))
        self.through = frozenset(key[2].name for k, key in enumerate(self._crossed) if common >> INPUTS + k & 1)
        by_point = [o.behind for t, o in found if t.ndim and o.of_points(t)]
        families = self._tracker.families
        reached = reduce(int.__or__, by_point, families.fed)
        for k, (base, number, entry, sure, behind) in enumerate(self._crossed):
            why = "it meets no weights again, and "
            if entry.layout is None:  # it is part of another
                continue
            outputs = [o.behind for _, o in found if o.behind >> INPUTS + k & 1]
            if families.is_compared(k, behind, outputs if sure == OF_LOSSES else ()):
                why = f"seems to be part of a loss: {why}is compared with what came with the batch"
            elif not reached >> INPUTS + k & 1 and families.targets >> INPUTS + k & 1:
                why = f"seems to be part of a loss: {why}meets numbers of its own for each point, as targets are"
            elif sure == BOUND and not families.fed >> INPUTS + k & 1:
                why = "bounds what meets no weights again: taken for a guard"
            elif sure in (UNSURE, OF_LOSSES) and not reached >> INPUTS + k & 1:
                why = f"seems to be part of a loss: {why}leaves the model only in a mean over points"
            else:
                continue
            self._set_aside(base, number, entry, why)
        for base, number, entry in self._perhaps_parts():
            self._set_aside(base, number, entry, PARTS, counts=True)

    def _perhaps_parts(self) -> list[tuple[str, int, Entry]]:
        """Calls of the same weights, each on fewer rows than there are points, of which it is not known which."""
        alike: dict[tuple[str, str], list[tuple[str, int, Entry]]] = {}
        others = {name for name in self.aside if name not in self.unseen or self.unseen[name].why != PARTS}
        for base, number, entry, *_ in self._crossed:
            layout = entry.layout
            if layout is None or layout.points or not layout.units or not layout.made_by or entry.name in others:
                continue
            if prod(entry.shape) < self._points * layout.place.width:
                alike.setdefault((base, layout.made_by), []).append((base, number, entry))
        return [call for calls in alike.values() if len(calls) > 1 for call in calls]

    def _set_aside(self, base: str, number: int, entry: Entry, why: str = "", *, counts: bool = False) -> None:
        """A call that was seen turns out to be no layer, or none that can be counted; why, where that may be wrong."""
        self.book.note(base, number, entry._replace(layout=None))
        self.aside.add(entry.name)
        if why:
            self.unseen[entry.name] = Unseen(entry.name, why, 0.0, counts=counts)

    def _broken_off(self, place: Place) -> bool:
        """Whether the pass on record is over: an interrupt ended it, of which torch tells no hook."""
        itself = place.path == self._running[0].path
        below = not itself and place.path.startswith(self._inside)
        if below or torch.compiler.is_compiling():
            return False
        return not is_on_stack(self._outermost, times=1 + itself)

    def _see(
        self, z: Tensor, activation: Activation, *, inplace: bool, activate: Callable[[], Any], step: Step | None = None
    ) -> Any:
        base = self._base(activation)
        number = self._calls[base] = self._calls.get(base, 0) + 1
        tracker = self._tracker
        if step is not None:  # it may be part of another
            activate = self._spelled.noting(step, base, number, z, activation, activate)
        if tracker is None:
            return self._watched(self._looked_up(base, number, z), z, activation, inplace, activate)
        with tracker.quiet():
            owners = tracker.owners(z)
            if self._selecting is not None and self._selecting.meets(owners, activation, base):
                self.book.note(base, number, Entry(base, None, tuple(z.shape), self.mark(z)))
                y = activate()
                tracker.enter(z if y is None else y, owners)
                return y
            entry = self._found(base, number, z, owners)
            if step is not None and step.is_bound and not self._spelled.bounds_units(entry, owners):
                entry = entry._replace(layout=None)
                self.book.note(base, number, entry)
        if entry.layout is None:
            return activate()
        with tracker.quiet():
            y = self._watched(entry, z, activation, inplace, activate)
            # A hinge on a mean over points, or on a statistic over them for each unit.
            known = any(before.layout is not None and before.layout.points for _, _, before, *_ in self._crossed)
            few = z.numel() == 1 or (known and 0 < z.numel() <= entry.layout.place.width)
            one = not z.ndim or (few and not owners.of_points(z))
            sure = SURE if owners.pure and entry.layout.units and not one else UNSURE
            sure = BOUND if step is not None and step.is_bound else OF_LOSSES if is_of_losses(activation) else sure
            self._cross(z if y is None else y, owners, (base, number, entry, sure))
        return y

    def _is_constant(self, t: Tensor) -> bool:
        """Whether a tensor depends on no data, as far as this pass shows."""
        return self._tracker is None or not self._tracker.owners(t).data

    def _of_points(self, seen: Seen) -> Seen:
        """Of two tensors that may be the pre-activations, the one that depends on points."""
        if self._tracker is None or seen.other is None:
            return seen
        with self._tracker.quiet():
            constant = not self._tracker.owners(seen.z).data
        return seen._replace(z=seen.other) if constant else seen

    def _watched(
        self,
        entry: Entry,
        z: Tensor,
        activation: Activation,
        inplace: bool,
        activate: Callable[[], Any],
        is_shown: bool = False,
        selection: Selection | None = None,
        slot: Any = None,
    ) -> Any:
        """Carry an activation out; the watcher sees it if it is a layer that was asked for."""
        if entry.layout is None:
            return activate()
        layout = entry.layout
        if not self._asked_for(entry.name) and not self._asked_for(label(entry.name, layout.made_by, activation.name)):
            self.passed_over[entry.name] = None
            return activate()
        if self._unit_axes:
            layout = declared(self._unit_axes, entry.name, z, layout, self._warn)
        tap = Tap(entry.name, activation, layout, entry.where, entry.noun, entry.inputs, entry.several)
        self._deaf += 1  # what the watcher computes is not the model's
        try:
            return self.watcher.watch(Call(tap, z, self._points, inplace, activate, is_shown, selection, slot))
        finally:
            self._deaf -= 1

    def _cross(self, y: Any, owners: Owners, key: tuple[str, int, Entry, int]) -> None:
        """The activation's result has the owners of its input, and lies behind it."""
        assert self._tracker is not None
        if isinstance(y, Tensor) and y.ndim == owners.point.ndim:
            bit = 1 << INPUTS + len(self._crossed)
            self._tracker.enter(y, owners._replace(crossed=owners.crossed | bit, behind=owners.behind | bit))
            self._tracker.cross(y, bit)
            self._crossed.append((*key, owners.behind))

    def _looked_up(self, base: str, number: int, z: Tensor) -> Entry:
        """Name and layout of a call in a pass that is not followed: known from before, or told by sizes."""
        known = self.find(base, number, z)
        if known is not None:
            return known
        name = base if number == 1 else f"{base}#{number}"
        if self._sizes is not None:
            return Entry(name, self._sizes.layout(z, self._points, self._point_axis), tuple(z.shape), None)
        self.book.miss()
        return Entry(name, Layout.unknown(z, OTHERWISE), tuple(z.shape), None)

    def _found(self, base: str, number: int, z: Tensor, owners: Owners) -> Entry:
        """Name and layout of a call in a pass that is followed."""
        assert self._tracker is not None
        if not owners.data:
            self.idle[base] = None
            entry = Entry(base, None, tuple(z.shape), self.mark(z))
        else:
            name, layout, before = self._laid(base, z, owners, number)
            where = line_of_call(self._outermost, inside=self._running[-1].is_activation)
            entry = Entry(name, layout, tuple(z.shape), self.mark(z), where)
            entry = entry._replace(inputs=owners.inputs, several=before is not None)
            if before is not None:
                self.book.is_one_of_several(base, before)
        self.book.note(base, number, entry)
        return entry

    def _doubt(self) -> str:
        """Why no points can be told in this pass; empty where they can."""
        if self._batch is not None and self._batch.doubtful:
            return self._batch.why
        return self._unclear

    def _asked_for(self, name: str) -> bool:
        return not self._layers or any(fnmatchcase(name, pattern) for pattern in self._layers)

    def _base(self, activation: Activation) -> str:
        path, is_activation = self._running[-1][:2]
        return path if is_activation else f"{path}.{activation.name}" if path else activation.name

    def _laid(self, base: str, z: Tensor, owners: Owners, number: int = 0) -> tuple[str, Layout, int | None]:
        """The name of a layer, its layout, and the call before to which it brings more points, in a followed pass."""
        assert self._tracker is not None
        layout = read(owners, z, self._points, self._tracker.family(owners), self._doubt())
        runs = None if layout.names is None else self._tracker.families.runs(layout.names)
        made, uses = maker(layout.made_by, runs), self._names.uses
        use, before = uses.of(base, made, number, layout, owners, self._points) if number else (0, None)
        name = self._names.of(base, made, runs, use)
        if getattr(self.watcher, "adds_up", False):
            layout = self._names.lined_up(name, z, self._points, layout, runs)
        return name, layout._replace(names=None), before

    def _next_call(self, activation: Activation) -> tuple[str, int]:
        """The base name and number that the next call of an activation will have."""
        base = self._base(activation)
        return base, self._calls.get(base, 0) + 1

    def _unfollowed(self, what: str, why: str = "", kind: str = "") -> None:
        """An operation that is one-sided, of some kind, ran, and no call of it was seen; or one we cannot tell of."""
        if self._deaf:
            return
        path = self._running[-1].path if self._running else ""
        line = (
            line_of_call(self._outermost, inside=bool(self._running) and self._running[-1].is_activation)
            if kind
            else ""
        )
        place = f" at {line}" if line else ""
        if kind and kind != what:
            what, place = f"{kind} by {what}{place}", ""
        name = f"{path}.{what}".lstrip(".")
        number = self._missed[name] = self._missed.get(name, 0) + 1
        name = name if number == 1 else f"{name}#{number}"
        why = why or (
            "chooses a few of many: who is never chosen is not counted; declare the module that chooses: "
            "selects={MyTopK: alive.taps.Selects('latent')}"
            if what in ("topk", "masked")
            else f"lets one side through, and is spelled in a way that is not counted{place}"
        )
        self.tell_unseen(name, why, path)

    def tell_unseen(self, name: str, why: str, path: str) -> None:
        """Something was noticed in a part of the model, and is not counted."""
        if name not in self.unseen and self._asked_for(name):
            self.unseen[name] = Unseen(name, why, self._share(path))

    def _unfollowed_here(self) -> AbstractContextManager[None]:
        return self._tracker.quiet() if self._tracker is not None else nullcontext()

    def _share(self, path: str) -> float:
        """The share of the model's parameters that lies in a part of it."""
        whole = sum(p.numel() for p in self._root.parameters()) or 1
        try:
            return sum(p.numel() for p in self._root.get_submodule(path).parameters()) / whole
        except AttributeError:
            return 0.0

    def _warn(self, text: str) -> None:
        if text not in self._warned:
            self._warned.add(text)
            warnings.warn(text, stacklevel=3)


def _has_values(t: Tensor) -> bool:
    return not t.is_meta and not isinstance(t, FakeTensor)
