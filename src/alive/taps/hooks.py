"""What torch calls while a tapped model runs: the hooks on its modules, and the mode that sees functions.

They decide nothing: each tells the `Taps` it belongs to what came.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Container, Iterator, Mapping
from functools import cache
from threading import get_ident
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils.hooks import RemovableHandle

from ..functional.activations import Activation
from ..torch_private import forget_forward_hook, forward_hooks_of, leave, module_call
from .kinds import JUMP, MASKS, READERS, UNIT_AXIS, is_pre_activation
from .models import bare
from .pointwise import POINTWISE
from .records import Place, Unseen, Watcher
from .selections import CHOOSERS, READS, TOPK

if TYPE_CHECKING:
    from .taps import Taps

COMPILED = Unseen(
    "topk", "runs inside torch.compile, where who is chosen is not seen: leave it out of what is compiled", 0.0
)


class Mode(TorchFunctionMode):
    """Sees the functions called while a tapped module runs."""

    def __init__(self, taps: Taps) -> None:
        super().__init__()
        self.taps = taps

    def __exit__(self, *failure: Any) -> None:
        if torch.compiler.is_compiling():
            super().__exit__(*failure)
        else:  # what the model left on the stack stays
            leave(self)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        taps = self.taps
        if taps._deaf or not (taps._running or taps._is_traced):
            return func(*args, **kwargs)
        if not taps._running or (taps._sizes is None and not torch.compiler.is_compiling() and _tells_nothing(func)):
            out = func(*args, **kwargs)
        else:
            out = self._called(func, args, kwargs)
        if taps._is_traced:
            if torch.compiler.is_compiling():
                taps._is_traced = False
            else:
                try:
                    taps.trace.note(func, args, kwargs, out)
                except Exception:  # a fault of ours is none of the model's
                    taps.trace.lose()
        return out

    def _called(self, func: Any, args: Any, kwargs: Any) -> Any:
        """A call inside a module."""
        taps = self.taps
        if func in UNIT_AXIS:
            if taps._sizes is not None:
                return taps._sizes.made(func, func(*args, **kwargs), UNIT_AXIS[func])
        elif func in READERS:
            seen = READERS[func](*args, **kwargs)
            if seen is not None and is_pre_activation(seen.z):
                seen = taps._of_points(seen) if seen.other is not None else seen
                step = taps._spelled.read(func, args, kwargs, whole=True)
                run = lambda: func(*args, **kwargs)  # noqa: E731
                return taps._see(seen.z, seen.activation, inplace=seen.inplace, activate=run, step=step)
        step = taps._spelled.read(func, args, kwargs)
        if step is not None and step.form is not None:
            return taps._spelled.complete(step, func, args, kwargs)
        if taps._tracker is None:
            out = self._run(func, args, kwargs)
        else:
            with taps._spelled.judged(step):
                out = self._run(func, args, kwargs)
        if step is not None:
            taps._spelled.note(step, func, args, out)
        if taps._selecting is not None and torch.compiler.is_compiling():
            if func in TOPK:
                taps.unseen["topk"] = COMPILED
        elif taps._selecting is not None:
            if func in CHOOSERS:
                taps._selecting.chose(func, args, kwargs, out)
            elif func in READS:
                taps._selecting.is_read(args[0])
            elif func is Tensor.__getitem__:
                taps._selecting.takes_row(*args)
        return out

    def _run(self, func: Any, args: Any, kwargs: Any) -> Any:
        taps = self.taps
        if func in MASKS and not torch.compiler.is_compiling():
            return taps._masks.note(func, args, kwargs, self._masked(func, args, kwargs))
        if taps._sizes is not None and func not in READERS and func not in UNIT_AXIS:
            taps._sizes.moved(func)
        return func(*args, **kwargs)

    def _masked(self, func: Any, args: Any, kwargs: Any) -> Any:
        """A call that may let values through where other numbers say so."""
        taps = self.taps
        with taps._unfollowed_here():
            seen = taps._masks.read(func, args, kwargs, taps._is_constant)
        if seen is None or not is_pre_activation(seen.z):
            return func(*args, **kwargs)
        gate = seen.gate
        if seen.activation is JUMP and gate is not None and gate.sign > 0 and isinstance(gate.reach, int | float):
            known = Activation("mask", cutoff=float(gate.reach))  # one number for all is no choice
            return taps._see(seen.z, known, inplace=seen.inplace, activate=lambda: func(*args, **kwargs))
        if taps._selecting is not None:
            return taps._selecting.gated(seen, lambda: func(*args, **kwargs))
        if seen.activation is JUMP:
            taps._unfollowed("mask")
        return func(*args, **kwargs)


@cache
def _tells_nothing(func: Any) -> bool:
    """Whether a function is neither an activation, nor a part of one, nor a choice."""
    tables: tuple[Container[Any], ...] = (READERS, MASKS, POINTWISE, CHOOSERS, READS)
    return func is not Tensor.__getitem__ and not any(func in table for table in tables)


class _Hook:
    """A hook that stays with its model: a copy or a pickle of the model gets an idle one, and is as if never tapped."""

    def __init__(self, taps: Taps, place: Place) -> None:
        self.taps, self.place = taps, place

    def __reduce__(self) -> tuple[Callable[[], Any], tuple[()]]:  # deepcopy goes this way too
        return _left_in_a_copy, ()


class _Enter(_Hook):
    def __call__(self, module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        taps = self.taps
        if taps._quick and module is not taps._outermost and taps._thread == get_ident():
            taps._show(self.place, module, args[0])
        else:
            taps._enter(self.place, module, args, kwargs)


class _Leave(_Hook):
    def __call__(self, module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        taps = self.taps
        if not taps._quick or module is taps._outermost or taps._thread != get_ident():
            taps._leave(self.place, output)


class Rest(_Hook):
    """Says whose model it is while nothing is watched."""

    def __call__(self, module: nn.Module, args: tuple[Any, ...]) -> None:
        """Do nothing."""


def idle(*args: Any) -> None:
    """A hook that does nothing."""


def _left_in_a_copy() -> Callable[..., None]:
    return idle


def is_on_stack(module: nn.Module | None, times: int) -> bool:
    """Whether so many calls of a module have not returned yet."""
    frame = sys._getframe()
    while frame is not None and times:
        times -= frame.f_code is module_call and frame.f_locals["self"] is module
        frame = frame.f_back  # type: ignore[assignment]
    return not times


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
