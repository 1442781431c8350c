"""Private names of torch that alive depends on, in one file, because any release of torch may change them.

torch_private.toml lists each name, what it is needed for, and why the public way does not do. A test looks each of them
up in the installed torch. Below are the functions and classes through which the other files use them.

A name that a later torch no longer has is told of once, at import; then something simpler serves, or what needs it
says so when it is asked for, and the rest of alive goes on.
"""

from __future__ import annotations

import tomllib
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache, wraps
from importlib import import_module
from importlib.resources import files
from types import CodeType
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec, TypeVar

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.overrides import TorchFunctionMode

from .errors import AliveError

__all__ = [  # of what is here by another way than def and class
    "BatchNorm",
    "DisableTorchFunction",
    "EnableTorchFunction",
    "FakeTensor",
    "HigherOrderOperator",
    "TorchDispatchMode",
    "current_dispatch_mode",
    "is_functorch_wrapped_tensor",
    "pop_dispatch_mode",
    "push_dispatch_mode",
    "tree_leaves",
    "tree_map",
]
P = ParamSpec("P")
T = TypeVar("T")


class Private(NamedTuple):
    """One private name: where it is, what it is needed for, and why no public name does."""

    name: str
    needed_for: str
    instead: str


def read_private() -> tuple[Private, ...]:
    """The list of them."""
    table = tomllib.loads(files(__package__).joinpath("torch_private.toml").read_text(encoding="utf-8"))
    return tuple(Private(name, needed_for, instead) for name, (needed_for, instead) in table.items())


MISSING: list[str] = []
"""Private names that the installed torch does not have."""


def _private(module: str, name: str, without: Any = None) -> Any:
    """What torch has under a private name; else what serves without it, or says so when it is used."""
    with suppress(ImportError, AttributeError):
        return getattr(import_module(module), name)
    MISSING.append(f"{module}.{name}")
    return _absent(f"{module}.{name}") if without is None else without


def _absent(name: str) -> type:
    """What stands for a name that torch no longer has and nothing can replace: a class that nothing can be made of."""

    def refuse(*_: object, **__: object) -> None:
        needed_for = _needed_for(name)
        raise AliveError(
            f"torch {torch.__version__} has no {name}, which alive needs for {needed_for}",
            "Install the torch of alive's constraints.txt for that, or a newer alive",
        )

    return type("Absent", (), {"__new__": refuse})


def _needed_for(name: str) -> str:
    return next((private.needed_for for private in read_private() if name in private.name.split(" or ")), "")


class _Nothing:
    """A class that no object is of."""


def _simple_leaves(tree: Any) -> list[Any]:
    """The leaves of dicts, lists and tuples."""
    if isinstance(tree, dict):
        tree = list(tree.values())
    return [leaf for part in tree for leaf in _simple_leaves(part)] if isinstance(tree, list | tuple) else [tree]


def _simple_map(function: Callable[[Any], Any], tree: Any) -> Any:
    """The same dicts, lists and tuples with other leaves."""
    if isinstance(tree, dict):
        return {key: _simple_map(function, part) for key, part in tree.items()}
    if isinstance(tree, list | tuple):
        parts = [_simple_map(function, part) for part in tree]
        return type(tree)(*parts) if hasattr(tree, "_fields") else type(tree)(parts)
    return function(tree)


if TYPE_CHECKING:
    from torch._C import DisableTorchFunction
    from torch._C import _EnableTorchFunction as EnableTorchFunction
    from torch._C._functorch import is_functorch_wrapped_tensor
    from torch._ops import HigherOrderOperator
    from torch._subclasses import FakeTensor
    from torch.nn.modules.batchnorm import _BatchNorm as BatchNorm
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._python_dispatch import _get_current_dispatch_mode as current_dispatch_mode
    from torch.utils._python_dispatch import _pop_mode as pop_dispatch_mode
    from torch.utils._python_dispatch import _push_mode as push_dispatch_mode
    from torch.utils._pytree import tree_leaves, tree_map
