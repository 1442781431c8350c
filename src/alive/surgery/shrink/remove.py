"""Channels that can go at once: constant ones, those that nobody reads, and multiples of another."""

from __future__ import annotations

import torch
from torch import Tensor

from ..graph.channels import Layer, Reading, Space, steps_back
from ..weights import add_to_bias, bias_of, columns, constant, cut, set_columns, weight_of
from .observed import Ends
from .record import Gone

ULPS = 16  # rounding, in units of the last place, within which two numbers that were computed alike are the same


def same_scale(reading: Reading) -> float:
    """What counts as rounding, relative to the numbers that are compared."""
    kinds = [p.dtype for p in reading.model.parameters() if p.is_floating_point()]
    return ULPS * max((torch.finfo(kind).eps for kind in kinds), default=2.0**-52)


def remove_quiet(reading: Reading, space: Space, ends: Ends) -> list[Gone]:
    """Remove channels that say the same for all points, once it is in the next bias, and those that nobody reads."""
    if not space.readers:
        return []
    unread = torch.stack([(columns(reader, len(space.kept)) == 0).all(0) for reader in space.readers]).all(0)
    still, values = _constants(reading, space, ends)
    gone = evened(space, unread | still)
    if not gone.any():
        return []
    dead = torch.stack([value == 0 for value in values]).all(0)
    found = []
    for place in gone.nonzero()[:, 0].tolist():
        why = "unread" if not still[place] else "dead" if dead[place] else "constant"
        said = "" if why != "constant" else f"always {float(values[0][place]):.4g}, which is in the next bias"
        found += units(space, place, why, said)
    for reader, value in zip(space.readers, values, strict=True):
        add_to_bias(reader.layer, constant(reader, torch.where(gone & still, value, 0.0)))
    cut(space, (~gone).nonzero()[:, 0])
    return found


def remove_multiples(reading: Reading, space: Space) -> list[Gone]:
    """Remove units whose weights and bias are a positive multiple of another's; their readers read the other more."""
    rows = _rows(reading, space)
    if rows is None or len(rows) < 2:
        return []
    target, factor = _multiples(rows, same_scale(reading), free=_scales(reading, space))
    gone = evened(space, target >= 0)
    if not gone.any():
        return []
    found = []
    places = gone.nonzero()[:, 0].tolist()
    mix = torch.eye(len(rows), dtype=torch.float64)
    for place in places:
        other = int(target[place])
        mix[place] = 0
        mix[place, other] = factor[place]
        said = f"{float(factor[place]):.6g} times unit {int(space.kept[other])}, by its weights"
        found += units(space, place, "multiple", said)
    for reader in space.readers:
        set_columns(reader, columns(reader, len(rows)) @ mix)
    cut(space, (~gone).nonzero()[:, 0])
    return found


def evened(space: Space, gone: Tensor) -> Tensor:
    """As many of the channels [C] as may go: one must stay, and grouped layers need as many in every group."""
    layers = [*space.producers, *(reader.layer for reader in space.readers)]
    gone = gone.clone()
    while True:
        before = gone.clone()
        for groups in {1, *(layer.groups for layer in layers)}:
            parts = gone.reshape(groups, -1)  # a view: what is set here is set in gone
            most = min(int(parts.sum(1).min()), parts.shape[1] - 1)
            parts &= parts.cumsum(1) <= most
        if torch.equal(before, gone):
            return gone


def units(space: Space, place: int, why: str, said: str = "") -> list[Gone]:
    """A channel that goes, as the unit of each layer that made it."""
    number = int(space.kept[place])
    made = [*space.producers, *(each for each, _ in space.each if isinstance(each, Layer))]
    return [Gone(layer.path, number, why, said) for layer in made]


def _constants(reading: Reading, space: Space, ends: Ends) -> tuple[Tensor, list[Tensor]]:
    """Which channels are the same for all points wherever they are read, and what they are there.

    Where zeros stand around what a layer reads, only zero is the same everywhere.
    """
    still, values = [], []
    for reader in space.readers:
        lo, hi = (end[space.kept] for end in reader.place.own(ends[reader.source]))
        size = torch.maximum(lo.abs(), hi.abs())
        same = size.isfinite() & (hi - lo <= same_scale(reading) * size)
        still.append(same & (size == 0) if reader.layer.padded else same)
        values.append(torch.where(same, (lo + hi) / 2, 0.0))
    return torch.stack(still).all(0), values


def _rows(reading: Reading, space: Space) -> Tensor | None:
    """Weights and biases of the one layer whose units the channels are [C, n]; None where units cannot be compared."""
    if space.is_joined or len(space.producers) != 1 or "tie" in space.steps.values() or "norm" in space.steps.values():
        return None
    if any(isinstance(each, Layer) for each, _ in space.each):
        return None
    layer = space.producers[0]
    if layer.groups > 1 or any(reader.layer.groups > 1 for reader in space.readers) or not space.readers:
        return None
    rows = [weight_of(layer).flatten(1), bias_of(layer)[:, None]]
    slopes = [reading.pieces(node).slopes for node, kind in space.steps.items() if kind == "bent"]
    rows += [slope.T for slope in slopes if slope.shape[1] > 1]  # units of other slopes are no multiples
    return torch.cat(rows, 1)


def _scales(reading: Reading, space: Space) -> bool:
    """Whether k times as much before all steps is k times as much behind them, for every k > 0."""
    for reader in space.readers:
        for node, kind in steps_back(reading, reader, space.producers[0]):
            bent = kind == "bent" and reading.pieces(node).homogeneous and reading.pieces(node).slopes.shape[1] == 1
            if not bent and kind not in ("same", "mean", "padded", "max"):
                return False
    return True


def _multiples(rows: Tensor, tolerance: float, *, free: bool) -> tuple[Tensor, Tensor]:
    """For each row the first one that it is a positive multiple of, or -1, and the factor; only equal ones if not free.

    >>> _multiples(torch.tensor([[1.0, 2.0], [3.0, 0.0], [2.0, 4.0]]).double(), 1e-12, free=True)[0].tolist()
    [-1, -1, 0]
    """
    norms = rows.norm(dim=1)
    target, factor = torch.full((len(rows),), -1), torch.ones(len(rows), dtype=torch.float64)
    unit = rows / norms.clamp(min=torch.finfo(torch.float64).tiny)[:, None]
    near = (unit @ unit.T) > 1 - 1e-6
    for place in range(len(rows)):
        if norms[place] == 0:
            continue
        for other in near[place, :place].nonzero()[:, 0].tolist():
            if target[other] >= 0 or norms[other] == 0:
                continue
            k = float(norms[place] / norms[other]) if free else 1.0
            if bool(((rows[place] - k * rows[other]).abs() <= tolerance * rows[place].abs()).all()):  # number by number
                target[place], factor[place] = other, k
                break
    return target, factor
