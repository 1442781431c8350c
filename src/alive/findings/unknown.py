"""What cannot be told: layers, operations that cannot be counted, batch norms that have seen no data."""

from __future__ import annotations

from ..diagnosis.record import Census
from .finding import WORST, Finding, Place, Rule, at

SAY = "say what lies where: point_axis, or alive.Declared (docs/guide.md, What is unknown)"


def see_layers(census: Census) -> Finding | None:
    """Layers whose units or points cannot be told."""
    layers = [layer for layer in census.layers if layer.unknown]
    if not layers:
        return None
    told = " / ".join(f"{layer.name}, {'; '.join(layer.unknown)}" for layer in layers[:WORST])
    more = f", and {len(layers) - WORST} layers more" if len(layers) > WORST else ""
    text = "unknown in {}: {}"
    places = [at(layer, text.format(layer.label or layer.name, "; ".join(layer.unknown))) for layer in layers]
    return Finding(f"unknown in {told}{more}", SAY, places=tuple(places))


def see_operations(census: Census) -> Finding | None:
    """Operations that were noticed, and could not be counted."""
    told = [f"{a.name} {a.why} ({a.share:.1%} of the parameters)" for a in census.unseen]
    places = tuple(Place(message=f"not counted: {text}") for text in told)
    return Finding(f"not counted: {', '.join(told)}", SAY, places=places) if told else None


def see_norms(census: Census) -> Finding | None:
    """Batch norms do in training what fresh ones do not do in a census."""
    norms = census.unsettled
    if not norms:
        return None
    which = f"{norms[0]} has" if len(norms) == 1 else f"{len(norms)} batch norms ({norms[0]} first) have"
    return Finding(
        f"{which} seen no data yet: in eval mode they do nothing, and what is counted here is not what training sees",
        "take the census after some steps of training, or judge fresh starts by alive preflight, which settles them",
    )


LAYERS = Rule(
    "ALV012", "a layer that is unknown", "note", "a layer whose units or points cannot be told",
    "The layout of its numbers could not be followed: an operation of your own, a sum over the points.",
    "Units and points are followed through each operation of a pass. Where that ends, nothing is guessed.",
    "Say what lies where: `point_axis`, or `alive.Declared` (docs/guide.md, What is unknown).",
    see_layers, unknown=True,
)  # fmt: skip
OPERATIONS = Rule(
    "ALV013", "an activation that is not counted", "note",
    "a one-sided operation that was noticed and cannot be counted",
    "It is inside TorchScript or a fused call, or its values alone show that it is one-sided.",
    "Every operation whose result is never below its least value is noticed in the first pass; what is no "
    "activation that the census can watch is listed, with its share of the parameters.",
    "Declare the module: `alive.Declared(activations={MyReLU: alive.Activation(\"mine\")})`; or write the activation "
    "as a call of torch.",
    see_operations, unknown=True,
)  # fmt: skip
NORMS = Rule(
    "ALV014", "batch norms that have seen no data", "note",
    "a census of a network whose batch norms do nothing yet",
    "A fresh batch norm has mean 0 and variance 1 in eval mode, which is not what training sees.",
    "A batch norm is unsettled if it has tracked no batch. Then the census gives no verdict on the signal.",
    "Take the census after some steps of training, or judge fresh starts by `alive preflight`, which settles them.",
    see_norms, unknown=True,
)  # fmt: skip
