"""Taps: find, name and watch the pre-activations of any module. The only file that registers hooks.

A hook on every module knows whose forward is running; while one is, a torch function mode sees each call of an
activation, be it made by `nn.ReLU(inplace=True)`, `F.relu`, `torch.relu` or `z.relu()`. Nothing in the model changes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn
from torch.nn.parallel import DataParallel, DistributedDataParallel
from torch.overrides import TorchFunctionMode
from torch.utils.hooks import RemovableHandle

from ..errors import AliveError
from ..functional.activations import Activation
from .kinds import HANDMADE, PLAIN, READERS, UNIT_AXIS


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
        """The outermost forward pass has ended; output is None when it failed."""


class Taps:
    """Watches every one-sided activation of a model until `remove`.

    Names are module paths: `features.3`; `block.0.relu` for a function called in `block.0`; `#2` marks the second
    use in one pass. `layers` keeps only names that match one of its patterns; `unit_axes` overrides, by name, the
    axis the units lie on; `activations` declares modules of the user's own as one-sided.
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
        self._paths = {module: path for path, module in root.named_modules()}
        self._handmade = {m: a for m in self._paths if (a := _handmade(m, activations or {})) is not None}
        self.passed_over: dict[str, None] = {}  # names that match none of the patterns
        self._running: list[nn.Module] = []
        self._inside = ""  # what paths below the outermost module begin with
        self._uses: dict[str, int] = {}
        self._unit_axis: int | None = None
        self._deaf = 0
        self._mode = _Mode(self)
        hooked = [m for m in self._paths if m is root or m in self._handmade or type(m) not in PLAIN]
        self._handles = [handle for module in hooked for handle in self._hook(module)]

    def _hook(self, module: nn.Module) -> Iterator[RemovableHandle]:
        for hooks in (module._forward_pre_hooks, module._forward_hooks):
            for key in [key for key, hook in hooks.items() if hook is _idle]:
                del hooks[key]
                module._forward_hooks_always_called.pop(key, None)
        yield module.register_forward_pre_hook(_Enter(self))
        yield module.register_forward_hook(_Leave(self), always_call=True)

    def remove(self) -> None:
        """Leave the model as it was."""
        for handle in self._handles:
            handle.remove()
        self._handles = []
        if self._running:
            self._finish(None)

    def _enter(self, module: nn.Module, args: tuple[Any, ...]) -> None:
        if self._running and self._broken_off(module):
            self._finish(None)
        if not self._running:
            self._inside = f"{self._paths[module]}.".lstrip(".")
            self._uses, self._unit_axis, self._deaf = {}, None, 0
            self._mode.__enter__()
            self.watcher.begin()
        self._running.append(module)
        if module in self._handmade:
            if args and isinstance(args[0], Tensor) and not self._deaf:
                self._see(args[0], self._handmade[module], inplace=False, activate=lambda: None)
            self._deaf += 1

    def _leave(self, module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        if not self._running or self._running[-1] is not module:
            return  # it failed before it was entered
        if module in self._handmade:
            self._deaf -= 1
        if len(self._running) == 1:
            self._finish(output)
        else:
            self._running.pop()

    def _finish(self, output: Any) -> None:
        self._running.clear()
        self._mode.__exit__(None, None, None)
        self.watcher.end(output)

    def _broken_off(self, module: nn.Module) -> bool:
        """Whether the pass on record is over: an interrupt ended it, of which torch tells no hook."""
        outermost = self._running[0]
        below = module is not outermost and self._paths[module].startswith(self._inside)
        if below or torch.compiler.is_compiling():
            return False
        return not _is_on_stack(outermost, times=1 + (module is outermost))

    def _see(self, z: Tensor, activation: Activation, *, inplace: bool, activate: Callable[[], Any]) -> Any:
        name = self._name(activation)
        if self._layers and not any(fnmatchcase(name, pattern) for pattern in self._layers):
            self.passed_over[name] = None
            return activate()
        tap = Tap(name, activation, self._units_of(name, z))
        self._deaf += 1  # what the watcher computes is not the model's
        try:
            return self.watcher.watch(Call(tap, z, inplace, activate))
        finally:
            self._deaf -= 1

    def _name(self, activation: Activation) -> str:
        module = self._running[-1]
        path = self._paths[module]
        # A module with neither children nor parameters is the activation itself.
        itself = path and not module._modules and not module._parameters
        name = path if itself else f"{path}.{activation.name}" if path else activation.name
        self._uses[name] = self._uses.get(name, 0) + 1
        return name if self._uses[name] == 1 else f"{name}#{self._uses[name]}"

    def _units_of(self, name: str, z: Tensor) -> int:
        if name in self._unit_axes:
            return self._unit_axes[name]
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
            if seen is not None:
                return self.taps._see(
                    seen.z, seen.activation, inplace=seen.inplace, activate=lambda: func(*args, **kwargs)
                )
        return func(*args, **kwargs)


class _Hook:
    """A hook that stays with its model: a copy or a pickle of the model gets an idle one, and is as if never tapped."""

    def __init__(self, taps: Taps) -> None:
        self.taps = taps

    def __reduce__(self) -> tuple[Callable[[], Any], tuple[()]]:  # deepcopy goes this way too
        return _left_in_a_copy, ()


class _Enter(_Hook):
    def __call__(self, module: nn.Module, args: tuple[Any, ...]) -> None:
        self.taps._enter(module, args)


class _Leave(_Hook):
    def __call__(self, module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        self.taps._leave(module, args, output)


def _idle(*args: Any) -> None:
    """A hook that does nothing."""


def _left_in_a_copy() -> Callable[..., None]:
    return _idle


def _is_on_stack(module: nn.Module, times: int) -> bool:
    frame = sys._getframe()
    while frame is not None and times:
        times -= frame.f_code is nn.Module._call_impl.__code__ and frame.f_locals["self"] is module
        frame = frame.f_back  # type: ignore[assignment]
    return not times


def _handmade(module: nn.Module, declared: Mapping[type[nn.Module], Activation]) -> Activation | None:
    kind = type(module)
    return declared.get(kind) or HANDMADE.get(f"{kind.__module__}.{kind.__qualname__}")


def bare(model: nn.Module) -> nn.Module:
    """The user's own module inside torch.compile, DataParallel and DistributedDataParallel."""
    if not isinstance(model, nn.Module):
        raise AliveError(
            f"expected a torch.nn.Module, got {type(model).__name__}",
            "Pass the model itself, not its output or its class",
        )
    while True:
        if isinstance(model, DataParallel | DistributedDataParallel):
            model = model.module
        elif isinstance(inner := getattr(model, "_orig_mod", None), nn.Module):
            model = inner
        else:
            return model


def watchers(model: nn.Module) -> Iterator[Watcher]:
    """Whoever watches any part of the model now."""
    for module in bare(model).modules():
        for hook in module._forward_pre_hooks.values():
            if isinstance(hook, _Hook):
                yield hook.taps.watcher


def without_activations(model: nn.Module, passed_over: Iterable[str] = ()) -> AliveError:
    """What to say of a model in which no tap was met, or only taps that `layers` passed over."""
    if names := list(passed_over):
        return AliveError(
            f"no tap matches the patterns in layers; there are {', '.join(names[:8])}{' ...' * (len(names) > 8)}",
            'Patterns are shell-like and match whole names: layers=["features.*"]',
        )
    root = bare(model)
    made_of = ", ".join(sorted({type(m).__name__ for m in root.modules() if not list(m.children())}))
    return AliveError(
        f"no one-sided activation ran in {type(root).__name__} (it is made of {made_of or 'no modules'})",
        "Death needs a ReLU-like unit (ReLU, LeakyReLU, ReLU6, ELU, SELU, GELU, SiLU, Softplus ...); declare an "
        "activation of your own with activations={MyActivation: alive.functional.Activation('mine', cutoff=0.0)}",
    )
