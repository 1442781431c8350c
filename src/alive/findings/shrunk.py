"""What shrink removed: a rule for each reason."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from .finding import Finding, Place, Rule

if TYPE_CHECKING:
    from ..surgery.shrink.record import Report

CURE = "Take the small network: `alive shrink --out small.safetensors`."


def _see(why: str, report: Report) -> Finding | None:
    """The layers from which units were removed for a reason."""
    hit = [(a, a.reasons[why]) for a in report.layers if a.reasons.get(why)]
    said = f"removed as {why}: each {report.meaning(why)}"
    texts = [f"{n} of {a.units} units of {a.layer} {'are' if n > 1 else 'is'} {said}" for a, n in hit]
    places = [Place("", "note", t, a.layer, a.layer, "", n, a.units) for t, (a, n) in zip(texts, hit, strict=True)]
    return Finding(f"units were removed as {why}", CURE.rstrip("."), places=tuple(places)) if places else None


_TEXTS = {
    "dead": (
        "removed: dead units", "units that shrink removed, because they give zero",
        "They are off for every point of the data, or for every input of the box.",
        "As in ALV001, over the data given (observed) or by proof (certified). One finding a layer.",
    ),
    "constant": (
        "removed: constant units", "units that shrink removed, because they give one and the same number",
        "Their inputs do not vary, or their weights are zero; what they give moved into the next bias.",
        "A unit is constant if its output is the same for every point, or for every input of the box.",
    ),
    "unread": (
        "removed: unread units", "units that shrink removed, because all weights that read them are zero",
        "The network was pruned, or a regulariser drove the weights to zero.",
        "By the weights alone; it holds for every input.",
    ),
    "multiple": (
        "removed: multiples", "units that shrink removed, because each is a positive multiple of another",
        "Two units of a layer have weights and bias in one proportion.",
        "By the weights alone; it holds for every input.",
    ),
    "linear": (
        "merged: linear units", "units that shrink merged, because they never bend",
        "They are on for every point of the data, or for every input of the box.",
        "What the next layer reads from linear units has some rank; so many units are left of them.",
    ),
    "fused": (
        "fused: layers that bend nothing",
        "units of layers that shrink fused with the next, because no unit of them bends",
        "Every unit of the layer is linear on the data, or on the box.",
        "Two affine maps after one another are one.",
    ),
}  # fmt: skip
RULES = tuple(
    Rule(f"ALV10{number}", name, "note", short, cause, counted, CURE, partial(_see, why), by="shrink", counts="units")
    for number, (why, (name, short, cause, counted)) in enumerate(_TEXTS.items(), start=1)
)


def see_removed(report: Report) -> tuple[Finding, ...]:
    """What `shrink` removed."""
    return tuple(rule.named(found) for rule in RULES if (found := rule.see(report)))
