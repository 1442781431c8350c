"""The arms of a race: cures by name, and the lines of code that apply them.

An arm is run by the very lines that are printed for it, so that what a user takes over is what was raced.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import CodeType
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ..diagnosis import Census
from ..diagnosis.advice.remedies import ADDED, EACH_STEP, RATE, REMEDIES, Remedy
from ..errors import AliveError, expect_one_of, fault
from ..nn.farkas import Farkas

AS_IS = "as it is"
ATTACHED = "keep = alive.Jumpstart(model)"
MIRRORED, FARKAS, SKIPS = REMEDIES["mirrored"].code, "farkas", "skips"

ARMS: dict[str, Remedy] = {
    AS_IS: Remedy("the network as its owner has it", ()),
    "mirrored": REMEDIES["mirrored"],
    "jumpstart": Remedy("keep units and points alive while it trains", (ATTACHED, ADDED)),
    "mirrored, jumpstart": Remedy(REMEDIES["mirrored, UP mean"].words, (*MIRRORED, ATTACHED, ADDED)),
    "batch norm": REMEDIES["batch norm"],
    SKIPS: Remedy("put a skip around every layer that keeps its shape", ("model = alive.surgery.with_skips(model)",)),
    FARKAS: Remedy(
        "give every layer a unit that is on where all others are off",
        ("model = alive.surgery.to_farkas(model, x[:64]).model",),
    ),
    "rate/10": REMEDIES["rate/10"],
    "standardise": REMEDIES["standardise"],
}

TERM = "the loss has one more term"
CHANGES: dict[str, str] = {
    AS_IS: "nothing",
    "jumpstart": TERM,
    "batch norm": "weights stay; every hidden layer is normalised, which is another function from the first step on",
    SKIPS: "weights stay; at the start such a layer passes its input on, and its own part grows from zero",
    FARKAS: "in each layer one unit is replaced; all others stay",
    "rate/10": "the steps are smaller",
    "standardise": "the network reads the inputs on another scale, measured on the training points",
    **dict.fromkeys(("mirrored", "kaiming", "glorot", "torch"), "all weights are drawn anew"),
    **dict.fromkeys(("U sum", "P sum", "UP sum", "U mean", "UP mean"), TERM),
}


def changes(arm: str) -> str:
    """What an arm changes about the network at the start, in words."""
    return (
        "; ".join(CHANGES.get(part, "") or "see its lines" for part in arm.split(", ")) if arm != AS_IS else "nothing"
    )


AFTER = ("clip", "no penalty")  # what belongs behind backward(), or takes away what no arm has
RACED: dict[str, Remedy] = {**{name: cure for name, cure in REMEDIES.items() if name not in AFTER}, **ARMS}


def remedy(arm: str) -> Remedy:
    """Words and code of an arm: ours, or a cure of the clinic."""
    return RACED[arm]


def chosen(census: Census, wanted: Sequence[str] | None) -> tuple[str, ...]:
    """The arms of a race: those asked for, or all; and the cures that the advice names for this network.

    The control is always among them.
    """
    if wanted is not None:
        for name in wanted:
            expect_one_of("cure", name, RACED)
        return tuple(dict.fromkeys((AS_IS, *wanted)))
    return tuple(dict.fromkeys((*ARMS, *_advised(census))))


NAMED = 2  # cures of the advice that are raced, as many as a census speaks of
TWINS = {"mirrored, UP mean": "mirrored, jumpstart", "UP mean": "jumpstart"}  # the same cure, with its weight by hand


def _advised(census: Census) -> Iterable[str]:
    cures = next((each.cures for each in census.findings if each.cures and each.grave), ())
    return (TWINS.get(name, name) for name in cures[:NAMED])


class Treated(NamedTuple):
    """A model after the lines of its arm: the penalty if there is one, and what is left for optimiser and steps."""

    model: nn.Module
    keep: Any
    rate: tuple[str, ...]
    each_step: tuple[CodeType, ...]

    def slow(self, optimiser: torch.optim.Optimizer) -> None:
        """Run the lines that change the optimiser."""
        for line in self.rate:
            exec(line, {"optimiser": optimiser})

    def loss(self, loss: Tensor) -> Tensor:
        """Run the lines that belong into every step."""
        names: dict[str, Any] = {"loss": loss, "keep": self.keep}
        for line in self.each_step:
            exec(line, names)
        return names["loss"]  # type: ignore[no-any-return]


def treated(arm: str, model: nn.Module, x: Tensor | None) -> Treated:
    """Apply an arm to a fresh model, whose inputs are x; AliveError where it cannot be applied."""
    import alive

    code = remedy(arm).code
    names: dict[str, Any] = {"alive": alive, "torch": torch, "model": model, "x": x}
    for line in code:
        if line in EACH_STEP or line == RATE:
            continue
        if x is None and "x" in compile(line, arm, "exec").co_names:
            raise AliveError("it needs inputs that are one tensor, given by place", "Leave it out")
        try:
            exec(line, names)
        except Exception as error:
            raise fault(line, error) from error
    _expect_changed(arm, names["model"])
    steps = tuple(compile(line, arm, "exec") for line in code if line in EACH_STEP)
    return Treated(names["model"], names.get("keep"), tuple(line for line in code if line == RATE), steps)


def _expect_changed(arm: str, model: nn.Module) -> None:
    if arm == FARKAS and not any(isinstance(part, Farkas) for part in model.modules()):
        raise AliveError("none of its layers can be a Farkas layer", "Leave it out")


def lines(arm: str, indent: str = "") -> str:
    """The lines to take over, each behind a word on where it belongs.

    >>> print(lines("mirrored, jumpstart"))
    import torch, alive
    # once the model is made, before the optimiser is
    alive.nn.initialise_(model, "mirrored")
    keep = alive.Jumpstart(model)
    # in each step, before backward()
    loss = loss + keep.penalty()
    """
    code = remedy(arm).code
    places = {
        "# once the model is made, before the optimiser is": [
            line for line in code if line not in EACH_STEP and line != RATE
        ],
        "# once the optimiser is made": [line for line in code if line == RATE],
        "# in each step, before backward()": [line for line in code if line in EACH_STEP],
    }
    said = [text for place, found in places.items() if found for text in (_where(place, found), *found)]
    return "\n".join(f"{indent}{text}" for text in (["import torch, alive", *said] if said else said))


def _where(place: str, found: Sequence[str]) -> str:
    """The place; what x is, where a line reads it."""
    reads = any("x" in compile(line, "", "exec").co_names for line in found)
    return f"{place}; x are the training inputs" if reads else place
