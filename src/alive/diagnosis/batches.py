"""What people call data: loaders, tensors, pairs and mappings, turned into batches a model can run on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from ..errors import AliveError
from ..provenance import count

SIZE = 1024  # points a batch, where the data is one tensor


def of(data: Any, model: nn.Module, point_axis: int | None = 0) -> Iterator[Any]:
    """The batches of the data, on the model's device."""
    device = next((x.device for x in chain(model.parameters(), model.buffers())), torch.device("cpu"))
    if device.type == "meta":
        raise AliveError(
            f"{type(model).__name__} lies on the meta device and has no values", "Load its weights, or call to_empty()"
        )
    if point_axis is None and isinstance(data, Tensor):
        data = [data]
    elif isinstance(data, Tensor) or _is_pair(data, point_axis or 0):
        inputs = data if isinstance(data, Tensor) else data[0]
        data = inputs.split(SIZE, point_axis or 0) if inputs.ndim and inputs.shape[point_axis or 0] else ()
    if isinstance(data, str | Mapping) or not isinstance(data, Iterable):
        raise AliveError(
            f"expected a loader, a tensor or a pair (inputs, targets), got {type(data).__name__}",
            "Pass an iterable of batches, such as a DataLoader; put a single batch in a list: [batch]",
        )
    for batch in data:
        yield moved(batch, device)


def _is_pair(data: Any, point_axis: int) -> bool:
    """Whether data is (inputs, targets); two tensors of different lengths are two batches, as x.split(6) makes them."""
    if not (isinstance(data, tuple) and len(data) == 2 and all(isinstance(x, Tensor) for x in data)):
        return False
    inputs, targets = data
    return inputs.ndim <= point_axis or inputs.shape[point_axis] in targets.shape


def moved(batch: Any, device: torch.device) -> Any:
    """The batch with all its tensors on the device."""
    if hasattr(batch, "to"):  # tensors, and what libraries make of them
        return batch.to(device)
    if isinstance(batch, Mapping):
        return {key: moved(value, device) for key, value in batch.items()}
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*(moved(value, device) for value in batch))
    if isinstance(batch, Sequence) and not isinstance(batch, str | bytes):
        values = [moved(value, device) for value in batch]
        return tuple(values) if isinstance(batch, tuple) else values
    return batch


def tensors(batch: Any) -> Iterator[Tensor]:
    """The input tensors of a batch, the first one first."""
    if isinstance(batch, Tensor):
        yield batch
    elif isinstance(batch, PackedSequence):
        yield batch.data
    elif isinstance(batch, Mapping):
        yield from (value for value in batch.values() if isinstance(value, Tensor))
    elif isinstance(batch, Sequence) and not isinstance(batch, str | bytes) and batch:
        yield from tensors(batch[0])


def points_in(batch: Any, point_axis: int | None, number: int, *, is_run_by_hand: bool = False) -> int:
    """How many points the batch has; refuses one without points, or with NaN or infinite inputs.

    Without tensors too, unless the user says how to run it: then its points cannot be told apart, and are 0.
    """
    found = list(tensors(batch))
    if not found and is_run_by_hand:
        return 0
    if not found:
        raise AliveError(
            f"batch {number} holds no tensor (it is a {type(batch).__name__})",
            "A batch is a tensor, a sequence whose first element is the input, or a mapping of keywords; for any "
            "other, say how to run it: forward=lambda model, batch: ...",
        )
    for place, x in enumerate(found):
        unfit = x.isnan() if place else ~x.isfinite()  # after the inputs, infinities may be a mask
        if bad := int(unfit.sum()):
            raise AliveError(
                f"batch {number} has {bad} NaN or infinite value{'s' * (bad > 1)} in its inputs {list(x.shape)}",
                "Clean the data first: nothing that such a point shows about the model is true",
            )
    if point_axis is None or isinstance(batch, PackedSequence):
        return count(batch, point_axis) or 0
    first = found[0]
    if first.ndim <= point_axis or not first.shape[point_axis]:
        raise AliveError(
            f"batch {number} has inputs of shape {list(first.shape)}: no points on axis {point_axis}",
            "Inputs need a batch axis with at least one point; see point_axis",
        )
    return first.shape[point_axis]


@torch.no_grad()
def run(model: nn.Module, batch: Any, number: int, forward: Callable[[nn.Module, Any], Any] | None) -> Any:
    """The model's output on a batch; a failure names the batch and its shapes."""
    try:
        if forward is not None:
            return forward(model, batch)
        if isinstance(batch, Mapping):
            return model(**batch)
        return model(batch if isinstance(batch, Tensor | PackedSequence) else batch[0])
    except Exception as error:
        if isinstance(error, AliveError):
            raise
        shapes = ", ".join(str(list(x.shape)) for x in tensors(batch))
        reason = str(error).strip().split("\n")[0].rstrip(".")
        raise AliveError(
            f"the model could not run on batch {number} with inputs {shapes}: {reason}",
            "Check the shapes that forward() expects, or say how to run it: forward=lambda model, batch: ...",
        ) from error
