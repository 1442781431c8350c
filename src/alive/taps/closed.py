"""Models in which nothing runs but modules of torch that are known, one after the other.

There an activation can be called by its module only, in every pass alike, so that a hook on it sees all there is to
see, and no function mode has to look at every call. Anything that could change that is looked for before each pass.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any

from torch import Tensor, nn

from ..torch_private import has_global_hooks, only_hooks
from .kinds import PLAIN

KINDS: tuple[type[nn.Module], ...] = (nn.Sequential, nn.ReLU, *PLAIN)
FORWARDS = {kind: kind.forward for kind in KINDS}
MAKERS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.LayerNorm)
"""Modules whose output is a tensor of its own, never what they got."""


class Closed:
    """The modules of such a model, as they were when it was attached, and which of them have one hook on each side."""

    def __init__(self, root: nn.Module, hooked: Iterable[nn.Module]) -> None:
        hooks = set(hooked)
        self._modules = [(m, type(m), int(m in hooks), tuple(m.children())) for m in root.modules()]
        kinds = {type(m) for m in root.modules()}
        is_closed = type(root) is nn.Sequential and kinds <= FORWARDS.keys()
        self._kinds = kinds if is_closed and not any(_is_in_place(m) for m in root.modules()) else None
        pairs = list(pairwise([root, *_in_order(root)])) if is_closed else []
        shared = {m for before, m in pairs if type(before) not in MAKERS}
        self.unshared = {m for _, m in pairs if type(m) is nn.ReLU} - shared
        """ReLUs that get what nobody but the module before them has had in hand."""

    def holds(self, inputs: tuple[Any, Any]) -> bool:
        """Whether the model is one, nothing has changed, and the pass is on one plain tensor."""
        if self._kinds is None or len(inputs[0]) != 1 or inputs[1] or type(inputs[0][0]) is not Tensor:
            return False
        if has_global_hooks() or any(kind.forward is not FORWARDS[kind] for kind in self._kinds):
            return False
        return all(
            type(m) is kind and "forward" not in vars(m) and only_hooks(m, hooks, children) and not _is_in_place(m)
            for m, kind, hooks, children in self._modules
        )


def _in_order(module: nn.Module) -> Iterator[nn.Module]:
    """The modules that run, one after the other; one that is used twice comes twice."""
    if type(module) is nn.Sequential:
        for part in module:
            yield from _in_order(part)
    else:
        yield module


def _is_in_place(module: nn.Module) -> bool:
    """Whether it overwrites what it gets, so that hooks before it cannot tell what backward will pass."""
    return type(module) is nn.ReLU and module.inplace
