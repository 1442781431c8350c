"""All units of every layer do the same, as after a constant start."""

from __future__ import annotations

from ..diagnosis.record import Census, LayerCensus
from .finding import Finding, Rule, at, measured, named
from .linear import hides_units


def see(census: Census) -> Finding | None:
    """They learn as one unit."""
    if not census.layers or not all(map(_is_alike, census.layers)):
        return None
    first = census.layers[0]
    found = f"all units of every layer do the same, from {named(census, [first])} on: they learn as one unit"
    return measured("units alike", found, census, at(first, found))


def _is_alike(layer: LayerCensus) -> bool:
    top, bottom = layer.top, layer.bottom
    same = len(top) > 1 and bool((top == top[0]).all() and (bottom == bottom[0]).all())
    return same and bool(top[0] > layer.activation.cutoff)


RULE = Rule(
    "ALV009", "units that are alike", "error", "all units of every layer do the same",
    "The network starts from constants. Units with the same weights get the same gradients, so they stay the same.",
    "In every layer, all units have the same largest and the same smallest pre-activation over the data.",
    "Start anew with weights that are drawn: `alive.nn.initialise_(model, \"kaiming\")`.",
    see, is_open=hides_units,
)  # fmt: skip
