"""How a model is called on a batch, by the signature of forward(): what are inputs, what targets, and what it says."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from math import inf
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from ..errors import AliveError, near, own_line
from ..provenance import count
from ..provenance import tensors as all_tensors
from .convert import is_row, precision

TARGETS = ("labels", "label", "targets", "target", "y")  # what mappings call what is no input
WHOLE = tuple((name,) for name in ("batch", "data", "features", "graph", "inputs", "sample"))  # that are one mapping
MIXED = re.compile(r"dtype|scalar type|input type|expected tensor for argument|must be (long|int|float)", re.IGNORECASE)
SMALL = 100_000  # parameters of a model on which two threads wait for each other longer than they work
BY_HAND = "say how to run it: forward=lambda model, batch: ..., on the command line --forward mine:run"
BY_NAME = f"Give mappings with the names that forward() takes, or {BY_HAND}"


class Taken(NamedTuple):
    """A batch as the model takes it: model(*args, **keywords); the targets are for a loss."""

    args: tuple[Any, ...]
    keywords: dict[str, Any]
    targets: Any = None


@dataclass(frozen=True, slots=True)
class Asked:
    """What forward() asks for: the names it takes by place, how many of them it needs, and those it takes by name."""

    places: tuple[str, ...]
    needed: int
    most: float
    names: frozenset[str]
    any_name: bool

    @classmethod
    def of(cls, model: nn.Module) -> Asked:
        """Read the signature; one that cannot be read takes one input."""
        try:
            found = inspect.signature(model.forward).parameters.values()
        except (TypeError, ValueError):
            return cls(("input",), 1, 1, frozenset(), True)
        by_place = [p for p in found if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        open_ended = any(p.kind == p.VAR_POSITIONAL for p in found)
        return cls(
            tuple(p.name for p in by_place),
            sum(p.default is p.empty for p in by_place),
            inf if open_ended else len(by_place),
            frozenset(p.name for p in found if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)),
            any(p.kind == p.VAR_KEYWORD for p in found),
        )

    @property
    def inputs(self) -> int:
        """How many inputs a model needs, at least one."""
        return max(self.needed, 1)

    def __str__(self) -> str:
        optional = [f"{name}=..." for name in self.places[self.needed :]]
        return f"forward({', '.join([*self.places[: self.needed], *optional, *['...'] * (self.most == inf)])})"


def take(model: nn.Module, batch: Any) -> Taken:
    """Which parts of a batch the model is called on.

    >>> take(nn.Bilinear(2, 2, 1), ("a", "b", "y"))
    Taken(args=('a', 'b'), keywords={}, targets='y')
    >>> take(nn.Sequential(), {"image": "x", "label": "y"})
    Taken(args=('x',), keywords={}, targets='y')
    """
    if isinstance(batch, Mapping):
        return _by_name(Asked.of(model), batch)
    if not is_row(batch):
        return Taken((batch,), {})
    asked = Asked.of(model)
    if len(batch) in (1, 2) and isinstance(batch[0], Mapping):
        return _by_name(asked, batch[0])._replace(targets=batch[1] if len(batch) == 2 else None)
    if len(batch) in (1, 2) and is_row(batch[0]):
        return _take_nested(asked, tuple(batch[0]), batch[1] if len(batch) == 2 else None)
    return _by_place(asked, tuple(batch))


def _by_place(asked: Asked, batch: tuple[Any, ...]) -> Taken:
    """Inputs first, then what belongs to a loss."""
    given, inputs = len(batch), asked.inputs
    if given < inputs:
        needs = ", ".join(asked.places[:inputs])
        raise AliveError(
            f"forward() needs {inputs} inputs ({needs}), and a batch has {given}",
            f"Let each batch be a tuple ({needs}), with targets behind them if there are any, or {BY_HAND}",
        )
    more_than_targets = given > inputs + 1 and asked.most > inputs
    if more_than_targets or (given == inputs + 1 and _may_be_mask(asked, batch)):
        raise AliveError(f"it is not clear which of the {given} parts of a batch {asked} reads", BY_NAME)
    return Taken(batch[:inputs], {}, batch[inputs] if given > inputs else None)


def _may_be_mask(asked: Asked, batch: tuple[Any, ...]) -> bool:
    """Whether the part behind the inputs may be the mask that forward() takes next, not the targets."""
    x, last = batch[0], batch[-1]
    if len(asked.places) < len(batch) or "mask" not in asked.places[len(batch) - 1]:
        return False
    if not (isinstance(x, Tensor) and isinstance(last, Tensor)) or last.ndim < 2 or last.shape != x.shape[: last.ndim]:
        return False
    return bool(((last == 0) | (last == 1)).all())


def _take_nested(asked: Asked, inputs: tuple[Any, ...], targets: Any) -> Taken:
    """((a, b), y): two inputs where forward() needs two, one that is a tuple where it takes one."""
    if asked.needed <= 1:
        if (asked.needed and 2 <= len(inputs) <= asked.most < inf) or (not asked.needed and len(inputs) > 1):
            raise AliveError(f"it is not clear how {asked} reads a batch whose inputs are {len(inputs)} parts", BY_NAME)
        return Taken((inputs,), {}, targets)
    return _by_place(asked, inputs)._replace(targets=targets)


def _by_name(asked: Asked, batch: Mapping[str, Any]) -> Taken:
    """Parts by the names that forward() takes; a single input may have any name."""
    targets = next((batch[name] for name in TARGETS if name in batch), None)
    inputs = {n: part for n, part in batch.items() if asked.any_name or n in asked.names or n not in TARGETS}
    known = {name: part for name, part in inputs.items() if name in asked.names}
    strange = [name for name in inputs if name not in asked.names]
    lacking = [name for name in asked.places[: asked.needed] if name not in batch]
    if len(inputs) == 1 and strange and asked.inputs == 1 and asked.places and (lacking or not asked.any_name):
        return Taken((inputs[strange[0]],), {}, targets)
    if len(inputs) > 1 and not known and asked.places in WHOLE:
        return Taken((batch,), {}, targets)
    if lacking or (strange and not asked.any_name):
        hint = near(strange[0], asked.places) if strange else f"Add {', '.join(lacking)}"
        lacks = f" and needs {', '.join(lacking)}" if lacking else ""
        takes = ", ".join(sorted(asked.names)[:8] if not asked.places else asked.places[:8])
        raise AliveError(
            f"a batch has {', '.join(map(str, batch))}, and forward() takes {takes}{lacks}", f"{hint}; or {BY_HAND}"
        )
    return Taken((), known | {name: inputs[name] for name in strange}, targets)


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
    found = take(model, batch)
    return found.keywords if not found.args else found.args[0] if len(found.args) == 1 else found.args


def targets(batch: Any, model: nn.Module | None = None) -> Any:
    """What a loss compares the output with: what stands behind the inputs, or a mapping's labels; None if nothing."""
    if not (isinstance(batch, Mapping) or is_row(batch)):
        return None
    if model is not None:
        with suppress(AliveError):  # where the user says how to run it, forward() need not tell
            return take(model, batch).targets
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
            args, keywords, _ = take(model, batch)
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


