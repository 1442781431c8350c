"""Arrays of any library as tensors: floats in the model's precision, whole numbers as they are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from ..errors import AliveError

WIDER = (np.int16, np.uint16, np.uint32, np.uint64)  # which torch, or its Embedding, does not compute with


def precision(model: nn.Module) -> torch.dtype:
    """The floats that a model computes with, by its first parameter of floats."""
    floats = (p.dtype for p in model.parameters() if p.is_floating_point())
    return next(floats, torch.get_default_dtype())


def is_row(batch: Any) -> bool:
    """Whether it is a sequence of parts, and no text."""
    return isinstance(batch, Sequence) and not isinstance(batch, str | bytes | PackedSequence)


def is_array(x: Any) -> bool:
    """Whether it is an array of some library, or lists of numbers; tensors are no arrays here."""
    if isinstance(x, Tensor | type) or hasattr(x, "columns"):
        return False
    return hasattr(x, "__array__") or _is_numbers(x)


def _is_numbers(x: Any) -> bool:
    if not isinstance(x, list):  # a tuple of lists is (inputs, targets)
        return False
    while isinstance(x, list | tuple) and x:
        x = x[0]
        if isinstance(x, bool | int | float | np.number):
            return True
    return False


def tensor(array: Any, dtype: torch.dtype | None = None) -> Tensor:
    """An array, or lists of numbers, as a tensor: floats become `dtype`, whole numbers stay whole.

    >>> tensor(np.array([[1.5], [2.5]])).dtype, tensor([[1, 2]]).dtype
    (torch.float32, torch.int64)
    """
    try:
        found = np.asarray(array)
    except ValueError:
        found = np.empty(0, object)
    if found.dtype.kind not in "biufc":
        what = "rows of different lengths" if is_row(array) and _is_numbers(array) else f"values of type {found.dtype}"
        raise AliveError(
            f"expected an array of numbers, got {what}", "Pad rows to one length, and turn text and dates into numbers"
        )
    if found.dtype.type in WIDER:
        found = found.astype(np.int64)
    found = np.ascontiguousarray(found, found.dtype.newbyteorder("=")).reshape(found.shape)
    given = torch.from_numpy(found if found.flags.writeable else found.copy())
    return narrow(given, dtype) if given.is_floating_point() else given


def as_tensor(batch: Any, dtype: torch.dtype | None = None) -> Any:
    """An array as a tensor; a structure with all its arrays so, and anything else as it is."""
    return each(batch, lambda x: tensor(x, dtype) if is_array(x) else None)


def narrow(given: Tensor, dtype: torch.dtype | None) -> Tensor:
    """Floats in another precision; refuses numbers that it cannot hold."""
    floats = given.to(dtype or torch.get_default_dtype())
    if not torch.equal(floats.isfinite(), given.isfinite()):
        raise AliveError(
            f"the data hold numbers too large for {str(floats.dtype).removeprefix('torch.')}", "Scale them"
        )
    return floats


def move(batch: Any, device: torch.device, dtype: torch.dtype | None = None) -> Any:
    """The batch with all its tensors on the device, and its arrays as tensors."""

    def place(x: Any) -> Any:
        if isinstance(x, Tensor) and x.is_meta:
            raise AliveError(f"the inputs {list(x.shape)} lie on the meta device and have no values", "Give real ones")
        if hasattr(x, "to"):  # tensors, and what libraries make of them
            return x.to(device)
        return tensor(x, dtype).to(device) if hasattr(x, "__array__") and not hasattr(x, "columns") else None

    return each(batch, place)


def inner(batch: Any) -> list[Tensor]:
    """The tensors of a structure of mappings and sequences, in order."""
    if isinstance(batch, Tensor):
        return [batch]
    if isinstance(batch, PackedSequence):
        return [batch.data]
    if isinstance(batch, Mapping):
        return [x for value in batch.values() for x in inner(value)]
    return [x for value in batch for x in inner(value)] if is_row(batch) else []


def each(batch: Any, change: Callable[[Any], Any]) -> Any:
    """The structure with its parts changed; where `change` gives None, the parts of a part are looked at."""
    found = change(batch)
    if found is not None:
        return found
    if isinstance(batch, Mapping):
        return {key: each(value, change) for key, value in batch.items()}
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*(each(value, change) for value in batch))
    if is_row(batch):
        values = [each(value, change) for value in batch]
        return tuple(values) if isinstance(batch, tuple) else values
    return batch
