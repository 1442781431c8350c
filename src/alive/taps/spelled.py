"""Watches activations that are spelled out as formulas, while a model runs.

One may turn out to be part of another, as the ReLU6 in `z * relu6(z + 3) / 6`: then only the other is a layer.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ..functional.activations import Activation
from .formulas import NONE, Formulas, Part, Step, where
from .kinds import is_pre_activation
from .pointwise import IN_PLACE, POINTWISE

if TYPE_CHECKING:
    from .layers import Layers

SUMS = {torch.add, Tensor.add, Tensor.add_, Tensor.__add__, Tensor.__radd__, Tensor.__iadd__}
NOBODY = Part("", 0, (), Activation(""))


class Spelled:
    """The formulas of one watched model."""

    def __init__(self, layers: Layers) -> None:
        self._layers, self._state = layers, layers.state
        self._formulas = Formulas(layers.state.quiet, self._is_of_batch)
        self._ways: set[int] = set()  # the traces of passes that were followed
        self._met = False  # whether some pass held a formula, or went another way than those that were followed

    def clear(self) -> None:
        """A new pass begins, or one has ended."""
        self._formulas.clear()

    def read(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], *, whole: bool = False) -> Step | None:
        """What a call makes of one tensor, entry by entry; of an activation, if it may be part of another."""
        if torch.compiler.is_compiling() or func not in POINTWISE or self._needs_no_look():
            return None
        try:
            step = self._formulas.read(func, args, kwargs, whole=whole)
        except Exception:  # a tensor without numbers, or one that numbers do not stand for: then it is no formula
            return None
        if step is not None and step.loose and _is_threshold(step):  # each latent may have one of its own: a choice
            return step._replace(form=None)
        if step is not None and (step.is_even or step.is_guard):  # as the softplus in log cosh, which has no side
            self._take_back(step)
            step = step._replace(parts=NONE)
        return step

    def judged(self, step: Step | None) -> AbstractContextManager[None]:
        """Inside, the tracker need not judge what runs by its values."""
        tracker = self._state.tracker
        is_known = step is not None and (step.form is not None or step.image is None or not step.image.capped)
        return tracker.judged() if tracker is not None and is_known else nullcontext()

    def _needs_no_look(self) -> bool:
        """Whether this pass is looked up, and those that were followed showed no formula; see `finish`."""
        return not self._met and self._state.tracker is None and self._state.is_traced

    def finish(self) -> None:
        """A pass has ended: if it was not looked at, it went a way on which there are no formulas; else look again."""
        if self._state.tracker is not None:
            self._ways.add(self._state.trace.way)
        elif self._needs_no_look() and self._state.trace.way not in self._ways:
            self._met = self._layers.book.missed = True

    def note(self, step: Step, func: Any, args: tuple[Any, ...], out: Any) -> None:
        """Remember what came out of a call."""
        self._formulas.note(step, args[0] if func in IN_PLACE else out)

    def noting(
        self, step: Step, base: str, number: int, z: Tensor, activation: Activation, activate: Callable[[], Any]
    ) -> Callable[[], Any]:
        """The activation carried out, and what came out remembered."""
        part = Part(base, number, where(z), activation, step.rank, step.straight, step.is_bound)

        def noted() -> Any:
            y = activate()
            self._formulas.note(step, z if y is None else y, part)
            return y

        return noted

    def complete(self, step: Step, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call that completes an activation: count it in place of its parts, or tell of it."""

        def run() -> Any:
            out = func(*args, **kwargs)
            return args[0] if func in IN_PLACE else out

        assert step.form is not None
        self._met = True
        known, z, layers = step.form.activation, step.z, self._layers
        skips = known is not None and known.name == "self_gated" and func in SUMS
        own = [p for p in step.parts if z is not None and p.z == where(z) and (skips or _same(p.activation, known))]
        if len(own) == len(step.parts) == 1:  # an activation beside what it got, as in a skip
            y = run()
            self._formulas.note(step, y, own[0])
            return y
        self._take_back(step)
        if known is None or z is None or not is_pre_activation(z):
            with self.judged(step):
                y = run()
            self._tell(step, func, y)
            self._formulas.note(step, y, NOBODY)
            return y
        base = layers.stack.base(known)
        if step.loose and self._state.tracker is None and not layers.book.knows(base, self._state.next_call(base)):
            y = run()  # its numbers came from the data, as was seen in a pass that was followed
            self._formulas.note(step, y, NOBODY)
            return y
        return layers.see(z, known, run, inplace=step.inplace, step=step)

    def _take_back(self, step: Step) -> None:
        """What was seen as activations are parts of something else."""
        calls = {(part.base, part.number) for part in step.parts if part.base}
        self._met |= bool(calls)
        for k, call in enumerate(crossings := self._state.crossings):
            if (call.base, call.number) in calls:
                self._layers.set_aside(call)
                crossings[k] = call._replace(entry=call.entry._replace(layout=None))

    def _is_of_batch(self, t: Tensor) -> bool:
        """Whether a number is known to be made of the batch; one that Python made is not."""
        tracker = self._state.tracker
        if tracker is None:
            return False
        with tracker.quiet():
            owners = tracker.owners(t)
            return owners.behind > 0 and not owners.is_outside

    def _tell(self, step: Step, func: Any, y: Any) -> None:
        """Tell of an activation that cannot be counted, if it is one of what points give."""
        form = step.form
        assert form is not None
        if isinstance(y, Tensor) and not self._state.is_constant(y):
            kind = form.word or (form.activation.name if form.activation else "")
            why = "is off between two numbers" if form.is_shrinkage else "has no number below which it is off"
            why = why if form.word else "gets what was overwritten since"
            self._layers.miss(func.__name__, f"{why}, and is not counted", kind)


def _is_threshold(step: Step) -> bool:
    known = None if step.form is None else step.form.activation
    return known is not None and known.name == "threshold" and known.cutoff != 0


def _same(a: Activation, b: Activation | None) -> bool:
    return b is not None and (a.cutoff, a.ceiling) == (b.cutoff, b.ceiling)