else:
    _DISPATCH = "torch.utils._python_dispatch"
    DisableTorchFunction = _private("torch._C", "DisableTorchFunction")
    EnableTorchFunction = _private("torch._C", "_EnableTorchFunction")
    is_functorch_wrapped_tensor = _private("torch._C._functorch", "is_functorch_wrapped_tensor", lambda t: False)
    HigherOrderOperator = _private("torch._ops", "HigherOrderOperator", _Nothing)
    FakeTensor = _private("torch._subclasses", "FakeTensor", _Nothing)
    BatchNorm = _private(
        "torch.nn.modules.batchnorm",
        "_BatchNorm",
        (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm),
    )
    TorchDispatchMode = _private(_DISPATCH, "TorchDispatchMode")
    current_dispatch_mode = _private(_DISPATCH, "_get_current_dispatch_mode")
    pop_dispatch_mode = _private(_DISPATCH, "_pop_mode")
    push_dispatch_mode = _private(_DISPATCH, "_push_mode")
    tree_leaves = _private("torch.utils._pytree", "tree_leaves", _simple_leaves)
    tree_map = _private("torch.utils._pytree", "tree_map", _simple_map)

_dispatch_modes = _private("torch.utils._python_dispatch", "_get_current_dispatch_mode_stack")
_function_modes = _private("torch.overrides", "_get_current_function_mode_stack")
_pop_function_mode = _private("torch.overrides", "_pop_mode")
_push_function_mode = _private("torch.overrides", "_push_mode")
_is_torch_function_off = _private("torch._C", "_is_torch_function_all_disabled", lambda: False)
_peek_transform = _private("torch._C._functorch", "peek_interpreter_stack", lambda: None)
_transforms = _private("torch._C._functorch", "get_interpreter_stack", tuple)
_wrap_for_grad = _private("torch._C._functorch", "_wrap_for_grad", lambda t, level: t)
_level_of = _private("torch._C._functorch", "maybe_get_level", lambda token: 1)
_get_unwrapped = _private("torch._C._functorch", "get_unwrapped")
_mode_keys = _private("torch._C", "_TorchDispatchModeKey", _Nothing)
_dispatch_mode = _private("torch._C", "_get_dispatch_mode", lambda key: None)
_count_dispatch_modes = _private("torch._C", "_len_torch_dispatch_stack", lambda: 1)
_mode_before_dispatch = _private("torch._ops", "_get_dispatch_mode_pre_dispatch", lambda key: None)
_fake_mode = _private("torch._guards", "detect_fake_mode", lambda: None)
_tracing_context = getattr(_private("torch._guards", "TracingContext", _Nothing), "try_get", lambda: True)
_symbolic_trace: Any = import_module("torch.fx._symbolic_trace")
_tracing_state = _private("torch._C", "_get_tracing_state", lambda: torch.jit.is_tracing() or None)  # type: ignore[attr-defined]
_graph_task = _private("torch._C", "_current_graph_task_id", lambda: -1)
_keeps_graph = _private("torch._C._autograd", "_get_current_graph_task_keep_graph", lambda: False)
_find_tensors = _private(
    "torch.nn.parallel.distributed",
    "_find_tensors",
    lambda output: [leaf for leaf in tree_leaves(output) if isinstance(leaf, Tensor)],
)
_pack = _private("torch._VF", "_pack_padded_sequence")
_unpack = _private("torch._VF", "_pad_packed_sequence")
_PROXY, _FAKE = (getattr(_mode_keys, kind, None) for kind in ("PROXY", "FAKE"))
if _PROXY is None:
    _dispatch_mode = _mode_before_dispatch = lambda key: None

for _name in MISSING:
    warnings.warn(f"torch {torch.__version__} has no {_name}: alive goes without {_needed_for(_name)}", stacklevel=2)

module_call: CodeType = getattr(nn.Module, "_call_impl", nn.Module.__call__).__code__
"""A frame with this code is the call of a module."""


