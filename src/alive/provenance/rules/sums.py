"""Sums over axes, and windows that slide along them."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from torch import Tensor

from ..families import Families
from ..op import Op, Results
from ..owners import LOST, MANY, Owners, compact, is_lost, joined, nobody, reduced, varying
from .rule import Rule, both


def summed_over(op: Op, families: Families) -> Results:
    """Sums, means and extremes over axes."""
    x = op["self"] if "self" in op else next(op.tensors())
    o = op.of(x)
    outs = op.outputs()
    if not o.data:
        return [op.plain(t.ndim) for t in outs]
    dim = op["dim"]
    axes = list(range(x.ndim)) if dim is None or dim == [] else [dim] if isinstance(dim, int) else list(dim)
    axes = [axis % x.ndim for axis in axes] if x.ndim else []
    keep = bool(op["keepdim"]) if "keepdim" in op else False
    result = both(o, lambda owner: _sum(owner, axes, keep))
    if (kept := families.of_sum(o.unit, axes)) is not None:
        result = result._replace(unit=_sum(kept, axes, keep), pure=True, picked=False)
    return [result if t.is_floating_point() or t.is_complex() else result._replace(unit=nobody(t.ndim)) for t in outs]


def _sum(owner: Tensor, axes: Sequence[int], keep: bool) -> Tensor:
    owner = reduced(owner, axes)
    return owner if keep or not axes else owner.squeeze(tuple(axes))


def over(*names: str) -> Rule:
    """Operations along given axes that keep the shape's rank: what does not vary along them stays."""

    def rule(op: Op, families: Families) -> Results:
        x = next(op.tensors())
        o = op.of(x)
        given = next((op[name] for name in names if name in op), None)
        axes = [given] if isinstance(given, int) else list(given or [])
        found = kept_along(op, o, [axis % x.ndim for axis in axes] if x.ndim else [])
        return found if o.data else [op.plain(t.ndim) for t in op.outputs()]

    return rule


def running(op: Op, families: Families) -> Results:
    """cumsum: of zeros and ones along the points, as of who goes to an expert, it counts: each its own place."""
    x, o = op["self"], op.of(op["self"])
    dim = op["dim"] % max(x.ndim, 1)
    counts = not x.is_floating_point() or bool(((x == 0) | (x == 1)).all())
    if o.data and counts and x.ndim and dim in varying(o.point) and dim not in varying(o.unit):
        return o._replace(source=None)
    return over("dim")(op, families)


def kept_along(op: Op, o: Owners, axes: Sequence[int]) -> Owners:
    """The owners after something that mixes entries along some axes: lost, if different ones meet."""
    point, unit = (one_along(compact(owner), axes) for owner in (o.point, o.unit))
    mixed = is_lost(point) or is_lost(unit)
    return o._replace(point=point, unit=unit, source=None, why=o.why or (f"{op.func} mixes them" if mixed else ""))


def one_along(owner: Tensor, axes: Sequence[int]) -> Tensor:
    """The one owner along some axes, constants aside; lost if there are several."""
    found = reduced(owner, axes)
    return nobody(owner.ndim, LOST) if found is not owner and bool((found == MANY).any()) else found


def pooled(positions: int) -> Rule:
    """Pooling, resizing and their kin: along the last axes, which hold positions."""

    def rule(op: Op, families: Families) -> Results:
        x = next(op.tensors())
        outs = op.outputs()
        o = op.of(x)
        if not o.data:
            return [op.plain(t.ndim) for t in outs]
        kept = kept_along(op, o, [x.ndim - 1 - k for k in range(positions)])
        return [kept if t.is_floating_point() else kept._replace(unit=nobody(t.ndim)) for t in outs]

    return rule


def sampled(op: Op, families: Families) -> Results:
    """grid_sample: each image at the places its grid says."""
    x, grid = op["input"], op["grid"]
    kept = kept_along(op, op.of(x), range(2, x.ndim))
    asked = op.of(grid)
    axes = range(1, grid.ndim)
    point = reduced(asked.point, axes).view((-1,) + (1,) * (x.ndim - 1))
    return op.made(joined(kept.point, point), kept.unit, *(o for o in (kept, asked) if o.data))


def gridded(op: Op, families: Families) -> Results:
    """affine_grid: a grid of places for each map of theta [N, 2, 3]."""
    theta = op.of(op["theta"])
    point = reduced(theta.point, [1, 2])
    return op.made(
        point.unsqueeze(-1) if op.outputs()[0].ndim == 4 else point[..., None, None],
        nobody(op.outputs()[0].ndim),
        theta,
    )


def unfolded(op: Op, families: Families) -> Results:
    """im2col: windows of a map as columns; each channel appears once for every tap."""
    x = op["self"]
    kept = kept_along(op, op.of(x), [x.ndim - 1, x.ndim - 2])
    taps = prod(op["kernel_size"])

    def columns(owner: Tensor) -> Tensor:
        owner = owner.squeeze(-1)
        return owner if owner.shape[-2] == 1 else owner.repeat_interleave(taps, -2)

    return both(kept, columns)


def refolded(op: Op, families: Families) -> Results:
    """col2im: columns summed back into a map."""
    x = op["self"]
    o = kept_along(op, op.of(x), [x.ndim - 1])
    taps = prod(op["kernel_size"])

    def channels(owner: Tensor) -> Tensor:
        if owner.shape[-2] > 1:
            owner = reduced(owner.unflatten(-2, (-1, taps)), [-2]).squeeze(-2)
        return owner.unsqueeze(-1)

    return both(o, channels)


def counted(op: Op, families: Families) -> Results:
    """Indices at which something holds: they belong to no point, but depend on the data."""
    found = [op.of(t) for t in op.tensors()]
    if not any(o.data for o in found):
        return [op.plain(t.ndim) for t in op.outputs()]
    return [
        op.made(nobody(t.ndim, MANY), nobody(t.ndim), *(o for o in found if o.data), placed=True) for t in op.outputs()
    ]
