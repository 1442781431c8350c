"""What bends nothing: units that are never off, and layers of nothing but such units and dead ones."""

from __future__ import annotations

from typing import Any

from ..diagnosis.record import Census
from ..taps.selections import UNIT
from .finding import Finding, Rule, at, counted, in_part, misses_layers, named, open_units

BUT = ", if nothing else in it bends (a tanh, a softmax, a norm, a maximum)"


def see_layers(census: Census) -> Finding | None:
    """Layers in which every unit is dead or linear only multiply by a matrix."""
    flat = [layer for layer in census.layers if layer.bends is False and layer.noun == UNIT]
    if not flat:
        return None
    whole = f", so the network is a linear map on these points{BUT}" if len(flat) == len(census.layers) else ""
    layers = "1 layer bends" if len(flat) == 1 else f"{len(flat)} of {len(census.layers)} layers bend"
    every = "every unit there is dead or linear"
    found = f"{layers} nothing, because {every}{whole}; the first: {named(census, flat)}"
    places = [at(layer, f"{layer.label or layer.name} bends nothing: {every}") for layer in flat]
    return in_part(found, census, places, "to make units bend,")


def hides_units(census: Census, most: Any) -> bool:
    """Whether some layers or units are unknown."""
    return misses_layers(census) or any(layer.units.unknown for layer in census.layers)


def see_units(census: Census) -> Finding | None:
    """Units that bend nothing, in layers that bend something."""
    some = [a for a in census.layers if a.straight and a.bends is not False and a.noun == UNIT]
    if not some:
        return None
    worst = sorted(some, key=lambda a: -a.straight)
    where = named(census, worst, lambda a: f"{a.straight} of {a.units.known}")
    straight = sum(layer.straight for layer in census.layers if layer.noun == UNIT)
    found = f"{straight} of {census.chosen(UNIT).known} units are never off and bend nothing, most in {where}"
    places = [counted(layer, layer.straight, "are never off") for layer in some]
    return in_part(found, census, places, "" if census.gone else "harmless to gradients; to make them bend,")


UNITS = Rule(
    "ALV003", "linear units", "note", "units that are on for every point of the data",
    "The bias lies high, or all inputs of the unit are positive. It passes gradients, and bends nothing: on these "
    "data it is a linear map.",
    "A unit is linear if its pre-activation is above the cutoff for every point, at every position. An activation "
    "that curves where it is on, such as GELU or ELU, still bends there: its units are found only if they stay "
    "where it is straight. Units of layers in which no unit bends are found by ALV004 instead. The threshold is a "
    "number of units of the layer, or a share.",
    "Harmless to gradients. `alive.Jumpstart(model)` makes units bend; `alive shrink` merges linear units.",
    see_units, counts="units", is_open=open_units("linear"),
)  # fmt: skip
LAYERS = Rule(
    "ALV004", "a layer that bends nothing", "warning", "layers in which every unit is dead or linear",
    "No unit is on for some points and off for others, so that the layer multiplies by a matrix. A network of such "
    "layers is a linear map, however deep it is, if nothing else in it bends: a softmax, a tanh, a norm.",
    "A layer bends nothing if it has no nonlinear unit, and no unit that is broken or unknown. Activations that "
    "curve where they are on, such as GELU or ELU, bend wherever a unit is on.",
    "`alive.Jumpstart(model)`; if the network is trained and good enough, `alive shrink` fuses such layers.",
    see_layers, is_open=hides_units,
)  # fmt: skip