def storage_id(t: Tensor) -> int:
    """The memory a tensor lies in; equal for all its views, and for no other tensor while it lives."""
    storage = t.untyped_storage()
    return int(getattr(storage, "_cdata", 0) or storage.data_ptr())


def version_of(t: Tensor) -> int:
    """How often a tensor was changed in place."""
    return getattr(t, "_version", 0)


def children_of(module: nn.Module) -> dict[str, nn.Module | None]:
    """The children by name, a child with two names twice."""
    return module._modules


def parameters_of(module: nn.Module) -> dict[str, nn.Parameter | None]:
    """The module's own parameters by name, those that are None too."""
    return module._parameters


def buffers_of(module: nn.Module) -> dict[str, Tensor | None]:
    """The module's own buffers by name, those that are None too."""
    return module._buffers


def forward_hooks_of(module: nn.Module) -> dict[int, Any]:
    """Every hook before and after forward, by its number."""
    return {**module._forward_pre_hooks, **module._forward_hooks}


def forget_forward_hook(module: nn.Module, key: int) -> None:
    """Remove a hook by its number."""
    for kept in (
        module._forward_pre_hooks,
        module._forward_hooks,
        module._forward_hooks_always_called,
        module._forward_pre_hooks_with_kwargs,
    ):
        kept.pop(key, None)


def only_hooks(module: nn.Module, count: int, children: tuple[nn.Module | None, ...]) -> bool:
    """Whether a module has so many hooks before and after forward, and these children."""
    return (
        len(module._forward_hooks) == count
        and len(module._forward_pre_hooks) == count
        and (not children or tuple(module._modules.values()) == children)
    )


def has_global_hooks() -> bool:
    """Whether someone has hooks on every module there is."""
    kinds = ("forward_hooks", "forward_pre_hooks", "backward_hooks", "backward_pre_hooks")
    return any(getattr(torch.nn.modules.module, f"_global_{kind}", True) for kind in kinds)


def leave(mode: TorchDispatchMode | TorchFunctionMode) -> None:
    """Take a mode off torch's stack, wherever it lies there; nothing, if it does not."""
    kind: type[TorchDispatchMode] | type[TorchFunctionMode] = TorchFunctionMode
    stack, pop, push = _function_modes, _pop_function_mode, _push_function_mode
    if isinstance(mode, TorchDispatchMode):
        kind, stack, pop, push = TorchDispatchMode, _dispatch_modes, pop_dispatch_mode, push_dispatch_mode
    if not any(own is mode for own in stack()):
        return
    above = []
    while stack()[-1] is not mode:
        above.append(pop())
    try:
        kind.__exit__(mode, None, None, None)
    finally:
        for own in reversed(above):
            push(own)


def schema_of(operator: Any) -> Any:
    """The schema of an operation of torch; None for what is no such operation."""
    return getattr(operator, "_schema", None)


def pack_rows(padded: Tensor, lengths: Tensor, batch_first: bool) -> Tensor:
    """Padded sequences as packed rows."""
    rows: Tensor = _pack(padded, lengths, batch_first)[0]
    return rows


def pad_rows(rows: Tensor, batch_sizes: Tensor, batch_first: bool, padding: float, length: int) -> Tensor:
    """Packed rows as padded sequences."""
    padded: Tensor = _unpack(rows, batch_sizes, batch_first, padding, length)[0]
    return padded


def in_backward() -> bool:
    """Whether this runs inside a backward pass."""
    return bool(_graph_task() != -1)


def is_transformed() -> bool:
    """Whether a transform of torch.func is running."""
    return _peek_transform() is not None


def is_proxy_tracing() -> bool:
    """Whether make_fx is tracing, or torch.export by way of it."""
    return _dispatch_mode(_PROXY) is not None or _mode_before_dispatch(_PROXY) is not None


def is_faked() -> bool:
    """Whether a fake mode is on, in which tensors have no values."""
    if not _count_dispatch_modes() and _tracing_context() is None:
        return False  # the two places it looks at
    return _fake_mode() is not None


