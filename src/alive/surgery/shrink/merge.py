"""Linear units: merged into as many as the next layer can tell apart, and whole linear layers fused with the next."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx, nn

from ..graph.channels import Layer, Reading, Space, steps_back
from ..graph.pieces import Pieces
from ..models import replace_module
from ..weights import (
    add_to_bias,
    bias_of,
    columns,
    cut,
    set_columns,
    set_parameter,
    set_weight,
    weight_of,
)
from .observed import Ends
from .record import Gone
from .remove import same_scale, units

MARGIN = 1e-6  # by which a new unit stays above its last knot, relative to its range


@dataclass(frozen=True, slots=True, eq=False)
class Linear:
    """The linear units of a layer: what they say is gains x + shifts.

    places     among the channels that are left
    gains      [L, n]; shifts [L]
    lo, hi     of what they say, [L]
    movable    whether a constant can be taken out of them into the next bias: no border of zeros, no padded mean
    """

    bent: fx.Node | None
    pieces: Pieces | None
    places: Tensor
    gains: Tensor
    shifts: Tensor
    lo: Tensor
    hi: Tensor
    movable: bool


def merge_linear(reading: Reading, space: Space, ends: Ends) -> list[Gone]:
    """Leave as many of the linear units as the rank of what the next layers read from them."""
    found = linear_units(reading, space, ends)
    if found is None or len(found.places) < 2:
        return []
    tolerance = same_scale(reading)
    rows = found.gains if found.movable else torch.cat([found.gains, found.shifts[:, None]], 1)
    basis = independent(rows, tolerance)
    seen = _factor(_read(space, found), rows, tolerance, fewer_than=len(basis)) if _can_mix(found) else None
    if seen is not None:
        return _mix(reading, space, found, seen, ends)
    if len(basis) < len(found.places):
        return _express(space, found, rows, basis)
    return []


def linear_units(reading: Reading, space: Space, ends: Ends) -> Linear | None:
    """The linear units of a space; None where its way from one layer to its readers is not straight."""
    way = straight_way(reading, space)
    if way is None:
        return None
    bent, kinds = way
    layer = space.producers[0]
    gains, shifts = weight_of(layer).flatten(1), bias_of(layer)
    lo, hi = (end[space.kept] for end in ends[bent if bent is not None else layer.node])
    pieces, places = None, torch.arange(len(shifts))
    if bent is not None:
        pieces = reading.pieces(bent)
        assert isinstance(bent.args[0], fx.Node)
        piece = pieces.within(*(end[space.kept] for end in ends[bent.args[0]]))
        slope, offset = pieces.slope(piece), pieces.offset(piece)
        places = ((piece >= 0) & (slope != 0)).nonzero()[:, 0]
        gains, shifts = slope[:, None] * gains, slope * shifts + offset
    movable = "padded" not in kinds and not any(reader.layer.padded for reader in space.readers)
    return Linear(bent, pieces, places, gains[places], shifts[places], lo[places], hi[places], movable)


def straight_way(reading: Reading, space: Space) -> tuple[fx.Node | None, set[str]] | None:
    """The one activation between a layer and its readers, and what else is on the way; None if there is more."""
    plain = len(space.producers) == 1 and space.readers and space.producers[0].groups == 1 and not space.is_joined
    if not plain or any(not isinstance(each, nn.PReLU) for each, _ in space.each):
        return None
    bents, kinds = set(), set()
    for reader in space.readers:
        if reader.layer.groups > 1:
            return None
        steps = list(steps_back(reading, reader, space.producers[0]))[::-1]
        bent = [place for place, (_, kind) in enumerate(steps) if kind == "bent"]
        if len(bent) > 1 or any(kind not in ("same", "mean", "padded", "bent") for _, kind in steps):
            return None
        if bent and any(kind != "same" for _, kind in steps[: bent[0]]):
            return None
        bents.add(steps[bent[0]][0] if bent else None)
        kinds |= {kind for _, kind in steps}
    return (bents.pop(), kinds) if len(bents) == 1 else None


def independent(rows: Tensor, tolerance: float) -> list[int]:
    """Rows that all others are combinations of, as few as there can be: Gram and Schmidt, the farthest row first.

    >>> independent(torch.tensor([[1.0, 0.0], [2.0, 0.0], [1.0, 1.0]]).double(), 1e-9)
    [0, 2]
    """
    left = rows / rows.norm(dim=1).clamp(min=torch.finfo(torch.float64).tiny)[:, None]
    basis: list[int] = []
    for _ in range(min(rows.shape)):
        far = left.norm(dim=1)
        place = int((far >= (1 - 1e-9) * far.max()).nonzero()[0])  # of rows that are equally far, the first
        if far[place] <= (tolerance if basis else 0):
            break
        basis.append(place)
        way = left[place] / far[place]
        left.addr_(left @ way, way, alpha=-1)
    return sorted(basis)


def _express(space: Space, found: Linear, rows: Tensor, basis: Sequence[int]) -> list[Gone]:
    """Write the other units as combinations of those in the basis; what is left over is a constant."""
    kept = torch.tensor(basis)
    others = torch.tensor([place for place in range(len(found.places)) if place not in set(basis)])
    solved = torch.linalg.lstsq(rows[kept].T, rows[others].T, driver="gelsd").solution.T  # [others, basis]
    rest = found.shifts[others] - solved @ found.shifts[kept] if found.movable else torch.zeros(len(others)).double()
    read = _read(space, found)
    outer, constants = read[:, kept] + read[:, others] @ solved, read[:, others] @ rest
    said = f"a combination of {len(basis)} others that are linear too"
    return _reread(space, found.places[kept], found.places[others], outer, constants, said)


def _read(space: Space, found: Linear) -> Tensor:
    """What all readers multiply the linear units by, one below the other."""
    return torch.cat([columns(reader, len(space.kept))[:, found.places] for reader in space.readers])


def _reread(space: Space, new: Tensor, old: Tensor, outer: Tensor, constants: Tensor, said: str) -> list[Gone]:
    """Let readers multiply the new units by other numbers and add constants, and cut the old units."""
    count, start = len(space.kept), 0
    for reader in space.readers:
        read = columns(reader, count)
        own = slice(start, start := start + len(read))
        add_to_bias(reader.layer, constants[own].reshape(len(reader.layer.module.weight), -1).sum(1))
        read[:, new] = outer[own]
        set_columns(reader, read)
    gone = [each for place in old.tolist() for each in units(space, place, "linear", said)]
    left = torch.ones(count, dtype=torch.bool)
    left[old] = False
    cut(space, left.nonzero()[:, 0])
    return gone


def _can_mix(found: Linear) -> bool:
    """Whether units can be made that are linear again: shifted far enough up, with the shift in the next bias."""
    if found.bent is None:
        return True
    assert found.pieces is not None
    bounded = bool((found.lo.isfinite() & found.hi.isfinite()).all())
    return found.movable and bounded and found.pieces.open_end is not None


@dataclass(frozen=True, slots=True, eq=False)
class Factors:
    """read @ rows = outer @ inner with as few inner rows as possible; inner = mixing @ rows."""

    outer: Tensor
    inner: Tensor
    mixing: Tensor


def _factor(read: Tensor, rows: Tensor, tolerance: float, *, fewer_than: int) -> Factors | None:
    """The factors, if there are fewer than so many."""
    if min(len(read), rows.shape[1]) >= fewer_than and fewer_than > 512:
        return None  # nothing makes a low rank likely, and it would take long to look
    outer, size, inner = torch.linalg.svd(read @ rows, full_matrices=False)
    rank = max(1, int((size > tolerance * size[0]).sum())) if len(size) else 0
    if not 0 < rank < fewer_than or float(size[0]) == 0:
        return None
    outer, size, inner = outer[:, :rank], size[:rank], inner[:rank]
    return Factors(outer * size, inner, (outer.T @ read) / size[:, None])


def _mix(reading: Reading, space: Space, found: Linear, seen: Factors, ends: Ends) -> list[Gone]:
    """Put new units, mixed of the linear ones, in the place of the first of them."""
    places, rank = found.places, len(seen.inner)
    layer = space.producers[0]
    new, old = places[:rank], places[rank:]
    weights, biases = weight_of(layer), bias_of(layer)
    inputs = weights.flatten(1).shape[1]
    least, most = _reach(found, seen)
    lifts = torch.zeros(rank).double()
    if found.pieces is not None and found.pieces.open_end is not None:  # so far up that they never fall below it
        lifts = found.pieces.open_end - least + MARGIN * (most - least)
    base = lifts if found.movable else torch.zeros(rank).double()
    _set_ends(reading, space, ends, space.kept[new], (least + base, most + base))
    weights[new] = seen.inner[:, :inputs].reshape(rank, *weights.shape[1:])
    biases[new] = seen.inner[:, inputs] if not found.movable else lifts
    set_weight(layer, weights)
    add_to_bias(layer, biases - bias_of(layer))
    read = _read(space, found)
    constants = read @ found.shifts - seen.outer @ lifts if found.movable else torch.zeros(len(read)).double()
    said = f"the next layer reads {rank} mixtures of {len(places)} linear units"
    return _reread(space, new, old, seen.outer, constants, said)


def _reach(found: Linear, seen: Factors) -> tuple[Tensor, Tensor]:
    """Between which numbers each mixture lies."""
    fixed = found.shifts if found.movable else torch.zeros_like(found.shifts)
    lo, hi = found.lo - fixed, found.hi - fixed
    up, down = seen.mixing.clamp(min=0), seen.mixing.clamp(max=0)
    least, most = up @ lo + down @ hi, up @ hi + down @ lo
    return least.nan_to_num(nan=-torch.inf), most.nan_to_num(nan=torch.inf)


def _set_ends(reading: Reading, space: Space, ends: Ends, units: Tensor, reach: tuple[Tensor, Tensor]) -> None:
    """From now on the new units are known by their own range, wherever they go: no step on their way bends them."""
    for node, (lo, hi) in list(ends.items()):
        if reading.space_of(node) is space:
            lo, hi = lo.clone(), hi.clone()
            lo[units], hi[units] = reach
            ends[node] = lo, hi


def fuse_linear(reading: Reading, space: Space, ends: Ends) -> list[Gone] | str:
    """Fuse a layer whose units are all linear with the one that reads it; in words why not, if it cannot be."""
    found = linear_units(reading, space, ends)
    if found is None or len(found.places) < len(space.kept) or len(space.readers) != 1:
        return []
    first, second = space.producers[0], space.readers[0].layer
    shape = first.node.meta["val"].shape
    steps = steps_back(reading, space.readers[0], first)
    if any(kind not in ("same", "bent") or node.meta["val"].shape != shape for node, kind in steps):
        return f"{first.path} is wholly linear, but what it says is reshaped before {second.path} reads it"
    activation = None if found.bent is None else reading.module_of(found.bent)
    if found.bent is not None and activation is None:
        return f"{first.path} is wholly linear, but its activation is no module of its own that could be taken out"
    made = _product(first, second, found)
    if made is None:
        return f"{first.path} is wholly linear, but the kernels of two convolutions would make a larger one"
    weight, bias, geometry = made
    numbers = sum(p.numel() for layer in (first, second) for p in layer.module.parameters())
    if weight.numel() + bias.numel() > numbers:
        return f"{first.path} is wholly linear, but fused with {second.path} it would have more weights"
    gone = [
        gone
        for place in range(len(space.kept))
        for gone in units(space, place, "fused", f"{first.path} is one affine map with {second.path}")
    ]
    replace_module(reading.model, first.module, nn.Identity())
    if activation is not None:
        replace_module(reading.model, activation[1], nn.Identity())
    fused = deepcopy(geometry.module)
    replace_module(reading.model, second.module, fused)
    second.module, second.padded = fused, first.padded or second.padded
    set_weight(second, weight)
    set_parameter(fused, "bias", bias)
    for reader in (reader for each in reading.all_spaces() for reader in each.readers if reader.layer is first):
        reader.layer = second
    space.fixed = f"{first.path} is part of {second.path} now"
    return gone


def _product(first: Layer, second: Layer, found: Linear) -> tuple[Tensor, Tensor, Layer] | None:
    """Weight and bias of two layers in one, and the layer whose kernel, stride and padding it has."""
    read = weight_of(second)
    gains = found.gains.reshape(len(found.gains), *weight_of(first).shape[1:])
    if isinstance(first.module, nn.Linear):
        return read @ gains, read @ found.shifts + bias_of(second), first
    if _is_pointwise(second):
        read = read.flatten(1)
        return torch.einsum("oc,c...->o...", read, gains), read @ found.shifts + bias_of(second), first
    if _is_pointwise(first) and (not second.padded or bool((found.shifts == 0).all())):
        weight = torch.einsum("oc...,cn->on...", read, gains.flatten(1))
        return weight, read.flatten(2).sum(2) @ found.shifts + bias_of(second), second
    return None


def _is_pointwise(layer: Layer) -> bool:
    module: Any = layer.module
    one = all(size == 1 for size in (*module.kernel_size, *module.stride))
    return one and not layer.padded and layer.groups == 1
