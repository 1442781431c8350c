"""How a model is called on a batch: which parts are inputs and which are targets, by the signature of forward()."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, NamedTuple

from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from ..errors import AliveError, near

TARGETS = ("labels", "label", "targets", "target", "y")  # what mappings call what is no input
WHOLE = tuple((name,) for name in ("batch", "data", "features", "graph", "inputs", "sample"))  # that are one mapping
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


def is_row(batch: Any) -> bool:
    """Whether it is a sequence of parts, and no text."""
    return isinstance(batch, Sequence) and not isinstance(batch, str | bytes | PackedSequence)


def taken(model: nn.Module, batch: Any) -> Taken:
    """Which parts of a batch the model is called on.

    >>> taken(nn.Bilinear(2, 2, 1), ("a", "b", "y"))
    Taken(args=('a', 'b'), keywords={}, targets='y')
    >>> taken(nn.Sequential(), {"image": "x", "label": "y"})
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
        return _nested(asked, tuple(batch[0]), batch[1] if len(batch) == 2 else None)
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


def _nested(asked: Asked, inputs: tuple[Any, ...], targets: Any) -> Taken:
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
