"""Units that bend on a small share of the data, made not to: their function changes there, and then they can go."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import torch
from torch import Tensor, fx

from ..graph.calls import Call
from ..graph.channels import Reading
from ..weights import add_to_bias, bias_of, constant, set_weight, weight_of
from .merge import straight_way
from .record import Straightened

MARGIN = 0.1  # of its range, by which a unit made linear stays above its knot: what reaches it has changed a little too


class Passed(NamedTuple):
    """Of the values before an activation, by channel [C]: how many lie above its knot, of how many, least and most."""

    above: Tensor
    of: int
    lo: Tensor
    hi: Tensor

    def plus(self, other: Passed) -> Passed:
        """Those of more points."""
        ends = torch.minimum(self.lo, other.lo), torch.maximum(self.hi, other.hi)
        return Passed(self.above + other.above, self.of + other.of, *ends)


def straighten(reading: Reading, calls: Iterable[Call], size: int, share: float) -> Straightened:
    """Change the weights of every unit that bends for some, but less than this share of its values.

    One that is hardly ever on is made silent. One that is hardly ever off is lifted until it never is, and what it
    says too much is taken out of the next biases. Where that cannot be said by weights, it stays.
    """
    ways = [
        (space, way[0]) for space in reading.all_spaces() if not space.fixed and (way := straight_way(reading, space))
    ]
    bent = {node.args[0]: reading.pieces(node) for _, node in ways if node is not None}
    knots = {
        source: pieces.knots[0]
        for source, pieces in bent.items()
        if pieces.open_end is not None and len(pieces.knots) == 1
    }
    seen = _passed(reading, calls, size, knots)
    dead, linear, layers = 0, 0, []
    for space, node in ways:
        source: Any = None if node is None else node.args[0]
        if source not in seen:
            continue
        own, layer, knot = seen[source], space.producers[0], knots[source]
        rarely, mostly = ((n > 0) & (n < share * own.of) for n in (own.above, own.of - own.above))
        rarely &= bool((bent[source].slopes[0] == 0).all())
        mostly &= not any(reader.layer.padded for reader in space.readers)
        weights, bias = weight_of(layer), bias_of(layer)
        lift = torch.where(mostly, knot - own.lo + MARGIN * (own.hi - own.lo), 0.0)
        weights[rarely] = 0.0
        set_weight(layer, weights)
        add_to_bias(layer, torch.where(rarely, knot, bias + lift) - bias)
        for reader in space.readers:
            add_to_bias(reader.layer, constant(reader, -lift))
        dead, linear = dead + int(rarely.sum()), linear + int(mostly.sum())
        p = torch.stack([own.above, own.of - own.above]).double() / own.of
        entropy = float(-torch.special.xlogy(p, p).sum(0).mean() / torch.tensor(2.0).log())
        layers.append((layer.path, len(bias), entropy, int((rarely | mostly).sum())))
    return Straightened(share, dead, linear, tuple(layers))


def _passed(reading: Reading, calls: Iterable[Call], size: int, knots: dict[Any, float]) -> dict[fx.Node, Passed]:
    found: dict[fx.Node, Passed] = {}
    real = size  # points of a call; what it is filled up with does not count

    def note(node: fx.Node, value: Any) -> None:
        if node in knots:
            layout = reading.layouts[node]
            each = value[: len(value) // size * real] if layout.axis and not len(value) % size else value
            parts = each.detach().reshape(*each.shape[: layout.axis], layout.channels, -1)
            parts = parts.movedim(layout.axis, 0).flatten(1)
            own = Passed((parts > knots[node]).sum(1).cpu(), parts.shape[1], *layout.extremes(each))
            found[node] = found[node].plus(own) if node in found else own

    with torch.no_grad():
        for call in calls:
            for number, part in enumerate(call.sized(size)):
                real = min(size, call.points - number * size)
                reading.run(part, note)
    return found
