"""NaN or infinite pre-activations."""

from __future__ import annotations

from ..diagnosis.record import Census
from .finding import Finding, Rule, counted, has_moved, measured, named, open_units


def is_broken(census: Census) -> bool:
    """Whether some numbers are not finite."""
    return any(layer.units.broken for layer in census.layers)


def see(census: Census) -> Finding | None:
    """The first layer is named: what follows may follow from it."""
    worst = [layer for layer in census.layers if layer.units.broken]
    if not worst:
        return None
    how = ": training went astray" if has_moved(census) else ", in a fresh network"
    found = f"NaN or infinite pre-activations from {named(census, worst[:1])} on{how}"
    places = [counted(layer, layer.units.broken, "are NaN or infinite for some point") for layer in worst]
    name = "infinite after training" if has_moved(census) else "infinite at the start"
    return measured(name, found, census, *places)


RULE = Rule(
    "ALV005", "numbers that are not finite", "error", "NaN or infinite pre-activations",
    "The weights or the inputs are too large, or training went astray.",
    "A unit is broken if its pre-activation is NaN or infinite for some point. The threshold is a number of units "
    "of the layer, or a share.",
    "Start anew, at a tenth of the learning rate; look for NaN in the data; clip gradients.",
    see, counts="units", is_open=open_units("broken"),
)  # fmt: skip
