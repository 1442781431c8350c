"""Taps: find, name and watch the pre-activations of any module. The only file that registers hooks.

A hook on every module knows whose forward is running; while one is, a torch function mode sees each call of an
activation, be it made by `nn.ReLU(inplace=True)`, `F.relu`, `torch.relu` or `z.relu()`. Nothing in the model changes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from threading import get_ident
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils.hooks import RemovableHandle

from ..errors import AliveError
from ..functional.activations import Activation
from .kinds import HANDMADE, PLAIN, READERS, UNIT_AXIS, is_pre_activation
from .models import bare, expect_declared, expect_no_replica, named_modules, tell_hidden


class Tap(NamedTuple):
    """A place where pre-activations meet a one-sided activation."""

    name: str
    activation: Activation
    unit_axis: int


class Call(NamedTuple):
    """An activation about to happen: where, on what, whether in place, and how to carry it out."""

    tap: Tap
    z: Tensor
    inplace: bool
    activate: Callable[[], Any]


class Watcher(Protocol):
    """Whoever looks at the pre-activations."""

    def begin(self) -> None:
        """An outermost forward pass begins."""

    def watch(self, call: Call) -> Any:
        """Look at the call and carry it out; returns what the activation returns."""

    def end(self, output: Any) -> None:
        """The outermost forward pass has ended; output is None when it failed, of which `Taps.failed` tells."""


class Place(NamedTuple):
    """A module among the others: its path, whether it is an activation by itself, and which one it is known to be."""

    path: str
    is_activation: bool
    activation: Activation | None

    @classmethod
    def of(cls, path: str, module: nn.Module, declared: Mapping[type[nn.Module], Activation]) -> Place:
        """What is known of a module: with neither children nor parameters, it is the activation that it calls."""
        kind = type(module)
        activation = declared.get(kind) or HANDMADE.get(f"{kind.__module__}.{kind.__qualname__}")
        return cls(path, bool(path) and not module._modules and not module._parameters, activation)


class Taps:
    """Watches every one-sided activation of a model until `remove`.

    Names are module paths: `features.3`; `block.0.relu` for a function called in `block.0`; `#2` marks the second
    use in one pass. `layers` keeps only names that match one of its patterns; `unit_axes` overrides, by name, the
    axis the units lie on; `activations` declares modules of the user's own as one-sided. One pass at a time: calls from
    a second thread meanwhile are refused.
    """

    def __init__(
        self,
        model: nn.Module,
        watcher: Watcher,
        *,
        layers: Sequence[str] = (),
        unit_axes: Mapping[str, int] | None = None,
        activations: Mapping[type[nn.Module], Activation] | None = None,
    ) -> None:
        root = bare(model)
        self.watcher = watcher
        self._layers = (layers,) if isinstance(layers, str) else tuple(layers)
        self._unit_axes = dict(unit_axes or {})
        expect_declared(activations or {})
        self.passed_over: dict[str, None] = {}  # names that match none of the patterns
        self.failed = False  # whether the last pass did
        self._handled: BaseException | None = None  # what the caller of the pass was handling when it began
        self._thread = 0
        self._outermost: nn.Module | None = None  # the module whose pass runs
        self._running: list[Place] = []
        self._inside = ""  # what paths below the outermost module begin with
        self._uses: dict[str, int] = {}
        self._unit_axis: int | None = None
        self._deaf = 0
        self._mode = _Mode(self)
        tell_hidden(root, self._asked_for)
        places = {module: Place.of(path, module, activations or {}) for path, module in named_modules(root)}
        hooked = {m: at for m, at in places.items() if m is root or at.activation or type(m) not in PLAIN}
        self._handles = [handle for module, place in hooked.items() for handle in self._hook(module, place)]

    def _hook(self, module: nn.Module, place: Place) -> Iterator[RemovableHandle]:
        for hooks in (module._forward_pre_hooks, module._forward_hooks):
            for key in [key for key, hook in hooks.items() if hook is _idle]:
                del hooks[key]
                module._forward_hooks_always_called.pop(key, None)
                module._forward_pre_hooks_with_kwargs.pop(key, None)
        # Of a module that is an activation the argument is wanted, by whatever name it comes.
        yield module.register_forward_pre_hook(_Enter(self, place), with_kwargs=place.activation is not None)
        yield module.register_forward_hook(_Leave(self, place), always_call=True)

    def remove(self) -> None:
        """Leave the model as it was."""
        for handle in self._handles:
            handle.remove()
        self._handles = []
        if self._running:
            self._finish(None, failed=True)

    def _enter(self, place: Place, module: nn.Module, args: tuple[Any, ...]) -> None:
        if self._running and self._elsewhere():
            raise AliveError(
                f"{type(self._outermost).__name__} is called from two threads at once while it is watched",
                "Give each thread a copy of its own, copy.deepcopy(model), or let one call end before the next",
            )
        if self._running and self._broken_off(place):
            self._finish(None, failed=True)
        if not self._running:
            self._begin(place, module)
        self._running.append(place)
        if place.activation is not None:
            z = next((x for x in args if isinstance(x, Tensor)), None)
            if z is not None and not self._deaf:
                self._see(z, place.activation, inplace=False, activate=lambda: None)
            self._deaf += 1

    def _begin(self, place: Place, module: nn.Module) -> None:
        self._inside = f"{place.path}.".lstrip(".")
        self._uses, self._unit_axis, self._deaf = {}, None, 0
        self._outermost, self._thread = module, 0
        if not torch.compiler.is_compiling():
            expect_no_replica(module)
            self._thread, self._handled = get_ident(), sys.exc_info()[1]
        self._mode.__enter__()
        self.watcher.begin()

    def _elsewhere(self) -> bool:
        """Whether the pass on record runs in another thread."""
        return not torch.compiler.is_compiling() and self._thread not in (0, get_ident())

    def _leave(self, place: Place, output: Any) -> None:
        if not self._running or self._running[-1].path != place.path or self._elsewhere():
            return  # it failed before it was entered
        if place.activation is not None:
            self._deaf -= 1
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
            self._mode.__exit__(None, None, None)
        self.watcher.end(output)

    def _broken_off(self, place: Place) -> bool:
        """Whether the pass on record is over: an interrupt ended it, of which torch tells no hook."""
        itself = place.path == self._running[0].path
        below = not itself and place.path.startswith(self._inside)
        if below or torch.compiler.is_compiling():
            return False
        return not _is_on_stack(self._outermost, times=1 + itself)

    def _see(self, z: Tensor, activation: Activation, *, inplace: bool, activate: Callable[[], Any]) -> Any:
        name = self._name(activation)
        if not self._asked_for(name):
            self.passed_over[name] = None
            return activate()
        tap = Tap(name, activation, self._units_of(name, z))
        self._deaf += 1  # what the watcher computes is not the model's
        try:
            return self.watcher.watch(Call(tap, z, inplace, activate))
        finally:
            self._deaf -= 1

    def _asked_for(self, name: str) -> bool:
        return not self._layers or any(fnmatchcase(name, pattern) for pattern in self._layers)

    def _name(self, activation: Activation) -> str:
        path, is_activation, _ = self._running[-1]
        name = path if is_activation else f"{path}.{activation.name}" if path else activation.name
        self._uses[name] = self._uses.get(name, 0) + 1
        return name if self._uses[name] == 1 else f"{name}#{self._uses[name]}"

    def _units_of(self, name: str, z: Tensor) -> int:
        if name in self._unit_axes:
            axis = self._unit_axes[name]
            if not -z.ndim <= axis < z.ndim:
                raise AliveError(
                    f"unit_axes has axis {axis} for {name}, whose pre-activations are of shape {list(z.shape)}",
                    f"Say an axis from {-z.ndim} to {z.ndim - 1}",
                )
            return axis
        if z.ndim < 3 or self._unit_axis is None:
            return -1 if z.ndim < 4 else 1
        return self._unit_axis


class _Mode(TorchFunctionMode):
    """Sees the functions called while a tapped module runs."""

    def __init__(self, taps: Taps) -> None:
        super().__init__()
        self.taps = taps

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if self.taps._deaf or not self.taps._running:
            return func(*args, **kwargs)
        if func in UNIT_AXIS:
            self.taps._unit_axis = UNIT_AXIS[func]
        elif func in READERS:
            seen = READERS[func](*args, **kwargs)
            if seen is not None and is_pre_activation(seen.z):
                return self.taps._see(
                    seen.z, seen.activation, inplace=seen.inplace, activate=lambda: func(*args, **kwargs)
                )
        return func(*args, **kwargs)


class _Hook:
    """A hook that stays with its model: a copy or a pickle of the model gets an idle one, and is as if never tapped."""

    def __init__(self, taps: Taps, place: Place) -> None:
        self.taps, self.place = taps, place

    def __reduce__(self) -> tuple[Callable[[], Any], tuple[()]]:  # deepcopy goes this way too
        return _left_in_a_copy, ()


class _Enter(_Hook):
    def __call__(self, module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any] | None = None) -> None:
        self.taps._enter(self.place, module, (*args, *kwargs.values()) if kwargs else args)


class _Leave(_Hook):
    def __call__(self, module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        self.taps._leave(self.place, output)


def _idle(*args: Any) -> None:
    """A hook that does nothing."""


def _left_in_a_copy() -> Callable[..., None]:
    return _idle


def _is_on_stack(module: nn.Module | None, times: int) -> bool:
    frame = sys._getframe()
    while frame is not None and times:
        times -= frame.f_code is nn.Module._call_impl.__code__ and frame.f_locals["self"] is module
        frame = frame.f_back  # type: ignore[assignment]
    return not times


def watchers(model: nn.Module) -> Iterator[Watcher]:
    """Whoever watches any part of the model now."""
    for module in bare(model).modules():
        for hook in module._forward_pre_hooks.values():
            if isinstance(hook, _Hook):
                yield hook.taps.watcher
