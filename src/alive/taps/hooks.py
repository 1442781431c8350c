"""What torch calls while a tapped model runs: the hooks on its modules, and the mode that sees functions.

They decide nothing: each tells the taps it belongs to what came.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping
from functools import cache
from threading import get_ident
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils.hooks import RemovableHandle

from ..functional.activations import Activation
from ..torch_private import forget_forward_hook, forward_hooks_of, leave
from .kinds import JUMP, MASKS, READERS, UNIT_AXIS, is_pre_activation
from .models import bare
from .pointwise import POINTWISE
from .records import Place, Unseen, Watcher
from .selections import CHOOSERS, READS, TOPK

if TYPE_CHECKING:
    from .layers import Layers
    from .taps import Taps

COMPILED = Unseen(
    "topk", "runs inside torch.compile, where who is chosen is not seen: leave it out of what is compiled", 0.0
)


class Mode(TorchFunctionMode):
    """Sees the functions called while a tapped module runs."""

    def __init__(self, layers: Layers, break_off: Callable[[], None]) -> None:
        super().__init__()
        self.layers, self.stack, self.state = layers, layers.stack, layers.state
        self._break_off = break_off

    def __exit__(self, *failure: Any) -> None:
        if torch.compiler.is_compiling():
            super().__exit__(*failure)
        else:  # what the model left on the stack stays
            leave(self)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        stack, state = self.stack, self.state
        if stack.places and not torch.compiler.is_compiling() and stack.is_interrupted():
            self._break_off()
        if stack.deaf or not (stack.places or state.is_traced):
            return func(*args, **kwargs)
        if not stack.places or (state.sizes is None and not torch.compiler.is_compiling() and _tells_nothing(func)):
            out = func(*args, **kwargs)
        else:
            out = self._call(func, args, kwargs)
        if state.is_traced:
            if torch.compiler.is_compiling():
                state.is_traced = False
            else:
                try:
                    state.trace.note(func, args, kwargs, out)
                except Exception:  # a fault of ours is none of the model's
                    state.trace.lose()
        return out

    def _call(self, func: Any, args: Any, kwargs: Any) -> Any:
        """A call inside a module."""
        state, spelled, selecting = self.state, self.layers.spelled, self.layers.selecting
        if func in UNIT_AXIS:
            if state.sizes is not None:
                return state.sizes.made(func, func(*args, **kwargs), UNIT_AXIS[func])
        elif func in READERS:
            seen = READERS[func](*args, **kwargs)
            if seen is not None and is_pre_activation(seen.z):
                seen = state.of_points(seen)
                step = spelled.read(func, args, kwargs, whole=True)
                run = lambda: func(*args, **kwargs)  # noqa: E731
                return self.layers.see(seen.z, seen.activation, run, inplace=seen.inplace, step=step)
        step = spelled.read(func, args, kwargs)
        if step is not None and step.form is not None:
            return spelled.complete(step, func, args, kwargs)
        if state.tracker is None:
            out = self._run(func, args, kwargs)
        else:
            with spelled.judged(step):
                out = self._run(func, args, kwargs)
        if step is not None:
            spelled.note(step, func, args, out)
        if selecting is not None and torch.compiler.is_compiling():
            if func in TOPK:
                self.layers.notes.unseen["topk"] = COMPILED
        elif selecting is not None:
            if func in CHOOSERS:
                selecting.chose(func, args, kwargs, out)
            elif func in READS:
                selecting.is_read(args[0])
            elif func is Tensor.__getitem__:
                selecting.takes_row(*args)
        return out

    def _run(self, func: Any, args: Any, kwargs: Any) -> Any:
        state = self.state
        if func in MASKS and not torch.compiler.is_compiling():
            return state.masks.note(func, args, kwargs, self._mask(func, args, kwargs))
        if state.sizes is not None and func not in READERS and func not in UNIT_AXIS:
            state.sizes.moved(func)
        if func is torch.einsum and state.tracker is not None and _sums_one(*args):
            with state.tracker.contracting():
                return func(*args, **kwargs)
        return func(*args, **kwargs)

    def _mask(self, func: Any, args: Any, kwargs: Any) -> Any:
        """A call that may let values through where other numbers say so."""
        state, layers = self.state, self.layers
        with state.quiet():
            seen = state.masks.read(func, args, kwargs, state.is_constant)
        if seen is None or not is_pre_activation(seen.z):
            return func(*args, **kwargs)
        gate, run = seen.gate, lambda: func(*args, **kwargs)
        if seen.activation is JUMP and gate is not None and gate.sign > 0 and isinstance(gate.reach, int | float):
            known = Activation("mask", cutoff=float(gate.reach))  # one number for all is no choice
            return layers.see(seen.z, known, run, inplace=seen.inplace)
        if layers.selecting is not None:
            return layers.selecting.gated(seen, run)
        if seen.activation is JUMP:
            layers.miss("mask")
        return run()


def _sums_one(equation: Any, *operands: Any) -> bool:
    """Whether einsum sums over axes that hold one entry each, and no others: it does so by a product."""
    if not isinstance(equation, str):
        return False
    if len(operands) == 1 and isinstance(operands[0], list | tuple):
        operands = tuple(operands[0])
    given, _, out = equation.replace(" ", "").replace("...", "").partition("->")
    out = out if "->" in equation else "".join(letter for letter in given if given.count(letter) == 1)
    whole = "..." in equation
    sizes = {
        letter: t.shape[k]
        for letters, t in zip(given.split(","), operands, strict=False)
        for k, letter in enumerate(letters)
        if not whole or t.ndim == len(letters)
    }
    summed = [size for letter, size in sizes.items() if letter not in out]
    return bool(summed) and set(summed) == {1}


@cache
def _tells_nothing(func: Any) -> bool:
    """Whether a function is neither an activation, nor a part of one, nor a choice, nor read by its arguments."""
    tables: tuple[Container[Any], ...] = (READERS, MASKS, POINTWISE, CHOOSERS, READS)
    return func not in (Tensor.__getitem__, torch.einsum) and not any(func in table for table in tables)


class _Hook:
    """A hook that stays with its model: a copy or a pickle of the model gets an idle one, and is as if never tapped."""

    def __init__(self, taps: Taps, place: Place) -> None:
        self.taps, self.place = taps, place

    def __reduce__(self) -> tuple[Callable[[], Any], tuple[()]]:  # deepcopy goes this way too
        return _leave_in_a_copy, ()


class _Enter(_Hook):
    def __call__(self, module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        taps = self.taps
        if taps.is_quick and module is not taps.stack.outermost and taps.stack.thread == get_ident():
            taps.show(self.place, module, args[0])
        else:
            taps.enter(self.place, module, args, kwargs)


class _Leave(_Hook):
    def __call__(self, module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        taps = self.taps
        if not taps.is_quick or module is taps.stack.outermost or taps.stack.thread != get_ident():
            taps.leave(self.place, output)


class Rest(_Hook):
    """Says whose model it is while nothing is watched."""

    def __call__(self, module: nn.Module, args: tuple[Any, ...]) -> None:
        """Do nothing."""


def idle(*args: Any) -> None:
    """A hook that does nothing."""


def _leave_in_a_copy() -> Callable[..., None]:
    return idle


def hooks_on(module: nn.Module, place: Place, taps: Taps) -> Iterator[RemovableHandle]:
    """Put both hooks on a module, and take idle ones off that a copy brought along."""
    for key, hook in forward_hooks_of(module).items():
        if hook is idle:
            forget_forward_hook(module, key)
    # Of the module that is called, the inputs are wanted, by whatever name they come.
    yield module.register_forward_pre_hook(_Enter(taps, place), with_kwargs=True)
    yield module.register_forward_hook(_Leave(taps, place), always_call=True)


def watchers(model: nn.Module) -> Iterator[Watcher]:
    """Every watcher of any part of the model."""
    for module in bare(model).modules():
        for hook in forward_hooks_of(module).values():
            if isinstance(hook, _Enter | Rest):
                yield hook.taps.watcher
