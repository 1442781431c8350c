"""A network from a file run once while its results are counted before they are made: a line in it may ask for 10^9."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from math import prod
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..gate import Allowance
from ..torch_private import TorchDispatchMode, tree_leaves, tree_map

OPERATOR = type(torch.ops.aten.relu.default)
TIMES = 4096  # so many times what it is given: embeddings and attention make much of little


class Bounded(TorchDispatchMode):
    """Inside it, results may take what the file may, or 4096 times the inputs if that is more; else it is refused."""

    supports_higher_order_operators = True

    def __init__(self, path: Path, given: Iterable[Any]) -> None:
        super().__init__()
        self._allowance = Allowance(path)
        self._allowance.limit = max(self._allowance.limit, TIMES * sum(map(_bytes, tree_leaves(list(given)))))

    def __torch_dispatch__(self, call: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if not isinstance(call, OPERATOR) or call.is_view:
            return call(*args, **kwargs)
        self._allowance.take(needed := _count_bytes(call, args, kwargs), str(call))
        made = call(*args, **kwargs)
        self._allowance.taken -= needed
        for tensor in tree_leaves(made):
            if (size := _bytes(tensor)) and not any(tensor is given for given in tree_leaves([args, kwargs])):
                self._allowance.taken += size
                weakref.finalize(tensor, self._free, size)
        return made

    def _free(self, size: int) -> None:
        self._allowance.taken -= size


def _count_bytes(call: Any, args: Any, kwargs: Any) -> int:
    """Bytes of what a call gives, from a rehearsal without numbers; 0 where only numbers can tell."""
    try:
        rehearsed = call(*tree_map(_without_numbers, args), **tree_map(_without_numbers, kwargs))
    except Exception:  # it looks at numbers, or fails: the call itself will tell
        return 0
    return sum(map(_bytes, tree_leaves(rehearsed)))


def _without_numbers(value: Any) -> Any:
    if isinstance(value, Tensor):
        return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="meta")
    return torch.device("meta") if isinstance(value, torch.device) else value


def _bytes(value: Any) -> int:
    return prod(value.shape) * value.element_size() if isinstance(value, Tensor) else 0
