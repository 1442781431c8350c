"""Points that are dead: all of them, so that none reaches the output, or some."""

from __future__ import annotations

import math
from typing import Any

from ..diagnosis.record import Census, LayerCensus
from ..taps.selections import UNIT
from .finding import REVIVE, Finding, Place, Rule, at, has_moved, in_part, measured, misses_layers, named


def stops(layer: LayerCensus) -> bool:
    """Whether no gradient passes a point that is dead in the layer: nothing leaks, and no path leads around."""
    return not layer.activation.leaks and not layer.bypassed


def walls(census: Census) -> list[LayerCensus]:
    """The layers at which gradients of dead points stop."""
    return [layer for layer in census.layers if (layer.first_deaths or layer.points.dead) and stops(layer)]


def all_die(census: Census) -> bool:
    """Whether no point gets past some wall."""
    dead, total = census.points.dead, census.points.total
    return 0 < dead == total and any(max(a.first_deaths, a.points.dead) == total for a in walls(census))


def killers(census: Census) -> str:
    """The layers at which most points die first, in words."""
    worst = sorted((layer for layer in census.layers if layer.first_deaths), key=lambda a: -a.first_deaths)
    return named(census, worst, lambda a: a.first_deaths)


def see_all_die(census: Census) -> Finding | None:
    """Every point is dead behind some layer, and no gradient passes."""
    if not all_die(census):
        return None
    died, points = has_moved(census), census.points.total
    found = f"no point reaches the output: all {points} die, first at {killers(census)}; no gradient passes"
    if died:
        found += "; its biases are not those of a fresh start, so it died in training, as happens at too high a rate"
    first = max(census.layers, key=lambda layer: layer.first_deaths)
    return measured("dead after training" if died else "dead at the start", found, census, at(first, found))


def see_some(census: Census) -> Finding | None:
    """Some points are dead, or all are and gradients still pass."""
    dead, total = census.points.dead, census.points.total
    if not dead or all_die(census):
        return None
    first = [layer for layer in census.layers if layer.first_deaths]
    places = [_place(layer, total) for layer in first if layer.noun == UNIT]
    if walls(census):
        found = f"{dead} of {total} points die before the output, first at {killers(census)}; they teach nothing below"
        return in_part(found, census, places, REVIVE)
    how_many = f"all {total}" if dead == total else f"{dead} of {total}"
    are = "off or saturated" if any(math.isfinite(layer.activation.ceiling) for layer in first) else "off"
    leaks = all(layer.activation.leaks for layer in first)
    but = "only a small slope passes there" if leaks else "gradients still pass along other paths"
    found = f"{how_many} points are {are} in whole layers, first at {killers(census)}; {but}"
    return in_part(found, census, places, REVIVE)


def _place(layer: LayerCensus, total: int) -> Place:
    off = "off" if math.isinf(layer.activation.ceiling) else "off, or every unit saturated"
    text = f"{layer.first_deaths} of {total} points die at {layer.label or layer.name}: every unit is {off}"
    return at(layer, text, layer.first_deaths, total)


def _is_open(census: Census, most: Any) -> bool:
    points = census.points
    hidden = points.unknown > 0 or misses_layers(census)
    return hidden and most.passed(points.dead + points.unknown or points.total, points.total)


ALL = Rule(
    "ALV011", "no point reaches the output", "error", "every point dies on the way, and no gradient passes",
    "A deep, thin network that is born dead, or one that died in training at too high a rate.",
    "Every point is dead in some layer that lets no gradient through: its activation does not leak, and no path "
    "leads around it. ALV002 is not reported then.",
    "Start in mirrored pairs and keep it alive: `alive.nn.initialise_(model, \"mirrored\")`, `alive.Jumpstart`; "
    "`alive cure` races all cures.",
    see_all_die, is_open=lambda census, most: 0 < census.points.unknown == census.points.total - census.points.dead,
)  # fmt: skip
SOME = Rule(
    "ALV002", "dead points", "warning", "points that a layer maps to all zeros",
    "The layer is thin, or most of its units are off: for some points all of them are. Such a point is the same "
    "as any other dead point from there on, and teaches nothing to the layers below.",
    "A point is dead in a layer if every unit there is off for it, or every one saturated. A finding names the "
    "layer at which points die first; points that were dead before are not counted again. The threshold is a "
    "number of points, or a share.",
    "`alive.Jumpstart(model, mode=\"UP\")` keeps points alive too; make thin layers wider, or start in mirrored "
    "pairs: `alive.nn.initialise_(model, \"mirrored\")`.",
    see_some, counts="points", is_open=_is_open,
)  # fmt: skip