def remember(make: Callable[P, T]) -> Callable[P, T]:
    """Make tensors once for all that is asked alike; those of a fake mode would be of no use afterwards."""
    known: Any = lru_cache(maxsize=256)(make)

    @wraps(make)
    def made(*args: P.args, **keywords: P.kwargs) -> T:
        with torch.inference_mode(False):
            found: T = (make if torch.compiler.is_compiling() or is_faked() else known)(*args, **keywords)
        return found

    return made


def guard_hooks() -> None:
    """Have the compiler look at the hooks of a model: else one may run by the graph of another of its class."""
    compiler: Any = import_module("torch._dynamo")
    if getattr(compiler.config, "skip_nnmodule_hook_guards", False):
        compiler.config.skip_nnmodule_hook_guards = False
        compiler.reset()  # what was compiled before does not look


def is_torch_function_off() -> bool:
    """Whether function modes see nothing at the moment."""
    return bool(_is_torch_function_off())


def transform_levels() -> list[int]:
    """The levels of the transforms of torch.func around us."""
    return [transform.level() for transform in _transforms() or ()]


def level_token(t: Tensor, level: int) -> Tensor:
    """A tensor that belongs to a transform of torch.func, as long as that runs."""
    token: Tensor = _wrap_for_grad(t, level)
    return token


def has_level(token: Tensor) -> bool:
    """Whether the transform that a token belongs to still runs."""
    return bool(_level_of(token) > 0)


def unwrap(t: Tensor) -> Tensor:
    """What lies inside the wrappers of torch.func; of vmap, all that it runs at once."""
    while is_functorch_wrapped_tensor(t):
        t = _get_unwrapped(t)
    return t


def is_dual() -> bool:
    """Whether forward-mode differentiation is on."""
    return bool(getattr(forward_ad, "_current_level", -1) >= 0)


def modes_without_values() -> list[Any]:
    """The fake mode and the tracer of make_fx around us, if any."""
    if not _count_dispatch_modes():
        return []
    found = (_dispatch_mode(key) for key in (_FAKE, _PROXY))
    return [mode for mode in found if mode is not None]


def is_traced_whole() -> bool:
    """Whether torch.jit.trace or torch.export run the model."""
    return _tracing_state() is not None or _mode_before_dispatch(_PROXY) is not None


def is_fx_tracing() -> bool:
    """Whether torch.fx is tracing."""
    asked = getattr(_symbolic_trace, "_get_is_fx_tracing", None)  # from torch 2.14 on, one answer for each thread
    return bool(asked() if asked else getattr(_symbolic_trace, "_is_fx_tracing_flag", False))


def keeps_graph() -> bool:
    """Whether the backward pass that runs keeps the graph."""
    return bool(_keeps_graph())


def has_saving_hooks() -> bool:
    """Whether someone else decides what is saved for backward, or may: torch 2.6 does not say."""
    top = getattr(torch._C._autograd, "_top_saved_tensors_default_hooks", None)
    return top is None or top(True) is not None


def is_view(t: Tensor) -> bool:
    """Whether autograd takes a tensor for a view of another."""
    return bool(getattr(t, "_is_view", lambda: True)())


def is_freed(node: Any) -> bool:
    """Whether backward has freed what the node of a Function saved; of torch's own nodes it is not asked."""
    try:
        getattr(node, "_raw_saved_tensors", None)
    except RuntimeError:
        return True
    return False


def node_of(function: type[torch.autograd.Function]) -> type:
    """The class of the nodes that a Function leaves in the graph of autograd."""
    return getattr(function, "_backward_cls", _Nothing)


def find_as_ddp(output: Any) -> list[Tensor]:
    """The tensors that DistributedDataParallel finds in an output."""
    return list(_find_tensors(output))


def module_inside(model: nn.Module) -> nn.Module:
    """The module inside torch.compile(model), or the model itself."""
    return getattr(model, "_orig_mod", model)
