"""Batches that a model can run on, made of whatever people call data; what is in one, and how the model runs on it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from ..errors import AliveError, fault, own_line
from ..provenance import count
from ..provenance import tensors as all_tensors
from .arrays import moved, precision
from .calls import BY_HAND, TARGETS, is_row, taken
from .forms import SIZE, Form, some
from .raw import read

__all__ = ["SIZE", "inputs", "main", "materialise", "moved", "of", "points_in", "run", "sample", "targets", "tensors"]


def of(data: Any, model: nn.Module, point_axis: int | None = 0) -> Iterator[Any]:
    """The batches of the data, on the model's device; arrays become tensors in the model's precision."""
    device = next((x.device for x in chain(model.parameters(), model.buffers())), torch.device("cpu"))
    if device.type == "meta":
        raise AliveError(
            f"{type(model).__name__} lies on the meta device and has no values", "Load its weights, or call to_empty()"
        )
    dtype = precision(model)
    for batch in _read(read(data, model, point_axis)):
        yield moved(batch, device, dtype)


def _read(form: Form) -> Iterator[Any]:
    """The batches of a form; a fault in the user's own code says at which batch."""
    number = 0
    try:
        for batch in form:
            yield batch
            number += 1
    except Exception as error:
        raise fault(f"reading batch {number} of the data", error) from error


def sample(data: Any, model: nn.Module, points: int, seed: int, point_axis: int | None = 0) -> tuple[Form, str]:
    """At most that many points of the data, and a sentence on the choice; empty if all points are taken."""
    form = read(data, model, point_axis)
    if form.length is not None and form.length <= points:
        return form, ""
    if form.length is None:
        return some(form, points, seed), f"the first {points:,} points of the stream"
    return some(form, points, seed), f"{points:,} of {form.length:,} points, drawn at random with seed {seed}"


def tensors(batch: Any) -> Iterator[Tensor]:
    """The input tensors of a batch, the first one first."""
    if isinstance(batch, Tensor):
        yield batch
    elif isinstance(batch, PackedSequence):
        yield batch.data
    elif isinstance(batch, Mapping):
        found = {name: value for name, value in batch.items() if isinstance(value, Tensor)}
        yield from (value for name, value in found.items() if name not in TARGETS or len(found) == 1)
    elif is_row(batch) and batch:
        yield from tensors(batch[0])


def points_in(
    batch: Any, point_axis: int | None, number: int, *, is_run_by_hand: bool = False, model: nn.Module | None = None
) -> int:
    """How many points the batch has; refuses one without points, or with NaN or infinite inputs.

    Without tensors too, unless the user says how to run it: then its points cannot be told apart, and are 0. With the
    model it is known which tensors are inputs, and targets are none of the points.
    """
    found = list(tensors(batch))
    if found and model is not None and not is_run_by_hand:
        batch = inputs(batch, model)
        found = [x for x in all_tensors(batch) if x.layout == torch.strided and not x.is_nested] or found
    if not found and is_run_by_hand:
        return 0
    if not found:
        raise AliveError(
            f"batch {number} holds no tensor (it is a {type(batch).__name__})",
            "A batch is a tensor, a sequence whose first element is the input, or a mapping of keywords; for any "
            f"other, {BY_HAND}",
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


def inputs(batch: Any, model: nn.Module) -> Any:
    """What of the batch the model reads: the batch without its targets."""
    if not (isinstance(batch, Mapping) or is_row(batch)):
        return batch
    found = taken(model, batch)
    return found.keywords if not found.args else found.args[0] if len(found.args) == 1 else found.args


def targets(batch: Any, model: nn.Module | None = None) -> Any:
    """What a loss compares the output with: what stands behind the inputs, or a mapping's labels; None if nothing."""
    if not (isinstance(batch, Mapping) or is_row(batch)):
        return None
    if model is not None:
        with suppress(AliveError):  # where the user says how to run it, forward() need not tell
            return taken(model, batch).targets
    if isinstance(batch, Mapping):
        return next((batch[name] for name in TARGETS if name in batch), None)
    return batch[1] if len(batch) > 1 else None


def main(output: Any, points: int) -> Tensor | None:
    """The tensor of an output that is its answer: logits, or the first floats that have so many points."""
    named = ("logits", "last_hidden_state")
    if isinstance(output, Mapping):
        output = [*(output[name] for name in named if name in output), output]
    floats = [x for x in all_tensors(output) if x.is_floating_point() and x.ndim]
    return next((x for x in floats if points in x.shape[:2]), floats[0] if floats else None)


def run(
    model: nn.Module,
    batch: Any,
    number: int,
    forward: Callable[[nn.Module, Any], Any] | None,
    *,
    grad: bool = False,
) -> Any:
    """The model's output on a batch, with gradients or without; a failure names the batch and its shapes."""
    try:
        with torch.set_grad_enabled(grad):
            if forward is not None:
                return forward(model, batch)
            args, keywords, _ = taken(model, batch)
            return model(*args, **keywords)
    except Exception as error:
        if isinstance(error, AliveError):
            raise
        shapes = ", ".join(str(list(x.shape)) for x in tensors(batch))
        reason = str(error).strip().split("\n")[0].rstrip(".") or type(error).__name__
        raise AliveError(
            f"the model could not run on batch {number} with inputs {shapes}: {reason}{own_line(error)}",
            _kinds(model, batch, str(error)) or f"Check the shapes that forward() expects, or {BY_HAND}",
        ) from error


def _real_behind(batch: Any, first: Tensor) -> str:
    """A later part of real numbers that looks more like inputs than a first one of a whole number a point."""
    if not is_row(batch) or first.is_floating_point() or first.ndim > 1:
        return ""
    real = [x for x in batch[1:] if isinstance(x, Tensor) and x.is_floating_point() and x.ndim > 1]
    return f"{str(real[0].dtype).removeprefix('torch.')} {list(real[0].shape)}" if real else ""


def materialise(
    model: nn.Module, data: Any, forward: Callable[[nn.Module, Any], Any] | None = None, point_axis: int | None = 0
) -> nn.Module:
    """The same model; lazy layers get their weights by a pass over the first batch, in eval mode."""
    lazy = (nn.UninitializedParameter, nn.UninitializedBuffer)
    if any(isinstance(held, lazy) for held in chain(model.parameters(), model.buffers())):
        was = model.training
        run(model.eval(), next(of(data, model, point_axis)), 0, forward)
        model.train(was)
    return model


MIXED = re.compile(r"dtype|scalar type|input type|expected tensor for argument|must be (long|int|float)", re.IGNORECASE)


def _kinds(model: nn.Module, batch: Any, reason: str) -> str:
    """What to do where the inputs are no numbers of the kind that the model takes; nothing if the cause is another."""
    first = next(tensors(batch), None)
    if first is None or not MIXED.search(reason):
        return ""
    given, own = (str(dtype).removeprefix("torch.") for dtype in (first.dtype, precision(model)))
    if real := _real_behind(batch, first):
        return (
            f"The first part of a batch is taken for the input: it holds {given} {list(first.shape)}, and a later one "
            f"{real}; if the labels come first, {BY_HAND}"
        )
    if not first.is_floating_point():
        return (
            f"The inputs are {given}, and the model computes with {own}: give it x.float() (in a file, "
            f"x.astype('float32')), scaled as in training; or token ids as int64"
        )
    if first.dtype != precision(model):
        return f"The inputs are {given}, and the model computes with {own}: give it x.to(torch.{own})"
    return f"The inputs are {given}: if they are token ids or class numbers, give them as whole numbers, x.long()"
