"""The ends of a layer's groups on any device: their values, and where they lie, in shapes that no value decides.

`torch.max` and `torch.min` give an end and its place at once; of equal values it is the first, whatever `ties` says,
because sharing would take a second reading of z. Backward adds to the gradient of z at these places. So nothing waits
for the device, and of a layer no more is kept than one number a group and side. The rule, `separation.slack`, is
applied to the ends of all layers in a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import NamedTuple

import torch
from torch import Tensor

from ..torch_private import FakeTensor, is_faked, is_transformed
from .separation import Slacks, slack
from .way import Way


class Ends(NamedTuple):
    """The largest and the smallest value of each group, as the rule has it: [sides, groups], the axes in a row."""

    values: Tensor
    way: Way


class Lines(NamedTuple):
    """Where groups lie in a layer: that of a value is start + step · the index that was found, for each group.

    In memory (`start`, `step`), and among the cells [N, C], whose own values are the positions.
    """

    start: Tensor
    step: Tensor
    cell_start: Tensor
    cell_step: Tensor


def locate(z: Tensor, way: Way) -> tuple[Tensor, Tensor]:
    """The ends [sides, groups] of z [N, C, *positions], and their places in the order of memory."""
    sides = [torch.max if sign > 0 else torch.min for sign in way.rule.signs]
    z = z.flatten(2) if z.ndim > 2 else z.unsqueeze(2)
    N, C, _ = z.shape
    ends = z.new_empty(len(sides), sum(way.sizes))
    found = ends.new_empty(ends.shape, dtype=torch.long)
    pooled = way.pools
    within = found.new_empty(len(sides), N, C) if pooled else found
    for side, pick in enumerate(sides):
        cells = z
        if pooled:
            cells = z.new_empty(N, C)
            pick(z, 2, out=(cells, within[side]))
        begin = 0
        for axis, size in zip(way.names, way.sizes, strict=True):
            row = slice(begin, begin + size)
            whole = cells.reshape(-1) if axis == "L" else cells
            shape = whole.shape[1:] if axis != "P" else (N, *whole.shape[2:])
            out = ends[side, row].view(shape), found[side, row].view(shape)
            pick(whole, 1 if axis == "P" else 0, out=out)
            begin += size
    lines = lines_of(way, z)
    places = torch.addcmul(lines.start, found, lines.step)
    if pooled:
        cells_found = torch.addcmul(lines.cell_start, found, lines.cell_step)
        places.add_(within.flatten(1).gather(1, cells_found), alpha=C if way.by_rows else 1)
    return ends, places


def lines_of(way: Way, z: Tensor) -> Lines:
    """The lines of a way, made once for a device; of tensors without values they would be no use afterwards."""
    if isinstance(z, FakeTensor) or is_faked():
        with getattr(z, "fake_mode", nullcontext()):
            return _lines(way, z.device)
    if z.device not in way.lines:
        with torch.inference_mode(False):
            way.lines[z.device] = _lines(way, z.device)
    lines: Lines = way.lines[z.device]
    return lines


def _lines(way: Way, device: torch.device) -> Lines:
    N, C, P = (*way.shape[:2], way.shape[2:].numel())
    n, c, p = (torch.arange(size, device=device) for size in (N, C, 1 if way.pools else P))
    of_point, of_unit, of_position = (P * C, 1, C) if way.by_rows else (C * P, P, 1)
    rows = []
    for axis in way.names:
        if axis == "L":
            whole = torch.zeros(1, dtype=torch.long, device=device)
            rows.append((whole, whole + (P if way.pools else 1), whole, whole + 1))
            continue
        own, step, cell, cell_step = (c * of_unit, of_point, c, C) if axis == "U" else (n * of_point, of_unit, n * C, 1)
        start = (own.unsqueeze(1) + p * of_position).flatten()
        rows.append((start, torch.full_like(start, step), cell, torch.full_like(cell, cell_step)))
    return Lines(*map(torch.cat, zip(*rows, strict=True)))


def add(grad: Tensor, places: Tensor, upstream: Tensor) -> None:
    """Add to a gradient, seen in the order in which places are numbered, what comes from that of the ends."""
    flat, amount = grad.reshape(-1), upstream.to(grad.dtype).flatten()
    if is_transformed():  # a batch of gradients
        flat = flat.scatter_add(0, places.flatten(), amount)
    else:
        flat.scatter_add_(0, places.flatten(), amount)
    if is_transformed() or not grad.is_contiguous():
        grad.copy_(flat.view_as(grad))


def slacks(layers: Sequence[Ends]) -> list[Slacks]:
    """The slacks of layers of one rule, dtype and device, all in a row."""
    dtype = torch.promote_types(layers[0].values.dtype, torch.float32)
    from_cutoff = [values.to(dtype) - way.cutoff if way.cutoff else values for values, way in layers]
    ends = torch.cat(from_cutoff, 1).to(dtype)
    s = slack(ends[0], ends[-1], layers[0].way.rule)
    parts = iter(s.split([size for layer in layers for size in layer.way.sizes]))
    return [{axis: next(parts) for axis in layer.way.names} for layer in layers]
