"""Units that are off, or saturated, for every point."""

from __future__ import annotations

from ..diagnosis.record import Census, LayerCensus, silent
from ..taps.selections import UNIT
from .dead_points import stops
from .finding import REVIVE, Finding, Rule, counted, has_moved, in_part, measured, named, open_units


def worst_dead(census: Census, noun: str) -> list[LayerCensus]:
    """The layers of units of a kind in which some are dead, the worst first."""
    hit = (layer for layer in census.layers if layer.noun == noun and layer.units.dead)
    return sorted(hit, key=lambda layer: layer.units.dead / layer.units.total, reverse=True)


def see(census: Census) -> Finding | None:
    """Grave where a whole layer is dead, and lets nothing through."""
    worst = worst_dead(census, UNIT)
    if not worst:
        return None
    where = named(census, worst, lambda a: f"{a.units.dead} of {a.units.known}")
    units = census.chosen(UNIT)
    found = f"{units.dead} of {units.known} units are {silent(worst)} for every point, most in {where}"
    dead = [layer for layer in census.layers if layer in worst]
    places = [counted(layer, layer.units.dead, f"are {silent([layer])} for every point") for layer in dead]
    if any(layer.units.dead == layer.units.total and stops(layer) for layer in worst):
        name = "dead after training" if has_moved(census) else "dead at the start"
        return measured(name, found, census, *places)
    return in_part(found, census, places, REVIVE)


RULE = Rule(
    "ALV001", "dead units", "warning", "units that are off, or saturated, for every point of the data",
    "The bias lies too low, the learning rate was too high, or the inputs have moved away from where the unit was "
    "on. A dead ReLU unit gets no gradient, so it does not come back by itself.",
    "A unit is an output feature of a layer, or a channel of a convolution. It is dead if its pre-activation is at "
    "or below the activation's cutoff (0 for ReLU) for every point, at every position: it is off. Where the "
    "activation has a ceiling (6 for ReLU6), a unit at or above it for every point is saturated: it lets as little "
    "through, and counts as dead too. One finding a layer; the threshold is a number of units of the layer, or a "
    "share of them.",
    "`alive.Jumpstart(model)` keeps units alive while the network trains; `alive shrink` removes them if it is "
    "trained; `alive cure` races all cures on your own data.",
    see, counts="units", is_open=open_units("dead"),
)  # fmt: skip