def _kinds(model: nn.Module, batch: Any, reason: str) -> str:
    """What to do where the inputs are no numbers of the kind that the model takes; nothing if the cause is another."""
    first = next(tensors(batch), None)
    if first is None or not MIXED.search(reason):
        return ""
    given, own = (str(dtype).removeprefix("torch.") for dtype in (first.dtype, precision(model)))
    later = batch[1:] if is_row(batch) and first.ndim < 2 and not first.is_floating_point() else ()
    if real := [x for x in later if isinstance(x, Tensor) and x.is_floating_point() and x.ndim > 1]:
        kind = f"{str(real[0].dtype).removeprefix('torch.')} {list(real[0].shape)}"
        return (
            f"The first part of a batch is taken for the input: it holds {given} {list(first.shape)}, and a later one "
            f"{kind}; if the labels come first, {BY_HAND}"
        )
    if not first.is_floating_point():
        return (
            f"The inputs are {given}, and the model computes with {own}: give it x.float() (in a file, "
            f"x.astype('float32')), scaled as in training; or token ids as int64"
        )
    if first.dtype != precision(model):
        return f"The inputs are {given}, and the model computes with {own}: give it x.to(torch.{own})"
    return f"The inputs are {given}: if they are token ids or class numbers, give them as whole numbers, x.long()"


@contextmanager
def few_threads(model: nn.Module) -> Iterator[None]:
    """One thread for a small model, as many as there were for others; afterwards as it was."""
    was = torch.get_num_threads()
    small = sum(p.numel() for p in model.parameters() if not isinstance(p, nn.UninitializedParameter)) < SMALL
    torch.set_num_threads(1 if small else was)
    try:
        yield
    finally:
        torch.set_num_threads(was)
