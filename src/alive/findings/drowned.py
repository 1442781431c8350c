"""A penalty that pulls much harder at the weights than the task."""

from __future__ import annotations

from dataclasses import replace

from ..diagnosis.record import Census
from .finding import Finding, Rule, measured

# Times the task's gradient, after training: at most 0.7 in the 74 networks of the clinic that a penalty trained, at
# least 1400 in the three that it drowned; this is the middle. At the start it tells nothing: up to 136 in the former.
DROWNS = 30.0


def see(census: Census, pull: float | None = None) -> Finding | None:
    """Whether the penalty's own weight is the cause, by `alive.penalties.pull`; an infinite pull has another."""
    if pull is None or not DROWNS < pull < float("inf"):
        return None
    found = f"the penalty pulls {pull:.0f} times as hard at the weights as the task, and drowns it: it weighs too much"
    told = measured("the penalty drowns the task", found, census)
    return told if told.cures[:1] == ("no penalty",) else replace(told, do="keep.detach(), then")


RULE = Rule(
    "ALV015", "a penalty that drowns the task", "error",
    "a penalty that pulls much harder at the weights than the task",
    "Its weight is too large for this network, or its aggregate is a sum where a mean was meant.",
    "After training with `--jumpstart`, where next to nothing was learned: the gradient of the penalty is more "
    "than 30 times that of the task (`alive.penalties.pull`).",
    "Use the default weight, which fits every network: `alive.Jumpstart(model)`; or train without it.",
    see, by="train",
)  # fmt: skip
