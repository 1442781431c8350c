"""The records of taps: where an activation is, what it gets, and what was missed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from torch import Tensor, nn

from ..functional.activations import Activation
from ..provenance import Layout
from ..torch_private import children_of, parameters_of
from .declared import Declared, Output
from .kinds import HANDMADE
from .selections import Selection, Selects, implicit_codes


class Tap(NamedTuple):
    """A place where pre-activations meet a one-sided activation, and the line that calls it, where it is known."""

    name: str
    activation: Activation
    layout: Layout
    where: str = ""
    noun: str = "unit"  # what its units are called: unit, latent, code or expert
    inputs: int = 0  # bits of the inputs that its points are of, for `Taps.pairing`
    several: bool = False  # whether it is met in several calls of a pass, each with points of its own

    @property
    def label(self) -> str:
        """A name that leads to the place."""
        return label(self.name, self.layout.made_by, self.activation.name)


def label(name: str, made_by: str, activation: str) -> str:
    """What made the input, and the activation that it meets, without the path that both share.

    >>> label("relu#15", "convs.14", "relu"), label("block.0.act", "block.0.conv", "gelu"), label("3", "2", "relu")
    ('convs.14 → relu', 'block.0.conv → act', '2 → relu')
    """
    if not made_by:
        return name
    steps, shared = name.rstrip("'").split("#")[0].split("."), 0
    if steps == made_by.split("."):
        return f"{made_by} → {activation}"
    for ours, theirs in zip(steps[:-1], made_by.split("."), strict=False):
        if ours != theirs:
            break
        shared += 1
    last = ".".join(steps[shared:])
    return f"{made_by} → {activation if last.isdigit() else last}"


class Call(NamedTuple):
    """An activation about to happen: where, on what, in a batch of how many points, whether in place, and how.

    One that is only shown happens by itself: what the watcher returns for it is not looked at. Of a selection, z are
    the scores, and `selection` says who was chosen; `slot` is what the watcher reserved for it when it happened. Of one
    that is unshared, nobody else has z in hand, so that it stays as it is.
    """

    tap: Tap
    z: Tensor
    points: int
    inplace: bool
    activate: Callable[[], Any]
    is_shown: bool = False
    selection: Selection | None = None
    slot: Any = None
    is_unshared: bool = False


class Watcher:
    """Something that looks at the pre-activations: this one sees them, and does nothing."""

    selects = False  # whether it looks at selections too
    adds_up = False  # over batches, unit by unit, so that each unit keeps its number
    checks_choices = False  # whether what becomes of choices is to be seen again in each pass
    only_looks = False  # so that it may be shown activations that happen by themselves (`Call.is_shown`)

    def begin(self) -> None:
        """An outermost forward pass begins."""

    def watch(self, call: Call) -> Any:
        """Look at the call and carry it out; returns what the activation returns."""
        return call.activate()

    def reserve(self) -> Any:
        """Keep a place for a choice among the other calls: what it means is told at the end of the pass."""

    def end(self, output: Any) -> None:
        """The outermost forward pass has ended; output is None when it failed (see `Taps.failed`)."""


class Place(NamedTuple):
    """A module among the others: its path, whether it is an activation by itself, and which one it is known to be."""

    path: str
    is_activation: bool
    activation: Activation | None
    output: Output | None
    selects: Selects | None = None

    @classmethod
    def of(cls, path: str, module: nn.Module, declared: Declared, *, selects: bool) -> Place:
        """What is known of a module: with neither children nor parameters, it is the activation that it calls."""
        kind = type(module)
        activation = declared.activations.get(kind) or HANDMADE.get(f"{kind.__module__}.{kind.__qualname__}")
        alone = bool(path) and not children_of(module) and not parameters_of(module)
        chosen = (declared.selects.get(kind) or implicit_codes(kind, module)) if selects else None
        return cls(path, alone, activation, declared.outputs.get(kind), chosen)


class Unseen(NamedTuple):
    """A one-sided operation that was noticed and is not counted: where, why, and its share of the parameters.

    `counts` says that units may be missing from the count because of it.
    """

    name: str
    why: str
    share: float
    counts: bool = True
