"""Taps: find, name and watch the pre-activations of any module.

A hook on every module knows whose forward is running; while one is, a torch function mode sees each call of an
activation, whether made by `nn.ReLU(inplace=True)`, `F.relu`, `torch.relu` or `z.relu()`. Nothing in the model changes.
Which axis holds the units, and whose each entry is, comes from `provenance`, which follows the first pass.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from itertools import islice
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from ..errors import AliveError, expect
from ..provenance import Layout, Tracker, by_name, count, enter, tensors
from ..torch_private import DisableTorchFunction, FakeTensor, leave
from .batch import Batch, shapes_of
from .book import Book
from .closed import Closed
from .declared import UNDECLARED, Declared
from .hooks import Mode, Rest, hooks_on, idle
from .kinds import DECLARED, PLAIN
from .layers import Layers
from .models import bare, named_modules, tell_hidden
from .records import Place, Watcher
from .sizes import Sizes, follows, rows_of


class Taps:
    """Watches every one-sided activation of a model until `remove`.

    Names are module paths: `features.3`; `block.0.relu` for a function called in `block.0`; `#2` marks the second
    use of the same points in one pass; on other points, as in a forward in chunks, the same weights are one layer.
    `layers` keeps only what matches one of its patterns by its name, or by its label, such as `convs.14 → relu`;
    `declared` says what the model does not show. One pass at a time: calls from a second thread are refused.

    `notes` says what was left out, `book` what is known of where entries lie.
    """

    def __init__(
        self,
        model: nn.Module,
        watcher: Watcher,
        *,
        layers: Sequence[str] = (),
        point_axis: int | None = 0,
        declared: Declared = UNDECLARED,
    ) -> None:
        self._root = root = bare(model)
        expect([(isinstance(declared, Declared), f"declared is an alive.Declared(...), got {declared!r}")])
        self.watcher, self._point_axis = watcher, point_axis
        self.layers = Layers(root, watcher, layers, declared, point_axis)
        self.stack, self.state, self.notes = self.layers.stack, self.layers.state, self.layers.notes
        self.failed = False  # whether the last pass did
        self.is_quick = False  # whether this pass is seen by the hooks on its activations alone
        self._mode = Mode(self.layers, self._break_off)
        self._is_own_mode = False  # whether it was entered for this pass, and not for a batch
        tell_hidden(root, self.notes.asks_for)
        activations = {k: known for each in (*DECLARED.values(), declared.activations) for k, known in each.items()}
        told = replace(declared, activations=activations)
        places = {m: Place.of(path, m, told, selects=watcher.selects) for path, m in named_modules(root)}
        known = {m for m, at in places.items() if at.activation or at.output or at.selects}
        self._hooked = {m: at for m, at in places.items() if m is root or m in known or type(m) not in PLAIN}
        self._closed = Closed(root, self._hooked)
        self._handles = self._hook()

    @property
    def book(self) -> Book:
        """What is known of the layouts of the module whose pass runs, and of its inputs."""
        return self.layers.book

    @property
    def is_followed(self) -> bool:
        """Whether the pass that runs is followed operation by operation."""
        return self.state.tracker is not None

    @property
    def points(self) -> int:
        """How many points the last pass had."""
        return self.state.points

    def layout_of_output(self, output: Tensor) -> Layout:
        """How the model's output lies."""
        known = self.notes.output
        if known is not None and known.fits(output, self.points):
            return known
        return Sizes().of_output(output, self.points, self._point_axis)

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
            if self.stack.places:
                self._finish(None, failed=True)
        finally:
            self._let_go()

    @contextmanager
    def batch(self, batch: Any, points: int, *, follow: bool | None = None) -> Iterator[None]:
        """All passes inside are over one batch of so many points, whichever parts of it they take."""
        state, shapes = self.state, shapes_of(batch)
        state.begin(points, "" if points else "no tensor of the batch shows how many there are")
        state.batch = Batch(batch, self._point_axis)
        state.read(shapes, batch)
        wanted = self.book.wants(shapes)
        tracker: AbstractContextManager[Any] = nullcontext()
        if (wanted if follow is None else follow) and follows():
            tracker = state.tracker = self._make_tracker(batch, points or None)
        try:
            with self._mode, tracker:  # the mode sees what is done between passes too
                yield
        finally:
            state.batch, state.is_traced = None, False
            self._let_go()

    def enter(self, place: Place, module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """The forward of a module begins; with that of the outermost, a pass."""
        stack, selecting = self.stack, self.layers.selecting
        if stack.places and stack.is_elsewhere():
            raise AliveError(
                f"{type(stack.outermost).__name__} is called from two threads at once while it is watched",
                "Give each thread a copy of its own, copy.deepcopy(model), or let one call end before the next",
            )
        if stack.places and stack.is_broken_off(place):
            self._finish(None, failed=True)
        if not stack.places:
            try:
                self._begin(place, module, (args, kwargs))
            except BaseException:  # of a pass that has not begun, torch tells no other hook
                if not torch.compiler.is_compiling():
                    self._let_go()
                raise
        stack.places.append(place)
        if place.activation is not None:
            z = next((x for x in (*args, *kwargs.values()) if isinstance(x, Tensor)), None)
            if z is not None and not stack.deaf:
                self.layers.see(z, place.activation, idle)
            stack.deaf += 1
        elif place.selects is not None and selecting is not None:
            z = next((x for x in (*args, *kwargs.values()) if isinstance(x, Tensor)), None)
            stack.deaf += 1
            with self.state.quiet():
                selecting.enter(None if place.selects.count else z)

    def show(self, place: Place, module: nn.Module, z: Any) -> None:
        """The forward of a module begins in a pass that hooks alone see."""
        if type(module) is nn.ReLU:
            self.layers.show(place, z, module in self._closed.unshared)

    def leave(self, place: Place, output: Any) -> None:
        """The forward of a module has ended; with that of the outermost, the pass."""
        stack, state, selecting = self.stack, self.state, self.layers.selecting
        if not stack.places or stack.places[-1].path != place.path or stack.is_elsewhere():
            return  # it failed before it was entered
        if place.activation is not None:
            stack.deaf -= 1
        elif place.selects is not None and selecting is not None:
            with state.quiet():
                selecting.leave(place, output)
            stack.deaf -= 1  # what is computed here is not the model's
        if state.is_traced and (place.activation is not None or place.selects is not None):
            state.trace.made(output)
        if place.output is not None and state.tracker is not None:
            with state.tracker.quiet():
                place.output.enter(state.tracker, output, place.path, state.points)
        if len(stack.places) == 1:
            self._finish(output, failed=stack.has_failed(output))
        else:
            stack.places.pop()

    def _begin(self, place: Place, module: nn.Module, inputs: tuple[Any, Any]) -> None:
        state, compiling = self.state, torch.compiler.is_compiling()
        state.sizes = None
        self.stack.begin(place, module)
        if compiling:
            state.is_traced = False
        else:
            self.layers.clear()
            if self.layers.selecting is not None:
                self.layers.selecting.clear()
        self.layers.open(place.path)
        if state.batch is not None:
            state.batch.enter(inputs)
        else:
            self._follow(inputs)
        self.is_quick = not compiling and self._can_be_quick(inputs)
        if self.is_quick:
            state.is_traced = False
        else:
            self.layers.shown.clear()
            if state.batch is None:
                if not compiling:
                    leave(self._mode)  # which an interrupt may have left there
                self._mode.__enter__()
                self._is_own_mode = True
        self.watcher.begin()

    def _can_be_quick(self, inputs: tuple[Any, Any]) -> bool:
        """Whether hooks see all there is to see in this pass, which is understood from those before it."""
        state = self.state
        if not self.watcher.only_looks or state.tracker is not None or state.sizes is not None:
            return False
        return state.batch is None and self._closed.holds(inputs)

    def _follow(self, inputs: tuple[Any, Any]) -> None:
        """Decide how this pass is to be understood: followed, looked up, or by sizes alone."""
        state = self.state
        weights = islice(self._root.parameters(), 1)
        if not follows() or any(t.is_meta or isinstance(t, FakeTensor) for t in (*tensors(inputs), *weights)):
            state.begin(rows_of(inputs, self._point_axis))
            state.sizes = Sizes()
            return
        points = count(inputs, self._point_axis)
        state.begin(points, "no tensor among the inputs shows how many there are" if points is None else "")
        state.read(shapes := shapes_of(inputs), inputs)
        if self.book.wants(shapes, one_way=self._closed.holds(inputs)):
            state.tracker = self._make_tracker(by_name(self.stack.outermost or self._root, *inputs), points)
            state.tracker.__enter__()

    def _make_tracker(self, inputs: Any, points: int | None) -> Tracker:
        """What follows the pass that begins."""
        self.state.trace.holds(self._root)
        self.book.begin(self.state.trace.look)
        tracker = Tracker(self._root, self.layers.miss)
        enter(tracker, inputs, points, self._point_axis, self.book.pairing)
        return tracker

    def _break_off(self) -> None:
        """An interrupt ended the pass: nothing is followed until the next; the mode, which torch holds now, idles."""
        if self.state.batch is None:
            self._finish(None, failed=True)

    def _finish(self, output: Any, *, failed: bool) -> None:
        self.failed = failed
        self.stack.close()
        if not self.stack.is_elsewhere():
            try:
                if self._is_own_mode:
                    self._mode.__exit__(None, None, None)
                self.is_quick = self._is_own_mode = False
                if not failed and torch.compiler.is_compiling():
                    self.layers.finish(output)
                elif not failed:
                    with DisableTorchFunction():  # of a batch the mode is still on, and what is asked here is ours
                        self.layers.finish(output)
            finally:  # nothing of ours stays on torch's stacks
                if not torch.compiler.is_compiling():
                    self._let_go()
                self.layers.clear()
        self.watcher.end(output)

    def _let_go(self) -> None:
        """Take what is ours off torch's stacks, wherever a pass ended; a batch keeps it until it is through."""
        if self.state.batch is not None:
            return
        self.is_quick = self._is_own_mode = False
        try:
            leave(self._mode)
        finally:
            tracker, self.state.tracker = self.state.tracker, None
            if tracker is not None:
                tracker.let_go()
