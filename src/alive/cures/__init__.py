"""Cures: what can be done about a network that does not train, one file a cure or a family of them.

A name is that of one cure, or of several with commas between: "mirrored, rate/10". Nothing here imports torch before
a cure is applied.
"""

from __future__ import annotations

import json
import re
from importlib.resources import files
from typing import TYPE_CHECKING

from ..errors import expect_one_of
from ..registry import Registry
from . import batch_norm, clip, farkas, jumpstart, rate, skips, standardise, starts
from .cure import PLACES, Cure

if TYPE_CHECKING:
    from ..diagnosis import Census

__all__ = [
    "AS_IS",
    "BOTH",
    "CURES",
    "KEPT",
    "NAMES",
    "ORDER",
    "Cure",
    "advise",
    "changes",
    "code",
    "find",
    "lines",
    "words",
]

AS_IS = "as it is"
AROUND = "explodes along skips"  # the finding whose cures were measured on a network with skips
KEPT = ("dead in part", "the penalty drowns the task")  # findings in a network whose weights are worth keeping
FAMILIES = (rate, clip, standardise, starts, jumpstart, batch_norm, skips, farkas)  # what costs least first

CURES: Registry[Cure] = Registry(
    "alive.cures",
    "cure",
    {AS_IS: Cure(), **{name: cure for family in FAMILIES for name, cure in family.CURES.items()}},
    fault=lambda name, thing: "" if isinstance(thing, Cure) else f"it is {type(thing).__name__}, not alive.cures.Cure",
)

# The cures for each finding, the best first, as the clinic has written them.
ORDER: dict[str, tuple[str, ...]] = {
    finding: tuple(names)
    for finding, names in json.loads((files(__package__) / "order.json").read_text(encoding="utf-8")).items()
}
BOTH = "mirrored, jumpstart"  # raced beside those that are raced by themselves
COMBINED = (BOTH, *(name for names in ORDER.values() for name in names if ", " in name))
NAMES = tuple(dict.fromkeys((*CURES, *COMBINED)))  # those that are listed; others can be combined


def find(name: str) -> tuple[Cure, ...]:
    """The cures of a name, one or several."""
    for part in name.split(", "):
        expect_one_of("cure", part, CURES)
    return tuple(CURES[part] for part in name.split(", "))


def words(name: str) -> str:
    """What it does, as an order."""
    return ", and ".join(cure.words for cure in find(name))


def changes(name: str) -> str:
    """What it changes about the network at the start."""
    return "; ".join(cure.changes for cure in find(name))


def lines(name: str) -> str:
    """The lines to take over, each behind a word on where it belongs.

    >>> print(lines("mirrored, jumpstart"))
    import torch, alive
    # once the model is made, before the optimiser is
    alive.nn.initialise_(model, "mirrored")
    keep = alive.Jumpstart(model)
    # in each step, before backward()
    loss = loss + keep.penalty()
    """
    told = []
    for where, texts in _places(name).items():
        inputs = "; x are the training inputs" if re.search(r"\bx\b", "".join(texts)) else ""
        told += [f"# {where}{inputs}", *texts]
    return "\n".join(["import torch, alive", *told] if told else [])


def code(name: str) -> tuple[str, ...]:
    """The same lines by themselves; what belongs into each step is marked.

    >>> code("jumpstart")
    ('keep = alive.Jumpstart(model)', 'loss = loss + keep.penalty()  # in each step')
    """
    return tuple(
        line + ("  # in each step" if "step" in where else "")
        for where, texts in _places(name).items()
        for text in texts
        for line in text.replace(":\n    ", ": ").splitlines()
    )


def advise(finding: str, census: Census) -> tuple[str, ...]:
    """The cures for a finding that apply to the model of a census, the best first."""
    skips = finding != AROUND and any(layer.bypassed for layer in census.layers)
    names = [name for name in ORDER[finding] if not (skips and "mirrored" in name)]  # which asks for a plain chain
    if census.build is not None and census.build.moved and finding not in KEPT:
        names = [name if _draws_anew(name) else f"anew, {name}" for name in names]
    return tuple(name for name in names if all(cure.applies(census) for cure in find(name)))


def _draws_anew(name: str) -> bool:
    return any(isinstance(cure, starts.Start) for cure in find(name))


def _places(name: str) -> dict[str, list[str]]:
    """What is written where, nothing twice."""
    told = {
        where: dict.fromkeys(cure.text(place) for place in places for cure in find(name) if cure.at(place))
        for where, places in PLACES.items()
    }
    return {where: list(texts) for where, texts in told.items() if texts}
